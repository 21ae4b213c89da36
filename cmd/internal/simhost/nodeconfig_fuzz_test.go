package simhost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// FuzzNodeConfig parses arbitrary bytes as the description of a simulated node. A valid
// description must result in a node that has no open handle and can be opened again from
// its state.
func FuzzNodeConfig(f *testing.F) {
	for _, text := range []string{
		"",
		"disks: [{size: 1GiB}]",
		"disks: [{size: 1GiB, sectorSize: 4096, serialNumber: A, location: {port: 1, path: 0, target: 2, lun: 3}}]",
		"disks: [{size: -1}]",
		"disks: [{size: 1GiB, content: gpt, partitions: [{}], bytes: [{at: 512, data: AAAA}]}]",
		"iscsi: {portals: [10.0.0.1, '[fd00::1]:3261', a], targets: [{iqn: iqn.a, portals: [a], luns: [{disk: {bytes: [{at: 1, data: AQ==}]}}]}]}",
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
		// The state directory and the number of disks are not restricted, so the test
		// sets them.
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
			t.Fatalf("%q: Open again: %v", text, err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("%q: Close again: %v", text, err)
		}
	})
}
