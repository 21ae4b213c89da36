package main

import (
	"testing"
)

func TestLogNames(t *testing.T) {
	for log, names := range map[string]map[string]bool{
		"csi-proxy.log": {
			"csi-proxy.log": true, "CSI-PROXY.LOG": true, "csi-proxy-20260131T235959.123.log": true,
			"csi-proxy-crash.log": true, "csi-proxy-crash-20260131T235959.123.log": true,
			"csi-proxy-secrets.log": false, "csi-proxyXlog": false, "csi-proxy.log.bak": false, "csi-proxy": false, "my-csi-proxy.log": false,
		},
		"k":     {"k": true, "k-20260131T235959.123": true, "k-crash.log": true, "kubeconfig": false, "k-config": false},
		"a.txt": {"a.txt": true, "a-crash.log": true, "a-crash.txt": false, "a.log": false},
	} {
		for name, want := range names {
			if got := logNames(log).MatchString(name); got != want {
				t.Errorf("-log_file=%s: %s is taken: %t, want %t", log, name, got, want)
			}
		}
	}
	for name, want := range map[string]bool{
		"csi-proxy.exe.node.NT_SYSTEM.log.INFO.20260101-000000.1": true, "csi-proxy-crash.log": true, "csi-proxy.log": true,
		"kubeconfig": false, "kubelet.log": false, "csi-proxy.yaml": false, "csi-proxy.logins": false, "csi-proxy-log": false,
	} {
		if got := logInDirectory.MatchString(name); got != want {
			t.Errorf("-log_dir: %s is taken: %t, want %t", name, got, want)
		}
	}
}
