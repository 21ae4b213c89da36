package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl stands in for a cluster of one node, which is made of files: there is a pod if the node
// has the label, and it serves if no service runs.
const kubectl = `#!/bin/sh
cd "$STATE"
case "$*" in
"label node win-1 csi-proxy=daemonset --overwrite") touch label ;;
"label node win-1 csi-proxy-") rm label ;;
"get pods -n kube-system "*"--field-selector spec.nodeName=win-1 -o name") [ ! -e label ] || echo pod/csi-proxy-x ;;
"wait -n kube-system pod/csi-proxy-x --for=condition=Ready --timeout=1s") [ -e label ] ;;
"logs -n kube-system pod/csi-proxy-x") [ -e running ] && echo 'Waiting for process 7' || echo 'Serving API' ;;
"exec -n kube-system pod/csi-proxy-x -- sc.exe "*)
	echo "${*#*-- }" >>calls
	case "$*" in *" query "*) [ -e running ] ;; *" stop "*) rm running ;; *" start "*) touch running ;; esac ;;
*) echo "kubectl $*: unexpected" >&2; exit 9 ;;
esac
`

// The script moves a node from the service to the DaemonSet and back, also if it was there
// already, and changes no service where something is missing.
func TestMoveNode(t *testing.T) {
	const stop, back = "sc.exe query csiproxy\nsc.exe config csiproxy start= disabled\nsc.exe stop csiproxy\n",
		"sc.exe config csiproxy start= auto\nsc.exe failureflag csiproxy 1\nsc.exe failure csiproxy reset= 0 actions= restart/10000\nsc.exe start csiproxy\n"
	state, bin := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	have := func() (files []string) {
		for _, name := range []string{"label", "running"} {
			if _, err := os.Stat(filepath.Join(state, name)); err == nil {
				files = append(files, name)
			}
		}
		return files
	}
	if err := os.WriteFile(filepath.Join(state, "running"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		to, says    string
		code        int
		calls, have string
	}{
		{"daemonset", "win-1: the pod of the DaemonSet runs\nwin-1: the pod serves\n", 0, stop, "label"},
		{"daemonset", "win-1: the pod of the DaemonSet runs\nwin-1: it serves already\nwin-1: the pod serves\n", 0, "", "label"},
		{"service", "win-1: the pod of the DaemonSet runs\nwin-1: the pod is gone, and the service serves within 10 s\n", 0, back, "running"},
		{"service", "win-1: gave up after 1 s: the pod of the DaemonSet runs\n", 1, "", "running"},
		{"there", "usage: sh move-node.sh NODE daemonset|service\n", 2, "", "running"},
	} {
		cmd := exec.Command("sh", chartDir+"/files/move-node.sh", "win-1", step.to)
		cmd.Env = append(os.Environ(), "STATE="+state, "TIMEOUT=1", "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		calls, _ := os.ReadFile(filepath.Join(state, "calls"))
		if string(out) != step.says || cmd.ProcessState.ExitCode() != step.code || string(calls) != step.calls || strings.Join(have(), " ") != step.have {
			t.Errorf("to %s: exit code %d, output\n%s\nservice calls\n%s\nthere are %q; want %d\n%s\n%s\n%s", step.to, cmd.ProcessState.ExitCode(), out, calls, have(), step.code, step.says, step.calls, step.have)
		}
		os.Remove(filepath.Join(state, "calls"))
	}
}
