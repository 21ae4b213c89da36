package daemon_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	oldfilesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	oldfs "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/windowshost"
)

// programs returns new programs, whose hosts have no values of flags yet.
func programs() []daemon.Program {
	return []daemon.Program{windowshost.Program("v0.0.0-test"), simhost.Program("v0.0.0-test")}
}

// check runs the verb config check.
func check(t *testing.T, p daemon.Program, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code, isVerb := daemon.Config(p, append([]string{"config", "check"}, args...), &out, &errs)
	if !isVerb {
		t.Fatal("config is not a verb")
	}
	return code, out.String(), errs.String()
}

// configFile writes a configuration file.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "csi-proxy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// shown returns the names of the flags that -h shows.
func shown(t *testing.T, p daemon.Program) []string {
	t.Helper()
	var text bytes.Buffer
	if code := daemon.Run(t.Context(), p, []string{"-h"}, &text); code != 0 {
		t.Fatalf("-h: exit code %d", code)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^  -(\w[\w-]*)`).FindAllStringSubmatch(text.String(), -1) {
		all = append(all, m[1])
	}
	return all
}

// Every flag is a key, and the other way round.
func TestEveryFlagIsAKey(t *testing.T) {
	defer klog.CaptureState().Restore() // the flags of klog are global
	// Values for flags without a default, or whose default cannot be given.
	values := map[string]string{"working-dir": `C:\a`, "protected-dir": `C:\a`, "service-allow": "Own", "enable-api": "disk/v1", "log_backtrace_at": "a.go:1"}
	for i := range programs() {
		program := func() daemon.Program { return programs()[i] }
		flags := slices.DeleteFunc(shown(t, program()), func(name string) bool { return name == "config" })
		_, defaults, _ := check(t, program())
		var keys []string
		var file strings.Builder
		for _, m := range regexp.MustCompile(`(?m)^# ([\w-]+): (.*)$`).FindAllStringSubmatch(defaults, -1) {
			keys = append(keys, m[1])
			value := m[2]
			if v := values[m[1]]; v != "" {
				value = v
			}
			if m[2] == "none" {
				value = "\n  - " + value
			}
			fmt.Fprintf(&file, "%s: %s\n", m[1], value)
		}
		if !slices.Equal(keys, flags) || len(keys) < 30 {
			t.Errorf("%s has the flags %q, and the keys %q", program().Name, flags, keys)
		}
		name := configFile(t, file.String())
		code, out, stderr := check(t, program(), "-config", name)
		if set := strings.Count(out, "# "+name+":"); code != 0 || set != len(flags) {
			t.Errorf("%s config check: exit code %d, %d of %d keys are from the file\n%s%s", program().Name, code, set, len(flags), out, stderr)
		}
		// What check prints is a file with the same settings.
		again, out2, stderr := check(t, program(), "-config", configFile(t, out))
		sources := regexp.MustCompile(`(?m) # \S+$|^# The .*\n`)
		if again != 0 || sources.ReplaceAllString(out, "") != sources.ReplaceAllString(out2, "") {
			t.Errorf("the printed settings are read as\n%s%s\nwant\n%s", out2, stderr, out)
		}
	}
}

