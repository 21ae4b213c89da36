package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// TestPage runs the commands of docs/cluster.md, and measures each.
func TestPage(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "cluster.md"))
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

// A driver with a name of its own, as up has it from its users: its claims are served, because
// the sidecars serve those of the driver on the nodes.
func TestOtherDriver(t *testing.T) {
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
	// A copy, as users build their driver elsewhere.
	set, err := programs.Build(t.Context(), root, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := os.Link(set.Driver, other); err != nil {
		if out, err := exec.Command("cp", set.Driver, other).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	command := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(exe, args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("csi-proxy-cluster %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() { _ = exec.Command(exe, "down").Run() }) // if the test has failed
	const name = "other.example.com"
	command("up", other, "-endpoint=ENDPOINT", "-node-id=NODE", "-driver-name="+name)
	if out := command("kubectl", "get", "storageclasses,csidrivers"); strings.Count(out, name) != 3 || strings.Contains(out, "csi-driver.example.com") {
		t.Errorf("the classes and the driver are not of %s alone:\n%s", name, out)
	}
	start := time.Now()
	command("kubectl", "apply", "-f", filepath.Join("docs", "cluster-pod.yaml"))
	command("kubectl", "wait", "--for=jsonpath={.status.phase}=Running", "pod/example", "--timeout=3m")
	t.Attr("measured", "a claim of a driver with another name, and its pod: Running after "+time.Since(start).Round(100*time.Millisecond).String())
	if out := command("status"); !strings.Contains(out, `volume at \var\lib\kubelet\plugins\kubernetes.io\csi\`+name+`\`) {
		t.Errorf("status lacks the staged volume:\n%s", out)
	}
	command("down")
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
	if err := makeDirectory(); err == nil || !strings.Contains(err.Error(), "only you may use") {
		t.Errorf("makeDirectory where others may look = %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mine")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeDirectory(); err == nil || !strings.Contains(err.Error(), "not a cluster's") {
		t.Errorf("makeDirectory where other files are = %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	t.Setenv("CSI_PROXY_CLUSTER_DIR", filepath.Join(dir, "c"))
	for range 2 { // the second replaces one of a cluster that was killed
		if err := makeDirectory(); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeDirectory(); err != nil {
		t.Error(err)
	}
}
