package simnode

import (
	"errors"

	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// addLinks sets who uses each mapping.
func (n *Node) addLinks(mappings []SMBMappingInfo) error {
	if len(mappings) == 0 {
		return nil
	}
	links, err := n.bareSMB.Links()
	if err != nil && !errors.Is(err, smbapi.ErrIncomplete) {
		return err
	}
	for i := range mappings {
		for _, l := range links {
			if l.On(mappings[i].Remote) {
				mappings[i].UsedBy = append(mappings[i].UsedBy, l.Path)
			}
		}
	}
	return nil
}

// AddSMBServer puts another SMB server on the network of the node.
func (n *Node) AddSMBServer(s SMBServer) error {
	return refused(n.emulated.AddSMBServer(s))
}

// RemoveSMBServer makes a server vanish for good, with its shares and accounts.
// Mappings of them stay, disconnected; [Node.SetSMBServerDown] takes a server
// away for a while.
func (n *Node) RemoveSMBServer(server string) error {
	return refused(n.emulated.RemoveSMBServer(server))
}

// RemoveSMBShare makes a share vanish, with what is on it. A mapping of it stays,
// disconnected.
func (n *Node) RemoveSMBShare(server, share string) error {
	return refused(n.emulated.RemoveSMBShare(server, share))
}

// RemoveSMBAccount makes an account of a server vanish. Connections that it has
// go on until the server goes down.
func (n *Node) RemoveSMBAccount(server, user string) error {
	return refused(n.emulated.RemoveSMBAccount(server, user))
}

// AddSMBShare makes an empty share on a server.
func (n *Node) AddSMBShare(server, share string) error {
	return refused(n.emulated.AddSMBShare(server, share))
}

// AddShareDirectory makes a directory on a share, as another machine would. path
// is relative to the share.
func (n *Node) AddShareDirectory(server, share, path string) error {
	return refused(n.emulated.MakeShareDirectory(server, share, path))
}

// SetSMBPassword sets the password of an account of a server, and makes the
// account if there is none. Connections go on with the old one until the server
// goes down.
func (n *Node) SetSMBPassword(server, user, password string) error {
	return refused(n.emulated.SetSMBPassword(server, user, password))
}

// SetSMBEncryption tells whether a server can encrypt.
func (n *Node) SetSMBEncryption(server string, can bool) error {
	return refused(n.emulated.SetSMBEncryption(server, can))
}

// SetSMBServerDown takes a server away or brings it back. Mappings that the
// server takes come back with it.
func (n *Node) SetSMBServerDown(server string, down bool) error {
	return refused(n.emulated.SetSMBServerDown(server, down))
}

// SetSMBMappingStatus makes Windows tell a status of a mapping: "ok", "paused",
// "disconnected", "network error", "connecting" or "reconnecting".
func (n *Node) SetSMBMappingStatus(remote, status string) error {
	return refused(n.emulated.SetSMBMappingStatus(remote, status))
}
