package cloud

import (
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// What clouds have on the network of the node.
const (
	fileServer   = "files.example.com"
	share        = "data"
	user         = "csi"
	password     = "csi"
	azureAccount = "csilab"
	azureKey     = "Y3NpLXByb3h5LWxhYg=="
	azureServer  = azureAccount + ".file.core.windows.net"
)

// SMBServers are the servers of all clouds, for the configuration of a node.
func SMBServers() []simnode.SMBServer {
	return []simnode.SMBServer{
		{Name: fileServer, Shares: []string{share}, Accounts: []simnode.SMBAccount{{User: user, Password: password}}},
		{Name: azureServer, Accounts: []simnode.SMBAccount{{User: azureAccount, Password: azureKey}}},
	}
}

// directory makes a directory of the share, by the name of a volume. As a share of the account, it stays
// when the volume is deleted, as by the reclaim policy Retain.
func directory(name func(digest) string) func(*simnode.Node, volume) error {
	return func(n *simnode.Node, v volume) error { return n.AddShareDirectory(fileServer, share, name(v.digest)) }
}

// azureShare makes a share of the account.
func azureShare(n *simnode.Node, v volume) error {
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
