package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// root is the directory of the project, in which a page's commands run.
func root(t *testing.T) {
	t.Helper()
	t.Chdir(filepath.Join("..", "..", ".."))
	t.Setenv("SHELL", "/bin/sh")
}

// in runs csi-proxy-cluster with commands for its shell, and wants a code. The directory of a cluster
// that has run is gone.
func in(t *testing.T, code int, commands string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if got := run(t.Context(), args, strings.NewReader("set -ex\n"+commands), &out, &out); got != code {
		t.Fatalf("csi-proxy-cluster %q = %d, want %d\n%s", args, got, code, &out)
	}
	if m := regexp.MustCompile(`the output of each program is in (\S+)\.\n`).FindStringSubmatch(out.String()); m != nil {
		if _, err := os.Stat(m[1]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory of the cluster is left: %v", err)
		}
	}
	return out.String()
}

// TestPage runs the commands of docs/drivers/cluster.md: those of the last block in the shell of the
// one before.
func TestPage(t *testing.T) {
	root(t)
	page, err := os.ReadFile(filepath.Join("docs", "drivers", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands string
	for i, part := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(part, "sh needs:a build of Kubernetes\n"); ok && i%2 == 1 {
			commands = text
		}
	}
	if strings.Count(commands, "\n") < 10 {
		t.Fatalf("the page has the commands %q, want at least 10", commands)
	}
	if out, err := exec.Command("make", "cluster-command").CombinedOutput(); err != nil { // the block before
		t.Fatalf("make cluster-command: %v\n%s", err, out)
	}
	out := in(t, 0, commands)
	during, after, _ := strings.Cut(out, "+ kubectl delete")
	for _, want := range []string{"node/node-1", "persistentvolumeclaim/example condition met", `\globalmount`, "successfully rolled out"} {
		if !strings.Contains(during, want) {
			t.Errorf("the output lacks %q while the pod runs:\n%s", want, during)
		}
	}
	if strings.Contains(after, `\globalmount`) {
		t.Errorf("a volume is staged after the pod is gone:\n%s", after)
	}
}

// A driver with a name of its own, as users have: its claims are served, because the sidecars serve
// those of the driver on the nodes. The code of the shell is that of the command.
func TestOtherDriver(t *testing.T) {
	root(t)
	set, err := programs.Build(t.Context(), ".", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	const name = "other.example.com"
	out := in(t, 3, `
kubectl get storageclasses,csidrivers
kubectl apply -f docs/drivers/cluster-pod.yaml
kubectl wait --for=jsonpath={.status.phase}=Running pod/example --timeout=3m
exit 3
`, "--nodes=2", set.Driver, "-endpoint=ENDPOINT", "-node-id=NODE", "-driver-name="+name)
	if strings.Count(out, name+" ") != 3 || strings.Contains(out, "csi-driver.example.com") {
		t.Errorf("the classes and the driver are not of %s alone:\n%s", name, out)
	}
}

// The message of a cluster that does not start has the reason, and says where the output is.
func TestFailedStart(t *testing.T) {
	root(t)
	out := in(t, 1, "", "/bin/sh", "-c", "echo no storage here; exit 1")
	m := regexp.MustCompile(`the output of the programs is in (\S+)\n`).FindStringSubmatch(out)
	if m == nil || !strings.Contains(out, "the driver has ended") {
		t.Fatalf("a driver that ends: %s", out)
	}
	defer os.RemoveAll(m[1])
	if text, err := os.ReadFile(filepath.Join(m[1], "node-1", "driver.log")); err != nil || !strings.Contains(string(text), "no storage here") {
		t.Errorf("the driver's output is %q, %v", text, err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "kubelets are the build for Linux"},
		{[]string{"--nodes=0"}, 2, "want at least one node"},
		{[]string{"--proxy=newest"}, 2, "the build old or new"},
		{[]string{"--nonsense"}, 2, "not defined"},
		{[]string{"--source=/"}, 1, "not in a checkout"},
	} {
		var out bytes.Buffer
		if code := run(context.Background(), c.args, nil, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("csi-proxy-cluster %q = %d, %q, want %d and %q", c.args, code, out.String(), c.code, c.want)
		}
	}
}
