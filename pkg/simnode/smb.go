package simnode

import (
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// addLinks adds the links that use each mapping.
func (n *Node) addLinks(mappings []SMBMappingInfo) error {
	if len(mappings) == 0 {
		return nil
	}
	links, err := n.bareSMB.Links()
	if err != nil && !errors.Is(err, smbapi.ErrIncomplete) {
		return err
	}
	for i := range mappings {
		share, err := winpath.ParseShare(mappings[i].Remote)
		for _, l := range links {
			if err == nil && l.Share() == share {
				mappings[i].UsedBy = append(mappings[i].UsedBy, l.Path)
			}
		}
	}
	return nil
}

// AddSMBServer adds an SMB server to the network of the node.
func (n *Node) AddSMBServer(s SMBServer) error {
	return refused(n.emulated.AddSMBServer(s))
}

// RemoveSMBShare removes a share with its content. A mapping of it stays, disconnected.
func (n *Node) RemoveSMBShare(server, share string) error {
	return refused(n.emulated.RemoveSMBShare(server, share))
}

// AddSMBShare adds an empty share to a server.
func (n *Node) AddSMBShare(server, share string) error {
	return refused(n.emulated.AddSMBShare(server, share))
}

// AddShareDirectory makes a directory on a share, as another machine could. path is relative
// to the share.
func (n *Node) AddShareDirectory(server, share, path string) error {
	return refused(n.emulated.MakeShareDirectory(server, share, path))
}

// SetSMBPassword sets the password of an account on a server, and adds the account if it does
// not exist. Existing connections keep working until the server goes down.
func (n *Node) SetSMBPassword(server, user, password string) error {
	return refused(n.emulated.SetSMBPassword(server, user, password))
}

// SetSMBEncryption sets whether a server supports encryption.
func (n *Node) SetSMBEncryption(server string, can bool) error {
	return refused(n.emulated.SetSMBEncryption(server, can))
}

// SetSMBServerDown makes a server unreachable, or reachable again. Mappings whose credentials
// the server accepts work again then.
func (n *Node) SetSMBServerDown(server string, down bool) error {
	return refused(n.emulated.SetSMBServerDown(server, down))
}

// SetSMBMappingStatus sets the status that Windows reports for a mapping: "ok", "paused",
// "disconnected", "network error", "connecting" or "reconnecting".
func (n *Node) SetSMBMappingStatus(remote, status string) error {
	return refused(n.emulated.SetSMBMappingStatus(remote, status))
}
