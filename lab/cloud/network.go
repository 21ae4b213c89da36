package cloud

import (
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// What clouds have on the network of the node.
const (
	fileServer   = "files.example.com"
	share        = "data"
	user         = "csi"
	password     = "csi"
	chapSecret   = "csi-secret-1234"
	azureAccount = "csilab"
	azureKey     = "Y3NpLXByb3h5LWxhYg=="
	azureServer  = azureAccount + ".file.core.windows.net"
)

var portal = simnode.ISCSIPortal{Address: "192.0.2.20", Port: 3260}

// SMBServers are the servers of all clouds, for the configuration of a node.
func SMBServers() []simnode.SMBServer {
	return []simnode.SMBServer{
		{Name: fileServer, Shares: []string{share}, Accounts: []simnode.SMBAccount{{User: user, Password: password}}},
		{Name: azureServer, Accounts: []simnode.SMBAccount{{User: azureAccount, Password: azureKey}}},
	}
}

// network makes volumes that the node reaches through the network. All may be repeated.
type network interface {
	make(n Node, v volume, size int64) error
	remove(n Node, v volume) error
}

// grower is a network whose volumes can grow.
type grower interface {
	grow(n Node, v volume, size int64) error
}

// directory is a directory of the share, by the name of a volume, or the share if it is nil.
// What was in it stays, as by the drivers' onDelete: retain.
type directory func(digest) string

func (d directory) make(n Node, v volume, _ int64) error {
	if d == nil {
		return nil
	}
	return n.AddShareDirectory(fileServer, share, d(v.digest))
}

func (directory) remove(Node, volume) error { return nil }

// azureShare is a share of the account. It stays, as by the reclaim policy Retain.
type azureShare struct{}

func (azureShare) make(n Node, v volume, _ int64) error {
	name := "pvc-" + v.digest.hex(12)
	state, err := n.Show()
	if err != nil {
		return err
	}
	for _, s := range state.SMBServers {
		if s.Name == azureServer && slices.Contains(s.Shares, name) {
			return nil
		}
	}
	return n.AddSMBShare(azureServer, name)
}

func (azureShare) remove(Node, volume) error { return nil }

// target is an iSCSI target with one LUN.
type target struct{}

func iqn(d digest) string { return "iqn.2025-01.com.example:vol-" + d.hex(16) }

func (target) make(n Node, v volume, size int64) error {
	return n.SetISCSITarget(simnode.ISCSITarget{
		IQN: iqn(v.digest), Portals: []simnode.ISCSIPortal{portal}, CHAP: &simnode.CHAP{User: user, Secret: chapSecret},
		LUNs: []simnode.LUN{{Disk: simnode.Disk{Size: simnode.Size(size)}}},
	})
}

func (target) remove(n Node, v volume) error { return n.RemoveISCSITarget(iqn(v.digest)) }

// grow grows the LUN, and its disk if the node is logged in.
func (t target) grow(n Node, v volume, size int64) error {
	if err := t.make(n, v, size); err != nil {
		return err
	}
	state, err := n.Show()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(state.ISCSITargets, func(t simnode.ISCSITargetInfo) bool { return t.IQN == iqn(v.digest) })
	if i < 0 {
		return fmt.Errorf("the target %s is gone", iqn(v.digest))
	}
	for _, d := range state.Disks {
		if slices.Contains(state.ISCSITargets[i].Disks, d.Number) && d.Size < simnode.Size(size) {
			if err := n.GrowDisk(d.Number, simnode.Size(size)); err != nil {
				return err
			}
		}
	}
	return nil
}
