package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// TestPage runs the commands of docs/drivers/cluster.md, and measures each.
func TestPage(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "drivers", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for i, part := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(part, "sh needs:a build of Kubernetes\n"); ok && i%2 == 1 {
			commands = append(commands, strings.Split(strings.TrimSpace(text), "\n")...)
		}
	}
	if len(commands) < 12 {
		t.Fatalf("the page has the commands %q, want at least 12", commands)
	}
	dir, err := os.MkdirTemp("", "cl") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	files := filepath.Join(dir, "c")
	shell := func(ctx context.Context, command string) (string, error) {
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CSI_PROXY_CLUSTER_DIR="+files)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() { _, _ = shell(context.Background(), "bin/csi-proxy-cluster down") }) // if the test has failed
	var statuses []string
	for _, command := range commands {
		start := time.Now()
		out, err := shell(t.Context(), command)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		t.Attr("measured", strings.TrimSpace(command)+": "+time.Since(start).Round(100*time.Millisecond).String())
		if strings.HasSuffix(command, " status") {
			// The kubelet removes a pod's directory up to some seconds after the pod is gone.
			for end := time.Now().Add(time.Minute); len(statuses) > 0 && !strings.Contains(out, "nothing of a volume") && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				if out, err = shell(t.Context(), command); err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
			}
			statuses = append(statuses, out)
		}
		if strings.HasSuffix(command, " down") {
			if _, err := os.Stat(files); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory of the cluster is left: %v", err)
			}
		}
	}
	if len(statuses) != 2 {
		t.Fatalf("the page has %d times status, want twice", len(statuses))
	}
	for _, want := range []string{"kube-apiserver", "node-1 kubelet", "os=linux", `volume at \var\lib\kubelet\plugins\kubernetes.io\csi\csi-driver.example.com\`, `directory C:\var\lib\kubelet\pods\`} {
		if !strings.Contains(statuses[0], want) {
			t.Errorf("status lacks %q while the pod runs:\n%s", want, statuses[0])
		}
	}
	if !strings.Contains(statuses[1], "nothing of a volume") {
		t.Errorf("status after the pod is gone:\n%s", statuses[1])
	}
}

// other is a cluster of a test in a directory of its own.
type other struct {
	t              *testing.T
	root, dir, exe string
}

func newOther(t *testing.T) *other {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cl") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("CSI_PROXY_CLUSTER_DIR", filepath.Join(dir, "c"))
	exe := filepath.Join(dir, "csi-proxy-cluster") // up starts itself in the background
	if out, err := exec.Command("go", "build", "-trimpath", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command(exe, "down").Run() }) // if the test has failed
	return &other{t, root, dir, exe}
}

// command runs the command, and wants it to succeed or fail.
func (o *other) command(succeeds bool, args ...string) string {
	o.t.Helper()
	cmd := exec.Command(o.exe, args...)
	cmd.Dir = o.root
	out, err := cmd.CombinedOutput()
	if (err == nil) != succeeds {
		o.t.Fatalf("csi-proxy-cluster %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// processes returns the processes whose command line has the cluster's directory and a text.
func (o *other) processes(text string) (pids []int) {
	o.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		o.t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), o.dir+"/") || !strings.Contains(string(line), text) {
			continue // or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			o.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// kill kills the only process whose command line has a text.
func (o *other) kill(text string) {
	o.t.Helper()
	pids := o.processes(text)
	if len(pids) != 1 {
		o.t.Fatalf("%d processes have %q, want one", len(pids), text)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		o.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); len(o.processes(text)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			o.t.Fatalf("the process with %q lives after it was killed", text)
		}
	}
}

// A driver with a name of its own, as up has it from its users: its claims are served, because
// the sidecars serve those of the driver on the nodes. Then programs end, and the process in
// the background: status and down say and do what they can.
func TestOtherDriver(t *testing.T) {
	o := newOther(t)
	set, err := programs.Build(t.Context(), o.root, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	const name = "other.example.com"
	o.command(true, "up", "--nodes=2", set.Driver, "-endpoint=ENDPOINT", "-node-id=NODE", "-driver-name="+name)
	if out := o.command(true, "kubectl", "get", "storageclasses,csidrivers"); strings.Count(out, name) != 3 || strings.Contains(out, "csi-driver.example.com") {
		t.Errorf("the classes and the driver are not of %s alone:\n%s", name, out)
	}
	start := time.Now()
	o.command(true, "kubectl", "apply", "-f", filepath.Join("docs", "drivers", "cluster-pod.yaml"))
	o.command(true, "kubectl", "wait", "--for=jsonpath={.status.phase}=Running", "pod/example", "--timeout=3m")
	t.Attr("measured", "a claim of a driver with another name, and its pod: Running after "+time.Since(start).Round(100*time.Millisecond).String())
	if out := o.command(true, "status"); !strings.Contains(out, `volume at \var\lib\kubelet\plugins\kubernetes.io\csi\`+name+`\`) || strings.Contains(out, "ended") {
		t.Errorf("status lacks the staged volume, or has a program that has ended:\n%s", out)
	}

	o.kill("csi-resizer")
	o.kill("--node=node-1") // the kubelet, which would start CSI Proxy again
	o.kill("node-1/state")
	out := o.command(true, "status")
	for _, want := range []string{`(?m)^csi-resizer +ended`, `(?m)^node-1 kubelet +ended`, `(?m)^node-1 csi-proxy-sim +ended`, `(?m)^node-1: .*does not answer`, `(?m)^node-2: .*CSI Proxy new in `, `(?m)^csi-attacher +\d`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status with programs that have ended does not match %q:\n%s", want, out)
		}
	}

	o.kill(background)
	if out := o.command(true, "down"); !strings.Contains(out, "is removed") {
		t.Errorf("down after a kill says %q", out)
	}
	if _, err := os.Stat(directory()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	if left := o.processes(""); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// A cluster that does not start: its message has the reason and says where the output is, and
// down removes that.
func TestFailedStart(t *testing.T) {
	o := newOther(t)
	out := o.command(false, "up", "/bin/sh", "-c", "echo no storage here; exit 1")
	for _, want := range []string{"the driver has ended", "no storage here", "csi-proxy-cluster down removes it"} {
		if !strings.Contains(out, want) {
			t.Errorf("up with a driver that ends lacks %q:\n%s", want, out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(directory(), "node-1", "driver.log")); err != nil || !strings.Contains(string(text), "no storage here") {
		t.Errorf("the driver's output is %q, %v", text, err)
	}
	if out := o.command(true, "down"); !strings.Contains(out, "is removed") {
		t.Errorf("down after a failed start says %q", out)
	}
	o.command(false, "down") // nothing is there any more
}

func TestUsage(t *testing.T) {
	t.Setenv("CSI_PROXY_CLUSTER_DIR", filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "usage: csi-proxy-cluster COMMAND"},
		{[]string{"--help"}, 0, "kubelets are the build for Linux"},
		{[]string{"nonsense"}, 2, `unknown command "nonsense"`},
		{[]string{"up", "--nodes=0"}, 2, "usage: csi-proxy-cluster up"},
		{[]string{"up", "--proxy=newest"}, 2, "usage: csi-proxy-cluster up"},
		{[]string{"upgrade", "old", "new"}, 2, "usage: csi-proxy-cluster upgrade"},
		{[]string{"kill-kubelet"}, 2, "usage: csi-proxy-cluster kill-kubelet"},
		{[]string{"status"}, 1, "no cluster runs"},
		{[]string{"down"}, 1, "start one with: csi-proxy-cluster up"},
		{[]string{"kubectl", "get", "pods"}, 1, "no cluster runs"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("csi-proxy-cluster %q = %d, %q, want %d and %q", c.args, code, out.String(), c.code, c.want)
		}
	}
}

// A directory that is not a cluster's is left as it is.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CSI_PROXY_CLUSTER_DIR", dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := makeDirectory(); err == nil || !strings.Contains(err.Error(), "only you may use") {
		t.Errorf("makeDirectory where others may look = %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mine")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := makeDirectory(); err == nil || !strings.Contains(err.Error(), "not a cluster's") {
		t.Errorf("makeDirectory where other files are = %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	t.Setenv("CSI_PROXY_CLUSTER_DIR", filepath.Join(dir, "c"))
	for range 2 { // the second replaces one of a cluster that was killed
		lock, err := makeDirectory()
		if err != nil {
			t.Fatal(err)
		}
		if err := removeDirectory(); !errors.Is(err, errBusy) {
			t.Errorf("removeDirectory of a cluster that has programs = %v, want %v", err, errBusy)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// down removes what a cluster that was killed has left.
	var out bytes.Buffer
	if code := run(t.Context(), []string{"down"}, &out, &out); code != 0 || !strings.Contains(out.String(), "is removed") {
		t.Errorf("down after a kill = %d, %q", code, out.String())
	}
	if _, err := os.Stat(directory()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left after down: %v", err)
	}
}
