package smb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// smbServer is stored under "smb/server/<folded name>".
type smbServer struct {
	Name         string                `json:"name"`
	Down         bool                  `json:"down,omitempty"`
	NoEncryption bool                  `json:"noEncryption,omitempty"`
	NodeAccount  bool                  `json:"nodeAccount,omitempty"`
	Accounts     map[string]smbAccount `json:"accounts,omitempty"` // by folded user
	Shares       map[string]smbShare   `json:"shares,omitempty"`   // by folded name
}

// smbAccount keeps a salted hash of its password, as a server does.
type smbAccount struct {
	User    string `json:"user"`
	Salt    []byte `json:"salt"`
	Hash    []byte `json:"hash"`
	Changes int    `json:"changes"` // how many times the password was set
}

type smbShare struct {
	Name string `json:"name"`
	FSID string `json:"fsid"` // its file tree
}

// smbMapping is stored under "smb/mapping/<folded remote>".
type smbMapping struct {
	Remote  string `json:"remote"`
	User    string `json:"user,omitempty"`
	Domain  string `json:"domain,omitempty"`
	Account string `json:"account,omitempty"` // key of the account; "" for the node's own
	Changes int    `json:"changes,omitempty"` // smbAccount.Changes at the start of the session
	Status  uint32 `json:"status,omitempty"`
	Flags   uint32 `json:"flags,omitempty"` // what UseAdd was asked to require
	Lost    bool   `json:"lost,omitempty"`  // the client no longer has the credentials
	Idle    bool   `json:"idle,omitempty"`  // disconnected, and works again when it is used
	// Behind is the number of lists for which NetUseEnum still reports Shown, although the
	// mapping has Status: what Windows reports is behind what happens.
	Behind int    `json:"behind,omitempty"`
	Shown  uint32 `json:"shown,omitempty"`
	Hidden bool   `json:"hidden,omitempty"` // NetUseEnum does not report the user
}

// share returns the share that is mapped.
func (m smbMapping) share() winpath.Share {
	share, _ := winpath.ParseShare(m.Remote) // UseAdd and loadSMB refuse other names
	return share
}

// Network is the SMB servers that a node can reach, with its client.
type Network struct {
	*kernel.Kernel
	volumes *volume.Volumes
	smb     smbState
}

// New returns a network whose shares have file trees.
func New(k *kernel.Kernel, v *volume.Volumes) *Network {
	return &Network{Kernel: k, volumes: v, smb: newSMBState()}
}

// smbState is the SMB state of a node in memory.
type smbState struct {
	servers  map[string]smbServer
	mappings map[winpath.Share]smbMapping
	volumes  map[string]*volume.Volume // file systems of shares in use, by fsid
	turn     chan struct{}             // held by the call that uses the client, if calls are serial
}

func newSMBState() smbState {
	return smbState{map[string]smbServer{}, map[winpath.Share]smbMapping{}, map[string]*volume.Volume{}, make(chan struct{}, 1)}
}

const (
	smbServerPrefix  = "smb/server/"
	smbMappingPrefix = "smb/mapping/"
)

func foldSMB(s string) string { return strings.ToLower(s) }

// setServer and setMapping store a record, and update memory on commit.
func (n *Network) setServer(t *kernel.Tx, s smbServer) {
	kernel.PutIn(t, n.smb.servers, smbServerPrefix, foldSMB(s.Name), s)
}

func (n *Network) setMapping(t *kernel.Tx, m smbMapping) {
	t.Put(smbMappingPrefix+m.share().String(), m)
	t.OnCommit(func() { n.smb.mappings[m.share()] = m })
}

func (n *Network) deleteMapping(t *kernel.Tx, m smbMapping) {
	t.Delete(smbMappingPrefix + m.share().String())
	t.OnCommit(func() { delete(n.smb.mappings, m.share()) })
}

// Load reads servers and mappings. Windows kept running while the process was
// not, so mappings are unchanged.
func (n *Network) Load() error {
	if err := kernel.LoadIn(n.Store, n.smb.servers, smbServerPrefix); err != nil {
		return err
	}
	for _, k := range n.Store.Keys(smbMappingPrefix) {
		var m smbMapping
		if err := n.Store.Read(k, &m); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		share, err := winpath.ParseShare(m.Remote)
		if err != nil || m.Status > win32.USE_RECONN || m.Shown > win32.USE_RECONN {
			return fmt.Errorf("%s: not an SMB mapping: status %d, %v", k, m.Status, err)
		}
		n.smb.mappings[share] = m
	}
	return nil
}

// Boot restarts Windows. nodespec.Config.SMBAfterReboot says what that does to the
// mappings.
func (n *Network) Boot(t *kernel.Tx) {
	for _, m := range n.smb.mappings {
		if n.Windows.SMBAfterReboot != behavior.SMBWorking {
			n.Chosen("smbAfterReboot", "a mapping does not outlast a restart", m.Remote)
		}
		switch n.Windows.SMBAfterReboot {
		case behavior.SMBAbsent:
			n.deleteMapping(t, m)
			continue
		case behavior.SMBWorking:
			m.Hidden = true
		default:
			m.Status, m.Lost = win32.USE_DISCONN, true
		}
		n.setMapping(t, m)
	}
}

// Show returns the servers and mappings, sorted.
func (n *Network) Show() (servers []nodespec.SMBServerInfo, mappings []nodespec.SMBMappingInfo) {
	for _, s := range n.smb.servers {
		info := nodespec.SMBServerInfo{Name: s.Name, Down: s.Down, Encryption: !s.NoEncryption}
		for _, share := range s.Shares {
			info.Shares = append(info.Shares, share.Name)
		}
		for _, a := range s.Accounts {
			info.Users = append(info.Users, a.User)
		}
		slices.Sort(info.Shares)
		slices.Sort(info.Users)
		servers = append(servers, info)
	}
	for _, m := range n.smb.mappings {
		user := m.User
		if m.Domain != "" {
			user = m.Domain + `\` + m.User
		}
		mappings = append(mappings, nodespec.SMBMappingInfo{Remote: m.Remote, User: user, Status: nodespec.SMBStatuses()[m.Status]})
	}
	slices.SortFunc(servers, func(a, b nodespec.SMBServerInfo) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(mappings, func(a, b nodespec.SMBMappingInfo) int { return strings.Compare(a.Remote, b.Remote) })
	return servers, mappings
}
