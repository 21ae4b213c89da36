package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestWaitingService(t *testing.T) {
	servers := map[string]uint32{`\\.\pipe\csi-proxy-disk-v1`: 34, `\\.\pipe\csi-proxy-smb-v1`: 34, `\\.\pipe\csi-proxy-system-v1alpha1`: 12}
	owners := ownersOf([]string{`\\.\pipe\csi-proxy-disk-v1`, `\\.\pipe\csi-proxy-gone-v1`, `\\.\pipe\csi-proxy-smb-v1`, `\\.\pipe\csi-proxy-system-v1alpha1`}, func(path string) (uint32, string, error) {
		pid, ok := servers[path]
		if !ok {
			return 0, "", errors.New("no such pipe")
		}
		return pid, `C:\csi-proxy.exe`, nil
	})
	if len(owners) != 2 || !slices.Equal(owners[0].pipes, []string{"csi-proxy-disk-v1", "csi-proxy-smb-v1"}) {
		t.Fatalf("the owners are %+v", owners)
	}
	for name, c := range map[string]struct {
		pid    uint32
		owners []pipeOwner
		what   []string // of each finding
		hint   []string
	}{
		"the service serves":       {12, owners[1:], nil, nil},
		"another process":          {12, owners, []string{`the service csiproxy (process 12) waits: process 34 (C:\csi-proxy.exe) serves 2 pipes`}, []string{"stop what has started it: keep the pod of a DaemonSet off the node, or press Ctrl-C in its console. If that does not help: taskkill /F /PID 34, which cuts off a format that runs; "}},
		"a service with one pipe":  {7, []pipeOwner{{99, "a.exe", "old-proxy", []string{"csi-proxy-disk-v1"}}}, []string{"process 99 (a.exe) serves csi-proxy-disk-v1"}, []string{"sc.exe stop old-proxy; "}},
		"two processes in its way": {7, owners, []string{"process 34 ", "process 12 "}, []string{"/PID 34,", "/PID 12,"}},
	} {
		found := examineWaiting("csiproxy", c.pid, c.owners)
		if len(found) != len(c.what) {
			t.Errorf("%s: %+v, want %d findings", name, found, len(c.what))
			continue
		}
		for i, f := range found {
			if f.Result != resultProblem || !strings.Contains(f.What, c.what[i]) || !strings.Contains(f.Hint, c.hint[i]) {
				t.Errorf("%s: %+v, want a problem with %q and %q", name, f, c.what[i], c.hint[i])
			}
		}
	}
}
