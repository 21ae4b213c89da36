package simhost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// FuzzNodeConfig reads any bytes as the description of a simulated node: they are
// refused, or make a node that opens again from its state and holds no handle.
func FuzzNodeConfig(f *testing.F) {
	for _, text := range []string{
		"",
		"disks: [{size: 1GiB}]",
		"disks: [{size: 1GiB, sectorSize: 4096, serialNumber: A, location: {port: 1, path: 0, target: 2, lun: 3}}]",
		"disks: [{size: -1}]",
		"disks: [{size: 16EiB}]",
		"smbServers: [{name: s, shares: [{name: d}], accounts: [{user: u, password: p}]}]",
		"services: [{name: MSiSCSI, state: running, startDelay: 1s, dependsOn: [RpcSs]}]",
		"services: [{name: a, dependsOn: [b]}, {name: b, dependsOn: [a]}]",
		"firmware: {serialNumber: X, smbios: '0001'}",
		"a: &a [*a]",
		"{}: 1",
		`"unknown field \"x\"": 1`,
		"diks: []",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "node.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := nodeConfig(file)
		if err != nil {
			return
		}
		// A description is trusted to say where its state goes and how many disks
		// there are; this test's own machine is not.
		config.StateDir = filepath.Join(dir, "state")
		config.Disks = config.Disks[:min(len(config.Disks), 4)]
		n, err := simnode.Open(config)
		if err != nil {
			return
		}
		if state, err := n.Show(); err != nil || len(state.OpenHandles) > 0 {
			t.Errorf("%q: Show: %v, handles open: %q", text, err, state.OpenHandles)
		}
		if err := n.Close(); err != nil {
			t.Errorf("%q: Close: %v", text, err)
		}
		if n, err = simnode.Open(config); err != nil {
			t.Fatalf("%q: the second time: %v", text, err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("%q: Close, the second time: %v", text, err)
		}
	})
}
