package daemon

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/configfile"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/flags"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// configFlag is the flag for the configuration file, the only flag without a key in it.
const configFlag = "config"

func isBool(v flag.Value) bool {
	b, ok := v.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// givenFlags returns the values of the flags that args have, without setting them.
func givenFlags(f *flag.FlagSet, args []string) (map[string][]string, error) {
	given := map[string][]string{}
	scratch := flag.NewFlagSet(f.Name(), flag.ContinueOnError)
	scratch.SetOutput(io.Discard)
	f.VisitAll(func(fl *flag.Flag) {
		set := func(s string) error { given[fl.Name] = append(given[fl.Name], s); return nil }
		if isBool(fl.Value) {
			scratch.BoolFunc(fl.Name, "", set)
		} else {
			scratch.Func(fl.Name, "", set)
		}
	})
	return given, parseFlags(scratch, args)
}

// readConfig reads the configuration file and sets the flags that it has.
func readConfig(f *flag.FlagSet, file string) ([]configfile.Entry, error) {
	entries, err := configfile.Read(file)
	if err != nil {
		return nil, fmt.Errorf("flag -config: %w", err)
	}
	for _, e := range entries {
		if err := setEntry(f, e); err != nil {
			err.File = file
			return nil, fmt.Errorf("flag -config: %w", err)
		}
	}
	return entries, nil
}

// setEntry sets the flag of a key.
func setEntry(f *flag.FlagSet, e configfile.Entry) *configfile.Error {
	wrong := func(line int, format string, args ...any) *configfile.Error {
		return &configfile.Error{Line: line, Key: e.Key, Text: fmt.Sprintf(format, args...)}
	}
	fl := f.Lookup(e.Key)
	switch {
	case e.Key == configFlag:
		return wrong(e.Line, "a configuration file cannot name another one: remove the key")
	case fl == nil:
		var known []string
		f.VisitAll(func(fl *flag.Flag) {
			if fl.Name != configFlag {
				known = append(known, fl.Name)
			}
		})
		hint := similar.Question(e.Key, known)
		if hint == "" {
			hint = "the keys are the names of the flags, which -h lists"
		}
		return wrong(e.Line, "unknown; %s", hint)
	}
	_, isList := fl.Value.(*flags.List)
	switch {
	case e.List && !isList:
		return wrong(e.Line, "a list, but the key takes one value: write %s: VALUE", e.Key)
	case !e.List && isList:
		return wrong(e.Line, "one value, but the key takes a list: write %s: and, on a line of its own, each value after a dash and a blank", e.Key)
	}
	for _, v := range e.Values {
		if isBool(fl.Value) && v.Text != "true" && v.Text != "false" {
			return wrong(v.Line, "value %q: want true or false", v.Text)
		}
		if err := f.Set(e.Key, v.Text); err != nil {
			_, usage := flag.UnquoteUsage(fl)
			return wrong(v.Line, "value %q: %v; it is: %s", v.Text, err, usage)
		}
	}
	return nil
}

// setting is the value of a flag.
type setting struct {
	name   string
	list   bool
	values []string
	source string // "" for a default
}

// settingsOf returns the settings of all flags except -config.
func settingsOf(f *flag.FlagSet, given map[string][]string, file string, entries []configfile.Entry) []setting {
	var all []setting
	f.VisitAll(func(fl *flag.Flag) {
		if fl.Name == configFlag {
			return
		}
		_, isList := fl.Value.(*flags.List)
		s := setting{name: fl.Name, list: isList}
		if !isList {
			s.values = []string{fl.DefValue}
		}
		if i := slices.IndexFunc(entries, func(e configfile.Entry) bool { return e.Key == fl.Name }); i >= 0 {
			s.values, s.source = nil, fmt.Sprintf("%s:%d", file, entries[i].Line)
			for _, v := range entries[i].Values {
				s.values = append(s.values, v.Text)
			}
		}
		if values := given[fl.Name]; values != nil {
			s.values, s.source = values, "command line"
			if !isList {
				s.values = values[len(values)-1:]
			}
		}
		all = append(all, s)
	})
	return all
}

// print writes a setting as a configuration file can have it. Defaults are comments.
func (s setting) print(w io.Writer) {
	switch {
	case s.source == "" && s.list:
		fmt.Fprintf(w, "# %s: none\n", s.name)
	case s.source == "":
		fmt.Fprintf(w, "# %s: %s\n", s.name, configfile.Quote(s.values[0]))
	case s.list:
		fmt.Fprintf(w, "%s: # %s\n", s.name, s.source)
		for _, v := range s.values {
			fmt.Fprintf(w, "  - %s\n", configfile.Quote(v))
		}
	default:
		fmt.Fprintf(w, "%s: %s # %s\n", s.name, configfile.Quote(s.values[0]), s.source)
	}
}

// Config runs the verb config if args begin with it: "config check" and flags print the
// settings that serving with these flags would have, or what is wrong with them. The exit code is 2
// if the program would not start, and 1 if it would serve the pipes, and log an error.
func Config(p Program, args []string, stdout, stderr io.Writer) (code int, isVerb bool) {
	if len(args) == 0 || args[0] != "config" {
		return 0, false
	}
	fail := func(err error) (int, bool) {
		fmt.Fprintf(stderr, "%s config check: %v\n", p.Name, err)
		return exitUsage, true
	}
	if len(args) < 2 || args[1] != "check" {
		fmt.Fprintf(stderr, "%s config: want %[1]s config check [-config=FILE] [FLAGS]\n", p.Name)
		return exitUsage, true
	}
	o, err := parse(p, args[2:], stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK, true
	}
	if err != nil {
		return fail(err)
	}
	if _, err := o.pipes(); err != nil {
		return fail(err)
	}
	if o.pipeSDDL != "" {
		if _, err := pipes.ListenWith(o.pipeSDDL); err != nil {
			return fail(fmt.Errorf("flag -pipe-sddl: %w", err))
		}
		if warning := o.openPipes(); warning != "" {
			fmt.Fprintf(stderr, "%s config check: warning: %s\n", p.Name, warning)
		}
	}
	if problems := winpath.DirProblems(o.AllWorkingDirs()); len(problems) > 0 {
		return fail(errors.New(strings.Join(problems, "; ")))
	}
	// What the start would log as an error, and serve the pipes without.
	unserved := cmp.Or(o.noLogFile(), o.log.Check())
	for flag, address := range map[string]string{metricsFlag: o.metricsAddress, pprofFlag: o.pprofAddress} {
		if err := checkAddress(address); err != nil && unserved == nil {
			unserved = fmt.Errorf("flag -%s=%s: %w; want host:port, such as 127.0.0.1:9808 or [::1]:9808", flag, address, err)
		}
	}
	if unserved != nil {
		fail(unserved)
		return exitFailure, true
	}
	from := "the defaults"
	if o.config != "" {
		from = o.config
	}
	fmt.Fprintf(stdout, "# The settings of %s with %s and the command line. What is a comment is a default.\n", p.Name, from)
	for _, s := range o.settings {
		s.print(stdout)
	}
	return exitOK, true
}
