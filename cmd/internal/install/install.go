// Package install installs csi-proxy as a Windows service, upgrades it, shows how it is
// installed, and removes it.
//
// Each verb is a list of steps. A step says what it does before it does it, and if a later
// one fails, those before are undone, last first, so that a failed install leaves nothing
// and a failed upgrade leaves what ran before. With -dry-run the steps are only said.
package install

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

// ServiceName is the name of the service that install makes, which published instructions use as well.
const ServiceName = winsvc.Name

// Exit codes.
const (
	exitOK           = 0
	exitFailure      = 1
	exitUsage        = 2
	exitNotServing   = 3 // of status
	exitNotInstalled = 4 // of status
)

// A Program is the program that is installed.
type Program struct {
	// Version is the version of this build.
	Version string
	// Pipes returns the paths of the pipes that the daemon serves with these flags, or what
	// is wrong with the flags.
	Pipes func(flags []string) ([]string, error)
}

// A command is what the command line asks for.
type command struct {
	program Program
	out     io.Writer

	dryRun  bool
	dir     string   // where install puts the program
	start   string   // when Windows starts the service
	noStart bool     // install does not start it
	service string   // the service, if its name is given
	flags   []string // of the daemon, after "--"
	pipes   []string // that the daemon serves with these flags
}

// When Windows starts the service.
const (
	startAuto    = "auto"
	startDelayed = "delayed-auto"
	startDemand  = "demand"
)

var startTypes = []string{startAuto, startDelayed, startDemand}

// verbs are the verbs, with what they do.
var verbs = []struct {
	name, does string
	run        func(*command) (int, error)
}{
	{"install", "install this program as the Windows service " + ServiceName + " and start it", (*command).install},
	{"upgrade", "replace the program of the service by this one; if it does not serve, put the old one back", (*command).upgrade},
	{"status", "show the service, its program and its pipes", (*command).status},
	{"uninstall", "stop the service and remove it; volumes, mounts and mappings stay", (*command).uninstall},
}

// Run runs the verb that args begin with. If they begin with none, it returns false and
// does nothing.
func Run(p Program, args []string, stdout, stderr io.Writer) (code int, isVerb bool) {
	if len(args) == 0 {
		return 0, false
	}
	for _, v := range verbs {
		if v.name != args[0] {
			continue
		}
		c, err := parse(p, v.name, args[1:], stdout, stderr)
		if errors.Is(err, flag.ErrHelp) {
			return exitOK, true
		}
		if err != nil {
			fmt.Fprintf(stderr, "csi-proxy %s: %v; csi-proxy %s -h shows its flags\n", v.name, err, v.name)
			return exitUsage, true
		}
		code, err := v.run(c)
		if err != nil {
			fmt.Fprintf(stderr, "csi-proxy %s: %v\n", v.name, err)
		}
		return code, true
	}
	return 0, false
}

// parse parses the arguments of a verb.
func parse(p Program, verb string, args []string, stdout, stderr io.Writer) (*command, error) {
	c := &command{program: p, out: stdout}
	f := flag.NewFlagSet(verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	if verb != "status" {
		f.BoolVar(&c.dryRun, "dry-run", false, "say what would be done, and do nothing")
	}
	if verb != "install" {
		f.StringVar(&c.service, "service-name", "", "the service, by its `name`: of one that another installer has made, or of several")
	}
	if verb == "install" {
		f.StringVar(&c.dir, "dir", "", "`directory` of the program and its logs (default %ProgramFiles%\\csi-proxy)")
		f.StringVar(&c.start, "start", startAuto, "`when` Windows starts the service: "+strings.Join(startTypes, ", "))
		f.BoolVar(&c.noStart, "no-start", false, "do not start the service now")
	}
	if i := slices.Index(args, "--"); i >= 0 {
		if verb != "install" {
			return nil, fmt.Errorf("no flags for the service are taken here, so %q is too much: it keeps those that it was installed with", args[i:])
		}
		args, c.flags = args[:i], args[i+1:]
	}
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		usage(stderr, verb, f)
		return nil, err
	case err != nil:
		return nil, err
	case f.NArg() > 0:
		hint := ""
		if verb == "install" {
			hint = `; flags of the service follow "--"`
		}
		return nil, fmt.Errorf("unexpected argument %q%s", f.Arg(0), hint)
	}
	if verb == "install" && !slices.Contains(startTypes, c.start) {
		return nil, fmt.Errorf("flag -start=%s: want one of %s", c.start, strings.Join(startTypes, ", "))
	}
	pipes, err := p.Pipes(append([]string{"-windows-service"}, c.flags...))
	if err != nil {
		return nil, fmt.Errorf("flags of the service: %w", err)
	}
	c.pipes = pipes
	return c, nil
}

