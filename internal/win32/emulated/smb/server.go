package smb

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// account finds the account of the credentials. A domain is known if an account
// of the server has it; then the user is looked up in that domain. Any other
// domain (AZURE, a workgroup, the server's own name) stands for the server's own
// accounts: drivers pass such domains and mount with them
// (docs/develop/contract/smb.md#errors-of-a-mapping).
func (s smbServer) account(domain, user string) (key string, ok bool) {
	key = foldSMB(user)
	for known := range s.Accounts {
		if d, _, ok := strings.Cut(known, `\`); ok && d == foldSMB(domain) {
			key = foldSMB(domain + `\` + user)
		}
	}
	_, ok = s.Accounts[key]
	return key, ok
}

// logon returns the key of the account of the credentials, "" for the node's own
// account, or the server's error.
func (s smbServer) logon(c win32.Credentials) (key string, err error) {
	if c.User == "" {
		if !s.NodeAccount {
			return "", win32.ERROR_LOGON_FAILURE // Source: Windows, System Error 1326, as docs/develop/contract/smb.md says
		}
		return "", nil
	}
	key, known := s.account(c.Domain, c.User)
	if !known {
		return "", win32.ERROR_LOGON_FAILURE // Source: Windows, System Error 1326, as docs/develop/contract/smb.md says
	}
	a := s.Accounts[key]
	hash, err := kernel.HashPassword(c.Password.Reveal(), a.Salt)
	if err != nil || subtle.ConstantTimeCompare(hash, a.Hash) != 1 {
		// Source: document, WNetAddConnection2W, ERROR_INVALID_PASSWORD; Windows printed 1326,
		// too.
		return "", win32.ERROR_INVALID_PASSWORD
	}
	return key, nil
}

// LogonToServer implements [win32.SMBLogon]. It returns ERROR_BAD_NETPATH or
// another network error if the server is unknown or down, and otherwise the
// server's response to the credentials.
//
// Source: document, WNetAddConnection2W.
func (n *Network) LogonToServer(server string, c win32.Credentials) error {
	return n.Do(func(*kernel.Tx) error {
		s, known := n.smb.servers[foldSMB(server)]
		if !known || s.Down {
			return n.gone(server).errno
		}
		_, err := s.logon(c)
		return err
	})
}

// makeShare creates a share with an empty file tree.
func (n *Network) makeShare(t *kernel.Tx, s *smbServer, name string) error {
	if _, err := winpath.ParseShare(`\\s\` + name); err != nil {
		return fmt.Errorf("share %q: not a valid share name", name)
	}
	if _, exists := s.Shares[foldSMB(name)]; exists {
		return fmt.Errorf("share %q: already exists on \\\\%s", name, s.Name)
	}
	id, err := n.NewGUID()
	if err != nil {
		return err
	}
	// The dot distinguishes it from the identities of disks, which contain none.
	fsid := "share." + strings.Trim(id.String(), "{}")
	n.volumes.MakeTree(t, fsid)
	s.Shares[foldSMB(name)] = smbShare{name, fsid}
	return nil
}

// makeAccount creates an account of a server, or sets its password.
func (n *Network) makeAccount(s *smbServer, user, password string) error {
	if user == "" || strings.Count(user, `\`) > 1 {
		return fmt.Errorf("account %q: want a name, or a domain and a name such as DOMAIN\\name", user)
	}
	salt := make([]byte, 16)
	if _, err := io.ReadFull(n.Rand, salt); err != nil {
		return fmt.Errorf("random salt: %w", err)
	}
	hash, err := kernel.HashPassword(password, salt)
	if err != nil {
		return err
	}
	a := s.Accounts[foldSMB(user)]
	s.Accounts[foldSMB(user)] = smbAccount{User: user, Salt: salt, Hash: hash, Changes: a.Changes + 1}
	return nil
}

// addSMBServer creates a server from its description.
func (n *Network) addSMBServer(t *kernel.Tx, c nodespec.SMBServer) error {
	if err := validateSMBServer(c); err != nil {
		return err
	}
	if _, exists := n.smb.servers[foldSMB(c.Name)]; exists {
		return fmt.Errorf("SMB server %q already exists", c.Name)
	}
	s := smbServer{Name: c.Name, NoEncryption: c.NoEncryption, NodeAccount: c.NodeAccount, Accounts: map[string]smbAccount{}, Shares: map[string]smbShare{}}
	for _, name := range c.Shares {
		if err := n.makeShare(t, &s, name); err != nil {
			return err
		}
	}
	for _, a := range c.Accounts {
		if err := n.makeAccount(&s, a.User, a.Password); err != nil {
			return err
		}
	}
	n.setServer(t, s)
	return nil
}

// changeServer changes a server. change works on a copy.
func (n *Network) changeServer(name string, change func(t *kernel.Tx, s *smbServer) error) error {
	return n.Change(func(t *kernel.Tx) error {
		s, ok := n.smb.servers[foldSMB(name)]
		if !ok {
			return fmt.Errorf("no SMB server %q", name)
		}
		s.Accounts, s.Shares = maps.Collect(maps.All(s.Accounts)), maps.Collect(maps.All(s.Shares)) // nil if they were stored empty
		if err := change(t, &s); err != nil {
			return fmt.Errorf("SMB server %q: %w", s.Name, err)
		}
		n.setServer(t, s)
		return nil
	})
}

// AddSMBServer adds an SMB server to the network.
func (n *Network) AddSMBServer(c nodespec.SMBServer) error {
	return n.Change(func(t *kernel.Tx) error { return n.addSMBServer(t, c) })
}

// AddSMBShare creates an empty share on a server.
func (n *Network) AddSMBShare(server, share string) error {
	return n.changeServer(server, func(t *kernel.Tx, s *smbServer) error { return n.makeShare(t, s, share) })
}

// RemoveSMBShare removes a share and all its files. Handles on it can only be
// closed. A mapping of it stays, but is disconnected (general knowledge), even if
// a share of the same name is created, until the server has been down.
func (n *Network) RemoveSMBShare(server, share string) error {
	return n.changeServer(server, func(t *kernel.Tx, s *smbServer) error {
		sh, ok := s.Shares[foldSMB(share)]
		if !ok {
			return fmt.Errorf("no share %q", share)
		}
		delete(s.Shares, foldSMB(share))
		ref, _ := winpath.ParseShare(`\\` + s.Name + `\` + sh.Name) // validateSMBServer and makeShare refuse other names
		if m, ok := n.smb.mappings[ref]; ok {
			m.Status, m.Idle = win32.USE_DISCONN, false
			n.setMapping(t, m)
		}
		n.closeShare(t, ref)
		n.volumes.DropTree(t, sh.FSID)
		return nil
	})
}

// SetSMBPassword sets the password of an account of a server, and creates the
// account if necessary. Sessions last.
func (n *Network) SetSMBPassword(server, user, password string) error {
	return n.changeServer(server, func(_ *kernel.Tx, s *smbServer) error { return n.makeAccount(s, user, password) })
}

// SetSMBEncryption sets whether a server supports encryption. Sessions last.
func (n *Network) SetSMBEncryption(server string, can bool) error {
	return n.changeServer(server, func(_ *kernel.Tx, s *smbServer) error { s.NoEncryption = !can; return nil })
}

// SetSMBServerDown takes a server down, which ends all its sessions, or brings it
// up again. Sessions then start again if the client still has the credentials and
// the server still accepts them.
func (n *Network) SetSMBServerDown(server string, down bool) error {
	return n.changeServer(server, func(t *kernel.Tx, s *smbServer) error {
		s.Down = down
		for ref, m := range n.smb.mappings {
			if ref.Server() != foldSMB(s.Name) {
				continue
			}
			a, account := s.Accounts[m.Account]
			_, share := s.Shares[ref.Name()]
			switch {
			case down:
				m.Status, m.Idle = win32.USE_DISCONN, false
				n.closeShare(t, ref)
			case !m.Lost && share && (m.Account == "" && s.NodeAccount || account && a.Changes == m.Changes):
				m.Status, m.Idle = win32.USE_DISCONN, true // until a program uses it (docs/develop/contract/smb.md)
			}
			n.setMapping(t, m)
		}
		return nil
	})
}

// SetSMBMappingStatus sets the status that Windows reports for a mapping, as
// after network errors: one of [nodespec.SMBStatuses].
func (n *Network) SetSMBMappingStatus(remote, status string) error {
	return n.changeMapping(remote, status, func(m *smbMapping, number uint32) { m.Status, m.Idle = number, false })
}

// ShowSMBMappingStatus makes the next lists report a status that the mapping does not have: it
// works, or not, as before.
func (n *Network) ShowSMBMappingStatus(remote, status string, lists int) error {
	return n.changeMapping(remote, status, func(m *smbMapping, number uint32) { m.Behind, m.Shown = lists, number })
}

func (n *Network) changeMapping(remote, status string, change func(m *smbMapping, number uint32)) error {
	return n.Change(func(t *kernel.Tx) error {
		share, err := winpath.ParseShare(remote)
		m, ok := n.smb.mappings[share]
		if err != nil || !ok {
			return fmt.Errorf("no SMB mapping of %q", remote)
		}
		number := slices.Index(nodespec.SMBStatuses(), status)
		if number < 0 {
			return fmt.Errorf("status %q, want one of %q", status, nodespec.SMBStatuses())
		}
		change(&m, uint32(number))
		n.setMapping(t, m)
		return nil
	})
}

// MakeShareDirectory creates a directory on a share, with its parents, as another
// machine would. path is relative to the share.
func (n *Network) MakeShareDirectory(server, share, path string) error {
	return n.changeServer(server, func(t *kernel.Tx, s *smbServer) error {
		sh, ok := s.Shares[foldSMB(share)]
		if !ok {
			return fmt.Errorf("no share %q", share)
		}
		if err := n.volumes.OfShare(winpath.Share{}, "", sh.FSID).MakeDirectory(t, path); err != nil {
			return fmt.Errorf("directory %q: %w", path, err)
		}
		return nil
	})
}

func validateSMBServer(c nodespec.SMBServer) error {
	if _, err := winpath.ParseShare(`\\` + c.Name + `\s`); err != nil {
		return fmt.Errorf("SMB server %q: not a valid server name", c.Name)
	}
	return nil
}

// defaultSMBServers are the servers of a node whose configuration has none.
var defaultSMBServers = []nodespec.SMBServer{{
	Name: "files.example.com", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "csi", Password: "csi"}},
}}

// Make creates the configured servers.
func (n *Network) Make() error {
	servers := n.Config.SMBServers
	if servers == nil {
		servers = defaultSMBServers
	}
	for _, c := range servers {
		if err := n.Transact(func(t *kernel.Tx) error { return n.addSMBServer(t, c) }); err != nil {
			return n.Cause(err)
		}
	}
	return nil
}

// Validate refuses invalid descriptions of servers.
func Validate(servers []nodespec.SMBServer) error {
	seen := map[string]bool{}
	for i, c := range servers {
		err := validateSMBServer(c)
		if err == nil && seen[foldSMB(c.Name)] {
			err = errors.New("another server has the same name")
		}
		if err != nil {
			return fmt.Errorf("SMB server %d of the configuration: %w", i, err)
		}
		seen[foldSMB(c.Name)] = true
	}
	return nil
}