// A working directory that lets requests reach too much is accepted, because the flag is a
// published one, but it does not pass the check.
func TestCheckRefusesWholeDrive(t *testing.T) {
	defer klog.CaptureState().Restore()
	for args, want := range map[string]string{
		`-working-dir=C:\`:                                "whole drive",
		`-working-dir=C:\mnt -working-dir=d:/`:            "whole drive",
		`-kubelet-path=E:\`:                               "whole drive",
		`-working-dir=C:\Windows\Temp`:                    "changes nothing",
		`-working-dir=C:\mnt\disks`:                       "",
		`-working-dir=C:\ProgramData\csi`:                 "",
		`-kubelet-path=C:\ProgramData\Kubernetes\kubelet`: "",
	} {
		code, _, stderr := check(t, programs()[0], strings.Fields(args)...)
		if code == 0 != (want == "") || !strings.Contains(stderr, want) {
			t.Errorf("config check %s: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
}

// What the start would log as an error, although it serves the pipes, does not pass the check.
func TestCheckRefusesWhatTheStartLogs(t *testing.T) {
	defer klog.CaptureState().Restore()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for args, want := range map[string]string{
		"-log_file=" + file:                                         "flag -log_file=" + file + " has no effect, because -logtostderr is true",
		"-log_dir=" + file:                                          "has no effect",
		"-logtostderr=false -log_file=" + file:                      "",
		"-logtostderr=false -log_file=" + file + "/a/b.log":         "not a directory",
		"-logtostderr=false -log_dir=" + file:                       "not a directory",
		"-logtostderr=false -log_file=" + file + "-directory/b.log": "", // which the start makes
		"-metrics-bind-address=9808":                                "flag -metrics-bind-address=9808: ",
		"-metrics-bind-address=127.0.0.1":                           "missing port in address; want host:port, such as 127.0.0.1:9808",
		"-metrics-bind-address=::1:9808":                            "too many colons in address",
		"-metrics-bind-address=127.0.0.1:98080":                     "invalid port",
		"-metrics-bind-address=192.0.2.1:9808":                      "bind: ", // of another machine
		"-metrics-bind-address=:9808":                               "",
		"-metrics-bind-address=" + taken.Addr().String():            "", // of the csi-proxy that runs
	} {
		flags := klog.CaptureState()
		code, _, stderr := check(t, programs()[0], strings.Fields(args)...)
		flags.Restore()
		if code != map[bool]int{true: 0, false: 1}[want == ""] || !strings.Contains(stderr, want) {
			t.Errorf("config check %s: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
}

func TestCommandLineOverridesFile(t *testing.T) {
	defer klog.CaptureState().Restore()
	file := configFile(t, `
kubelet-path: D:\kubelet
working-dir:
  - D:\a
  - D:\b
service-allow:
  - One
audit-log: false
disk-content: cleaned
`)
	code, out, stderr := check(t, programs()[0], "-config="+file, `-working-dir=E:\c`, "-audit-log", "-kubelet-path", `F:\k`)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"\nkubelet-path: F:\\k # command line\n",
		"\nworking-dir: # command line\n  - E:\\c\n",
		"\nservice-allow: # " + file + ":6\n  - One\n",
		"\naudit-log: true # command line\n",
		"\ndisk-content: cleaned # " + file + ":9\n",
		"\n# require-privacy: true\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the settings lack %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, `D:\a`) {
		t.Errorf("the list of the command line does not replace that of the file:\n%s", out)
	}
}

// A mistake in the file names the file, the line, the key, and what is allowed, in one line.
func TestWrongConfigFile(t *testing.T) {
	defer klog.CaptureState().Restore()
	for text, want := range map[string]string{
		"\nkubelet-pth: C:\\k":             `:2: key kubelet-pth: unknown; did you mean "kubelet-path"?`,
		"node-config: x":                   ":1: key node-config: unknown", // of csi-proxy-sim
		"xyzzyplugh: 1":                    ":1: key xyzzyplugh: unknown; the keys are the names of the flags",
		"config: x":                        ":1: key config: a configuration file cannot name another one",
		"audit-log: yes":                   `:1: key audit-log: value "yes": want true or false`,
		"v: high":                          `:1: key v: value "high": `,
		"disk-content: keep":               `:1: key disk-content: value "keep": want strict, cleaned or unknown; it is: which content`,
		"smb-backend: x":                   `want wmi or native`,
		"kubelet-path:\n  - C:\\k":         ":1: key kubelet-path: a list, but the key takes one value: write kubelet-path: VALUE",
		"working-dir: C:\\k":               ":1: key working-dir: one value, but the key takes a list",
		"working-dir:\n  - C:\\k\n  - ''":  `:3: key working-dir: value "": want a directory`,
		"v: 1\nv: 2":                       ":2: key v: duplicate of line 1",
		"kubelet-path: \"C:\\k\"":          "double quotes are not supported",
		"enable-api:\n  - disc":            "flag -enable-api: ",
		"kubelet-path: ''":                 "flag -kubelet-path: want a directory",
		"metrics-bind-address = 127.0.0.1": `:1: unexpected`,
	} {
		file := configFile(t, text)
		code, out, stderr := check(t, programs()[0], "-config="+file)
		if code != 2 || out != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d and %q, want 2 and one line with %q", text, code, stderr, want)
		}
		if strings.HasPrefix(want, ":") && !strings.Contains(stderr, file+want) {
			t.Errorf("%q: %q does not name the file", text, stderr)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-config=none.yaml"}, "none.yaml"},
		{[]string{"-config=" + filepath.Base(configFile(t, "")), "-windows-service"}, "csi-proxy.yaml"},
		{[]string{"-config="}, "flag -config"},
	} {
		if code, _, stderr := check(t, programs()[0], c.args...); code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d and %q, want 2 and %q", c.args, code, stderr, c.want)
		}
	}
	var out, errs bytes.Buffer
	if code, _ := daemon.Config(programs()[0], []string{"config"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "config check") {
		t.Errorf("config without check: %d, %q", code, &errs)
	}
}

func TestServiceNeedsAbsoluteConfigPath(t *testing.T) {
	defer klog.CaptureState().Restore()
	t.Chdir(filepath.Dir(configFile(t, "v: 0")))
	if code, _, stderr := check(t, programs()[0], "-config=csi-proxy.yaml"); code != 0 {
		t.Errorf("a relative path: exit code %d, %s", code, stderr)
	}
	if _, err := daemon.Pipes(programs()[0], []string{"-windows-service", "-config=csi-proxy.yaml"}); err == nil || !strings.Contains(err.Error(), "want an absolute path") {
		t.Errorf("a relative path for a service: %v", err)
	}
}

// The daemon serves with the settings of its file.
func TestDaemonWithConfigFile(t *testing.T) {
	sockets(t)
	p := start(t, "-config", configFile(t, "kubelet-path: D:\\k\nworking-dir:\n  - C:\\csi\nread-only-api: true\n"), "-read-only-api=false")
	p.await(t, "Serving ")
	output, _ := p.output()
	if want := `"Opened node" workingDirs=["C:\\csi","D:\\k"]`; !strings.Contains(output, want) {
		t.Errorf("the log lacks %q:\n%s", want, output)
	}
	fs, err := oldfs.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	if _, err := fs.Mkdir(t.Context(), &oldfilesystem.MkdirRequest{Path: `C:\csi\a`}); err != nil {
		t.Errorf("Mkdir in the working directory of the file: %v", err)
	}
}