// errNone is the error of choose without a service.
var errNone = errors.New("no service runs csi-proxy")

// choose returns the service that a verb is about, of those that run csi-proxy. name is that of
// -service-name. changes says that the verb changes the service: one that another installer has
// made must be named.
func choose(verb, name string, found []winsvc.Installed, changes bool) (winsvc.Installed, error) {
	if name != "" {
		at := slices.IndexFunc(found, func(i winsvc.Installed) bool { return strings.EqualFold(i.Name, name) })
		if at < 0 {
			return winsvc.Installed{}, fmt.Errorf("flag -service-name=%s: want a service that runs csi-proxy: %s", name, list(found))
		}
		return found[at], nil
	}
	switch {
	case len(found) == 0:
		return winsvc.Installed{}, errNone
	case len(found) > 1:
		return winsvc.Installed{}, fmt.Errorf("several services run csi-proxy, and only one can serve: %s; csi-proxy %s -service-name=NAME chooses one", list(found), verb)
	case changes && !strings.EqualFold(found[0].Name, ServiceName):
		return winsvc.Installed{}, fmt.Errorf("service %s was made by another installer, which may make it again; nothing was changed: csi-proxy %s -service-name=%s does it", found[0], verb, found[0].Name)
	}
	return found[0], nil
}

func list(found []winsvc.Installed) string {
	if len(found) == 0 {
		return "there is none"
	}
	var all []string
	for _, i := range found {
		all = append(all, i.String())
	}
	return strings.Join(all, ", ")
}

// configFlag returns the configuration file that flags of the daemon name, or "".
func configFlag(flags []string) string {
	file := ""
	for i, f := range flags {
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(f, "-"), "-"), "=")
		switch {
		case name != "config" || !strings.HasPrefix(f, "-"): // also the value of a flag
		case given:
			file = value
		case i+1 < len(flags):
			file = flags[i+1]
		}
	}
	return file
}

func usage(w io.Writer, verb string, f *flag.FlagSet) {
	for _, v := range verbs {
		if v.name == verb {
			fmt.Fprintf(w, "csi-proxy %s: %s.\n\n", verb, v.does)
		}
	}
	if verb == "install" {
		fmt.Fprint(w, "Flags of the service follow \"--\":\n\n  csi-proxy install -- -kubelet-path=D:\\kubelet\n\n")
	}
	f.SetOutput(w)
	f.PrintDefaults()
}

// Usage describes the verbs, for the usage of the program.
func Usage() string {
	var b strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&b, "  csi-proxy %-10s %s\n", v.name, v.does)
	}
	return b.String()
}

// A step is a part of a verb.
type step struct {
	what string       // such as "copy a to b"
	do   func() error // does it
	undo func() error // undoes it after a later step failed; nil if there is nothing to undo
}

// run runs the steps in order and says each. After a failure it undoes the steps before,
// last first, and returns what failed, and what could not be undone.
func (c *command) run(steps []step) error {
	for i, s := range steps {
		if c.dryRun {
			fmt.Fprintln(c.out, "would", s.what)
			continue
		}
		fmt.Fprintln(c.out, s.what)
		err := s.do()
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", s.what, err)
		for _, done := range slices.Backward(steps[:i]) {
			if done.undo == nil {
				continue
			}
			fmt.Fprintln(c.out, "undo:", done.what)
			if undoErr := done.undo(); undoErr != nil {
				err = fmt.Errorf("%w; and undoing %q failed: %w", err, done.what, undoErr)
			}
		}
		return err
	}
	return nil
}
