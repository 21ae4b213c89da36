package main

import (
	"fmt"
	"strings"
)

// pipeOwner is a process that serves pipes of csi-proxy.
type pipeOwner struct {
	pid     uint32
	image   string // its program
	service string // the name of the service that runs in it, or ""
	pipes   []string
}

// what returns the name of its pipe, or their number.
func (o pipeOwner) what() string {
	if len(o.pipes) == 1 {
		return o.pipes[0]
	}
	return fmt.Sprintf("%d pipes", len(o.pipes))
}

// ownersHint says what to do about a pipe that is not served because other processes serve other
// pipes; if that is not the reason, it says what else may be.
func ownersHint(owners []pipeOwner, otherwise string) string {
	hint := otherwise
	for _, o := range owners {
		hint = fmt.Sprintf("process %d (%s) serves %s: if it should not, stop it, and the csi-proxy that waits for it serves; otherwise %s", o.pid, o.image, o.what(), hint)
	}
	return hint
}

// examineWaiting finds the processes that prevent a Windows service of csi-proxy, which
// runs in a process, from serving.
func examineWaiting(service string, pid uint32, owners []pipeOwner) []finding {
	found := []finding{}
	for _, o := range owners {
		if o.pid == pid {
			continue
		}
		hint := fmt.Sprintf("stop what has started it: keep the pod of a DaemonSet off the node, or press Ctrl-C in its console. If that does not help: taskkill /F /PID %d, which cuts off a format that runs", o.pid)
		if o.service != "" {
			hint = "sc.exe stop " + quoted(o.service)
		}
		found = append(found, finding{resultProblem, "install", fmt.Sprintf("the service %s (process %d) waits: process %d (%s) serves %s", service, pid, o.pid, o.image, o.what()),
			hint + "; the service then serves without a restart. If the other one is to stay: csi-proxy uninstall"})
	}
	return found
}

// ownersOf returns the processes that serve the pipes, as serverOf says, in the order of
// their first pipe. Pipes whose process is unknown are left out.
func ownersOf(paths []string, serverOf func(path string) (pid uint32, image string, err error)) []pipeOwner {
	var owners []pipeOwner
	at := map[uint32]int{}
	for _, path := range paths {
		pid, image, err := serverOf(path)
		if err != nil {
			continue
		}
		i, known := at[pid]
		if !known {
			i = len(owners)
			at[pid] = i
			owners = append(owners, pipeOwner{pid: pid, image: image})
		}
		owners[i].pipes = append(owners[i].pipes, path[strings.LastIndexAny(path, `\/`)+1:])
	}
	return owners
}
