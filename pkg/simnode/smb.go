package simnode

import (
	"errors"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// SMBServer describes an SMB server that the node can reach.
type SMBServer struct {
	Name string `json:"name"` // as in \\name\share
	// Shares are the names of its shares, which are empty at first.
	Shares   []string     `json:"shares,omitempty"`
	Accounts []SMBAccount `json:"accounts,omitempty"`
	// NodeAccount lets the node in without a user name.
	NodeAccount bool `json:"nodeAccount,omitempty"`
	// NoEncryption is a server without SMB 3's encryption.
	NoEncryption bool `json:"noEncryption,omitempty"`
}

// SMBAccount is an account of an SMB server. It prints without its password.
type SMBAccount struct {
	User     string `json:"user"` // "name" or `DOMAIN\name`
	Password string `json:"password"`
}

// Format implements [fmt.Formatter].
func (a SMBAccount) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", a.User) }

// SMBServerInfo is an SMB server as it is.
type SMBServerInfo struct {
	Name       string
	Shares     []string
	Users      []string
	Down       bool
	Encryption bool
}

// SMBMappingInfo is a global mapping of the node.
type SMBMappingInfo struct {
	Remote string // \\server\share
	User   string
	Status string   // "ok", "disconnected" …
	UsedBy []string // links to the share, where the kubelet lets CSI drivers make them
}

// showSMB adds servers and mappings to state.
func (n *Node) showSMB(state *State, info emulated.NodeInfo) error {
	for _, s := range info.SMBServers {
		state.SMBServers = append(state.SMBServers, SMBServerInfo(s))
	}
	if len(info.SMBMappings) == 0 {
		return nil
	}
	links, err := n.bareSMB.Links()
	if err != nil && !errors.Is(err, smbapi.ErrIncomplete) {
		return err
	}
	for _, m := range info.SMBMappings {
		mapping := SMBMappingInfo{Remote: m.Remote, User: m.User, Status: smbapi.Status(m.Status).String()}
		for _, l := range links {
			if l.On(m.Remote) {
				mapping.UsedBy = append(mapping.UsedBy, l.Path)
			}
		}
		state.SMBMappings = append(state.SMBMappings, mapping)
	}
	return nil
}

// AddSMBServer puts another SMB server on the network of the node.
func (n *Node) AddSMBServer(s SMBServer) error {
	c, err := translate[emulated.SMBServerConfig](s)
	if err != nil {
		return refused(err)
	}
	return refused(n.emulated.AddSMBServer(c))
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

// smbStatuses are the statuses that a mapping can have.
var smbStatuses = []smbapi.Status{smbapi.StatusOK, smbapi.StatusPaused, smbapi.StatusDisconnected,
	smbapi.StatusNetworkError, smbapi.StatusConnecting, smbapi.StatusReconnecting}

// SetSMBMappingStatus makes Windows tell a status of a mapping: "ok", "paused",
// "disconnected", "network error", "connecting" or "reconnecting".
func (n *Node) SetSMBMappingStatus(remote, status string) error {
	for _, s := range smbStatuses {
		if s.String() == status {
			return refused(n.emulated.SetSMBMappingStatus(remote, uint32(s)))
		}
	}
	return refused(fmt.Errorf("status %q, want one of %v", status, smbStatuses))
}
