package daemon

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestParse(t *testing.T) {
	defer klog.CaptureState().Restore() // its flags are global
	for _, c := range []struct {
		name  string
		args  []string
		check func(*options) bool
	}{
		{"defaults", nil, func(o *options) bool {
			return slices.Equal(o.allWorkingDirs(), []string{`C:\var\lib\kubelet`}) && o.requirePrivacy && !o.windowsService && o.logsToStderr &&
				(o.host == hostWindows) == (runtime.GOOS == "windows")
		}},
		{"the command line of the usual service", []string{"-windows-service", `-log_file=C:\etc\kubernetes\logs\csi-proxy.log`, "-logtostderr=false"}, func(o *options) bool {
			return o.windowsService && !o.logsToStderr
		}},
		{"one dash or two, with and without =", []string{"--host", "simulated", "-state-dir=/x"}, func(o *options) bool {
			return o.host == hostSimulated && o.stateDir == "/x"
		}},
		{"working directories keep their order, the kubelet's is last", []string{`-working-dir=C:\a`, "-kubelet-path", `D:\k`, `-working-dir=C:\b,C:\c`}, func(o *options) bool {
			return slices.Equal(o.allWorkingDirs(), []string{`C:\a`, `C:\b,C:\c`, `D:\k`})
		}},
		{"services that may be started and stopped", []string{"-service-allow=Own", "--service-allow", "Other"}, func(o *options) bool {
			return slices.Equal(o.allowedServices(), []string{"MSiSCSI", "Own", "Other"})
		}},
		{"backends of a Windows node", []string{"-host=windows", "-format-backend=native", "--smb-backend", "wmi"}, func(o *options) bool {
			return o.formatBackend == "native" && o.smbBackend == "wmi"
		}},
		{"booleans need =", []string{"-require-privacy=false"}, func(o *options) bool { return !o.requirePrivacy }},
		{"every published flag of the log", []string{"-v=5", "-log_dir=/tmp", "-log_file_max_size=10", "-alsologtostderr", "-stderrthreshold=1", "-alsologtostderrthreshold=1",
			"-legacy_stderr_threshold_behavior=false", "-one_output", "-skip_headers", "-skip_log_headers", "-add_dir_header", "-vmodule=a=1", "-log_backtrace_at=a.go:1"}, func(*options) bool { return true }},
		{"further arguments are ignored", []string{"-require-privacy=false", "what", "-ever"}, func(o *options) bool { return !o.requirePrivacy }},
	} {
		var stderr bytes.Buffer
		o, err := parse(c.args, &stderr)
		if err != nil || !c.check(o) {
			t.Errorf("%s: parse(%q) = %+v, %v\n%s", c.name, c.args, o, err, &stderr)
		}
	}
}

func TestWrongUsageIsAnsweredWithUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-kubelet-csi-plugins-path=C:\\x"}, "flag provided but not defined"},
		{[]string{"-host=linux"}, `"linux"`},
		{[]string{"-windows-service=perhaps"}, "windows-service"},
		{[]string{"-host=windows", "-state-dir=/x"}, "-state-dir"},
		{[]string{"-host=windows", "-node-config=x.yaml"}, "-node-config"},
		{[]string{"-kubelet-path="}, "kubelet-path"},
		{[]string{"-service-allow=*"}, "service-allow"},
		{[]string{"-service-allow="}, "service-allow"},
		{[]string{"-working-dir="}, "working-dir"},
		{[]string{"-host=windows", "-format-backend=powershell"}, "want wmi or native"},
		{[]string{"-host=windows", "-smb-backend="}, "want wmi or native"},
		{[]string{"-host=simulated", "-format-backend=wmi"}, "-format-backend"},
		{[]string{"-host=simulated", "-smb-backend=native"}, "-smb-backend"},
	} {
		var stderr bytes.Buffer
		if code := Run(t.Context(), "test", c.args, &stderr); code != 2 {
			t.Errorf("Run(%q) = %d, want 2", c.args, code)
		}
		if !strings.Contains(stderr.String(), c.want) || !strings.Contains(stderr.String(), "-require-privacy") {
			t.Errorf("Run(%q) said %q, want %q and the usage", c.args, &stderr, c.want)
		}
	}
}

func TestHelpIsSuccess(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		var stderr bytes.Buffer
		if code := Run(t.Context(), "test", []string{arg}, &stderr); code != 0 || !strings.Contains(stderr.String(), "-kubelet-path") {
			t.Errorf("Run(%q) = %d and %q, want 0 and the usage", arg, code, &stderr)
		}
	}
	if _, err := parse([]string{"-h"}, &bytes.Buffer{}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parse(-h) = %v, want flag.ErrHelp", err)
	}
}

func TestNodeConfig(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	c, err := nodeConfig(write("disks:\n- size: 100GiB\n  content: system\n- size: 1GiB\n  serial: A\n  sectorSize: 4096\nformatDuration: 150ms\n"))
	if err != nil || len(c.Disks) != 2 || c.Disks[1].Size != 1<<30 || c.Disks[1].SectorSize != 4096 || c.FormatDuration == 0 {
		t.Errorf("nodeConfig = %+v, %v", c, err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "disks:\n- sise: 1GiB\n", `unknown field "sise"`},
		{"the line of an unknown field", "# diks: []\ndisks: []\ndiks: []\n", `node.yaml: line 3: `},
		{"one in a list", "disks:\n- size: 1GiB\n- sise: 1GiB\n", `node.yaml: line 3: `},
		{"one in braces", "disks:\n- {size: 1GiB, 'sise': 1GiB}\n", `node.yaml: line 2: `},
		{"one that others have", "size: 1GiB\ndisks: [{size: 1GiB}]\n", `node.yaml: line 1 or 2: `},
		{"the line of what is no YAML", "disks:\n- size: 1GiB\n  size: 2GiB\n", `line 3`},
		{"a field given twice", "stateDir: a\nstateDir: b\n", "stateDir"},
		{"a bad size", "disks:\n- size: 1 elephant\n", "elephant"},
		{"no YAML", "disks: [", "node.yaml"},
	} {
		if _, err := nodeConfig(write(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "node.yaml") {
			t.Errorf("%s: %v, want an error with the file and %q", c.name, err, c.want)
		}
	}
	if _, err := nodeConfig(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, want os.ErrNotExist", err)
	}
}
