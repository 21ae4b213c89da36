package daemon

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// noHost is a host with a flag that accepts no value.
type noHost struct{}

func (noHost) Name() string { return "none" }

func (noHost) AddFlags(f *flag.FlagSet) {
	f.Func("of-the-host", "", func(string) error { return errors.New("want none") })
}

func (noHost) Open(rules.Rules, *win32.Counts) (*Node, error) {
	return nil, errors.New("there is no node")
}

func testProgram() Program { return Program{Name: "csi-proxy-test", Version: "test", Host: noHost{}} }

func TestParse(t *testing.T) {
	defer klog.CaptureState().Restore() // the flags of klog are global
	for _, c := range []struct {
		name  string
		args  []string
		check func(*options) bool
	}{
		{"defaults", nil, func(o *options) bool {
			return slices.Equal(o.AllWorkingDirs(), []string{`C:\var\lib\kubelet`}) && o.RequirePrivacy && !o.windowsService && o.log.ToStderr
		}},
		{"usual service", []string{"-windows-service", `-log_file=C:\etc\kubernetes\logs\csi-proxy.log`, "-logtostderr=false"}, func(o *options) bool {
			return o.windowsService && !o.log.ToStderr
		}},
		{"one dash or two, with and without =", []string{"--kubelet-path", `D:\k`, "-metrics-bind-address=:1"}, func(o *options) bool {
			return o.KubeletPath == `D:\k` && o.metricsAddress == ":1"
		}},
		{"working directories keep their order, kubelet last", []string{`-working-dir=C:\a`, "-kubelet-path", `D:\k`, `-working-dir=C:\b,C:\c`}, func(o *options) bool {
			return slices.Equal(o.AllWorkingDirs(), []string{`C:\a`, `C:\b,C:\c`, `D:\k`})
		}},
		{"services that may be started and stopped", []string{"-service-allow=Own", "--service-allow", "Other"}, func(o *options) bool {
			return slices.Equal(o.AllowedServices(), []string{"MSiSCSI", "Own", "Other"})
		}},
		{"some groups and versions", []string{"-enable-api=disk/v1,volume", "--enable-api", "smb"}, func(o *options) bool {
			return slices.Equal(o.APIs(), []string{"disk/v1", "volume", "smb"}) && !o.ReadOnly && o.audit
		}},
		{"booleans need =", []string{"-require-privacy=false"}, func(o *options) bool { return !o.RequirePrivacy }},
		{"log", []string{"-logtostderr=false", "-log_file=a.log", "-log_file_max_size=3", "-log-file-backups=7", "-log-file-max-age=1h", "-logging-format=json", "-v=4", "-skip_log_headers"}, func(o *options) bool {
			return o.log == logs.Options{Program: "csi-proxy-test", Version: "test", File: "a.log", Limits: logs.Limits{Bytes: 3 << 20, Backups: 7, Age: time.Hour}, JSON: true, Verbosity: 4, SkipHeader: true}
		}},
		{"limits of the log without flags", nil, func(o *options) bool {
			return o.log.Limits == logs.Limits{Bytes: 100 << 20, Backups: 5, Age: 720 * time.Hour}
		}},
		{"log without a limit", []string{"-log_file_max_size=0", "-log-file-max-age=0"}, func(o *options) bool {
			return o.log.Limits == logs.Limits{Backups: 5}
		}},
		{"every published flag of the log", []string{"-v=5", "-log_dir=/tmp", "-log_file_max_size=10", "-alsologtostderr", "-stderrthreshold=1", "-alsologtostderrthreshold=1",
			"-legacy_stderr_threshold_behavior=false", "-one_output", "-skip_headers", "-skip_log_headers", "-add_dir_header", "-vmodule=a=1", "-log_backtrace_at=a.go:1"}, func(*options) bool { return true }},
		{"other arguments are ignored", []string{"-require-privacy=false", "other", "-args"}, func(o *options) bool { return !o.RequirePrivacy }},
	} {
		var stderr bytes.Buffer
		o, err := parse(testProgram(), c.args, &stderr)
		if err != nil || !c.check(o) {
			t.Errorf("%s: parse(%q) = %+v, %v\n%s", c.name, c.args, o, err, &stderr)
		}
	}
}

func TestWrongFlagIsOneLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-kubelet-csi-plugins-path=C:\\x"}, "flag provided but not defined"},
		{[]string{"-kubelet-pth=C:\\x"}, `did you mean "-kubelet-path"?`},
		{[]string{"-windows-service=perhaps"}, "windows-service"},
		{[]string{"-of-the-host=x"}, "want none"},
		{[]string{"-kubelet-path="}, "kubelet-path"},
		{[]string{"-service-allow=*"}, "service-allow"},
		{[]string{"-service-allow="}, "service-allow"},
		{[]string{"-working-dir="}, "working-dir"},
		{[]string{"-logging-format=xml"}, "want text or json"},
		{[]string{"-log-file-backups=-1"}, "log-file-backups"},
		{[]string{"-pprof-bind-address=:6060"}, "flag -pprof-bind-address=:6060: want an address that only this machine reaches"},
		{[]string{"-log-file-max-age=-1h"}, "flag -log-file-max-age: -1h0m0s: want 0, which means no limit, or a time such as 720h"},
	} {
		var stderr bytes.Buffer
		if code := Run(t.Context(), testProgram(), c.args, &stderr); code != 2 {
			t.Errorf("Run(%q) = %d, want 2", c.args, code)
		}
		if !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") != 1 || !strings.HasSuffix(stderr.String(), "-h lists the flags\n") {
			t.Errorf("Run(%q) printed %q, want one line with %q", c.args, &stderr, c.want)
		}
	}
}

func TestHelpExitsWithZero(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		var stderr bytes.Buffer
		if code := Run(t.Context(), testProgram(), []string{arg}, &stderr); code != 0 || !strings.Contains(stderr.String(), "-kubelet-path") {
			t.Errorf("Run(%q) = %d and %q, want 0 and the usage", arg, code, &stderr)
		}
	}
	if _, err := parse(testProgram(), []string{"-h"}, &bytes.Buffer{}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parse(-h) = %v, want flag.ErrHelp", err)
	}
}

// Pipes that everyone may connect to are possible, and never unnoticed.
func TestOpenPipesAreNamed(t *testing.T) {
	for sddl, want := range map[string]string{
		"":                            "",
		"D:P(A;;GA;;;SY)(A;;GA;;;BA)": "",
		"D:P(A;;GA;;;SY)(A;;0x12019b;;;WD)(A;;0x12019b;;;BU)": "flag -pipe-sddl lets Everyone, Users connect to the pipes",
	} {
		o := options{pipeSDDL: sddl}
		if got := o.openPipes(); got == "" != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q: warning %q, want %q", sddl, got, want)
		}
	}
}
