package install

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

func testProgram() Program {
	return Program{Version: "v1", Pipes: func(flags []string) ([]string, error) {
		for _, f := range flags {
			if strings.Contains(f, "bad") {
				return nil, fmt.Errorf("flag provided but not defined: %s", f)
			}
		}
		return []string{`\\.\pipe\csi-proxy-disk-v1`}, nil
	}}
}

func TestOnlyVerbsAreTaken(t *testing.T) {
	for _, args := range [][]string{nil, {"-windows-service"}, {"-log_file", "install"}, {"Install"}, {""}} {
		if _, isVerb := Run(testProgram(), args, nil, nil); isVerb {
			t.Errorf("%q was taken for a verb", args)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":             {[]string{"install", "-start-now"}, "-start-now"},
		"an unknown start":            {[]string{"install", "-start=boot"}, "want one of auto, delayed-auto, demand"},
		"flags without --":            {[]string{"install", "kubelet-path=C:\\k"}, `flags of the service follow "--"`},
		"a wrong flag of the service": {[]string{"install", "--", "-bad=1"}, "flags of the service: flag provided but not defined: -bad=1"},
		"flags for an upgrade":        {[]string{"upgrade", "--", "-v=1"}, "keeps those that it was installed with"},
		"a dry run of status":         {[]string{"status", "-dry-run"}, "-dry-run"},
		"an argument":                 {[]string{"uninstall", "csiproxy"}, `unexpected argument "csiproxy"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, stderr strings.Builder
			code, isVerb := Run(testProgram(), test.args, &out, &stderr)
			if !isVerb || code != 2 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("code %d and %q, want code 2 and one line with %q", code, stderr.String(), test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, v := range verbs {
		var out, stderr strings.Builder
		code, _ := Run(testProgram(), []string{v.name, "-h"}, &out, &stderr)
		if code != 0 || !strings.Contains(stderr.String(), v.does) {
			t.Errorf("csi-proxy %s -h: code %d and %q, want what it does", v.name, code, stderr.String())
		}
		if !strings.Contains(Usage(), v.does) {
			t.Errorf("the usage lacks %s", v.name)
		}
	}
}

func TestOtherSystems(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it would install on this machine: run it on Linux")
	}
	for _, v := range verbs {
		var out, stderr strings.Builder
		if code, _ := Run(testProgram(), []string{v.name}, &out, &stderr); code != 1 || !strings.Contains(stderr.String(), "services need Windows") {
			t.Errorf("csi-proxy %s: code %d and %q", v.name, code, stderr.String())
		}
	}
}

// recorded returns steps a, b and c, which record in log that they were done and undone.
func recorded(log *[]string, fails string) []step {
	var steps []step
	for _, name := range []string{"a", "b", "c"} {
		steps = append(steps, step{name, func() error {
			*log = append(*log, name)
			if name == fails {
				return errors.New("out of order")
			}
			return nil
		}, func() error { *log = append(*log, "-"+name); return nil }})
	}
	return steps
}

func TestFailedStepUndoesThoseBefore(t *testing.T) {
	for fails, want := range map[string]string{"": "a b c", "a": "a", "b": "a b -a", "c": "a b c -b -a"} {
		var log []string
		var out strings.Builder
		err := (&command{out: &out}).run(recorded(&log, fails))
		if got := strings.Join(log, " "); got != want {
			t.Errorf("with a failing %q the steps were %q, want %q", fails, got, want)
		}
		if fails == "" {
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || err.Error() != fails+": out of order" {
			t.Errorf("run = %v, want the failed step", err)
		}
	}
}

func TestFailedUndoIsNamed(t *testing.T) {
	var log []string
	steps := recorded(&log, "c")
	steps[0].undo = func() error { return errors.New("access denied") }
	steps[1].undo = nil
	var out strings.Builder
	err := (&command{out: &out}).run(steps)
	if err == nil || err.Error() != `c: out of order; and undoing "a" failed: access denied` {
		t.Errorf("run = %v", err)
	}
}

func TestDryRunDoesNothing(t *testing.T) {
	var log []string
	var out strings.Builder
	if err := (&command{out: &out, dryRun: true}).run(recorded(&log, "b")); err != nil || len(log) > 0 || out.String() != "would a\nwould b\nwould c\n" {
		t.Errorf("run = %v, did %q, printed %q", err, log, out.String())
	}
}

func TestConfigFlag(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, ""},
		{[]string{"-v=2", "-configure=x", "config=y"}, ""},
		{[]string{"-config=a b.yaml", "-v=2"}, "a b.yaml"},
		{[]string{"--config", "a.yaml", "-config=b.yaml"}, "b.yaml"},
		{[]string{"-config"}, ""},
	} {
		if got := configFlag(c.flags); got != c.want {
			t.Errorf("configFlag(%q) = %q, want %q", c.flags, got, c.want)
		}
	}
}

// A service that another installer has made is changed only by its name, and one of several is
// looked at only by it.
func TestChoose(t *testing.T) {
	ours, others := winsvc.Installed{Name: "csiproxy", Program: `C:\a\csi-proxy.exe`}, winsvc.Installed{Name: "csi-proxy", Program: `C:\k\csi-proxy.exe`, Manager: `C:\k\nssm.exe`}
	for _, c := range []struct {
		name    string
		found   []winsvc.Installed
		changes bool
		want    string // the service or a part of the error
	}{
		{"", nil, true, errNone.Error()},
		{"", []winsvc.Installed{ours}, true, "csiproxy"},
		{"", []winsvc.Installed{others}, false, "csi-proxy"},
		{"", []winsvc.Installed{others}, true, "-service-name=csi-proxy does it"},
		{"CSI-proxy", []winsvc.Installed{ours, others}, true, "csi-proxy"},
		{"", []winsvc.Installed{others, ours}, false, `only one can serve: csi-proxy (C:\k\csi-proxy.exe), csiproxy (C:\a\csi-proxy.exe)`},
		{"kubelet", []winsvc.Installed{ours}, true, `-service-name=kubelet: want a service that runs csi-proxy: csiproxy (C:\a\csi-proxy.exe)`},
		{"kubelet", nil, true, "there is none"},
	} {
		i, err := choose("upgrade", c.name, c.found, c.changes)
		if i.Name != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("choose(%q, %v, %t) = %v, %v, want %q", c.name, c.found, c.changes, i, err, c.want)
		}
	}
}
