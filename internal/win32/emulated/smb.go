package emulated

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// This is the node's SMB client and the servers that it can reach.
//
// # Mappings and sessions
//
// A mapping has the status that NetUseEnum reports. From UseAdd on it is OK, as
// long as its session lasts. A session ends when its server goes down. When the
// server is back, the session starts again with the credentials that the client
// keeps in memory, if the server still accepts them. A restart of Windows keeps
// the mappings but loses the credentials: such mappings stay disconnected until
// they are created again. The node does not store credentials: a mapping stores
// how many times the password of its account had been set.
//
// A change of the password on the server does not end sessions ([MS-SMB2]: a
// session is authenticated once), so the mapping stays OK until the server goes
// down for the first time.
//
// # One user per server
//
// Windows refuses a second user for one server (error 1219), whatever the status
// of the first user's mappings, and so does the node. Mapping the same share
// again succeeds for the same user while its session lasts. Otherwise the error
// is 1219 (general knowledge, from reports of users after a restart).

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
	Lost    bool   `json:"lost,omitempty"` // the client no longer has the credentials
}

// smbState is the SMB state of a node in memory.
type smbState struct {
	servers  map[string]smbServer
	mappings map[string]smbMapping
	volumes  map[string]*volume // file systems of shares in use, by fsid
}

func newSMBState() smbState {
	return smbState{map[string]smbServer{}, map[string]smbMapping{}, map[string]*volume{}}
}

const (
	smbServerPrefix  = "smb/server/"
	smbMappingPrefix = "smb/mapping/"
	// passwordRounds is low, because it only protects passwords of tests.
	passwordRounds = 1000
)

func foldSMB(s string) string { return strings.ToLower(s) }

// setServer and setMapping store a record, and update memory on commit.
func (n *Node) setServer(t *tx, s smbServer) {
	key := foldSMB(s.Name)
	t.Put(smbServerPrefix+key, s)
	t.onCommit(func() { n.smb.servers[key] = s })
}

func (n *Node) setMapping(t *tx, m smbMapping) {
	key := foldSMB(m.Remote)
	t.Put(smbMappingPrefix+key, m)
	t.onCommit(func() { n.smb.mappings[key] = m })
}

// loadSMB reads servers and mappings. Windows kept running while the process was
// not, so mappings are unchanged.
func (n *Node) loadSMB() error {
	for _, k := range n.store.keys(smbServerPrefix) {
		var s smbServer
		if err := json.Unmarshal(n.store.data[k], &s); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		n.smb.servers[foldSMB(s.Name)] = s
	}
	for _, k := range n.store.keys(smbMappingPrefix) {
		var m smbMapping
		if err := json.Unmarshal(n.store.data[k], &m); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		if m.Status > win32.USE_RECONN {
			return fmt.Errorf("%s: not an SMB mapping: status %d", k, m.Status)
		}
		n.smb.mappings[foldSMB(m.Remote)] = m
	}
	return nil
}

// bootSMB restarts Windows: mappings stay, but lose their credentials.
func (n *Node) bootSMB(t *tx) {
	for _, m := range n.smb.mappings {
		m.Status, m.Lost = win32.USE_DISCONN, true
		n.setMapping(t, m)
	}
}

// hashPassword returns what a server stores of a password.
func hashPassword(password string, salt []byte) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, salt, passwordRounds, sha256.Size)
}

// account finds the account of the credentials. A domain is known if an account of
// the server has it; its users are looked up in it. Any other domain (AZURE, a
// workgroup, the server's own name) means the server's own accounts: drivers pass such
// domains and mount with them (docs/contract/smb.md#errors-of-a-mapping).
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

// logon returns the key of the account that the credentials are of, "" for the node's
// own, or the server's reason for refusing them.
func (s smbServer) logon(c win32.Credentials) (key string, err error) {
	if c.User == "" {
		if !s.NodeAccount {
			return "", win32.ERROR_LOGON_FAILURE
		}
		return "", nil
	}
	key, known := s.account(c.Domain, c.User)
	if !known {
		return "", win32.ERROR_LOGON_FAILURE
	}
	a := s.Accounts[key]
	hash, err := hashPassword(c.Password.Reveal(), a.Salt)
	if err != nil || subtle.ConstantTimeCompare(hash, a.Hash) != 1 {
		return "", win32.ERROR_INVALID_PASSWORD
	}
	return key, nil
}

// LogonToServer implements [win32.SMBLogon]: ERROR_BAD_NETPATH for a server that is not
// there, else what the server says of the credentials.
func (n *Node) LogonToServer(server string, c win32.Credentials) error {
	return n.do(func(*tx) error {
		s, known := n.smb.servers[foldSMB(server)]
		if !known || s.Down {
			return win32.ERROR_BAD_NETPATH
		}
		_, err := s.logon(c)
		return err
	})
}

// UseAdd implements [win32.SMB]. In addition to the rules above it returns
//
//   - ERROR_INVALID_PARAMETER for unknown flags, ERROR_BAD_NET_NAME for a
//     remote that is not \\server\share,
//   - ERROR_BAD_NETPATH for a server that is unknown or down,
//   - ERROR_LOGON_FAILURE for an unknown user, and for no user if the server
//     does not accept the node's account; ERROR_INVALID_PASSWORD;
//     ERROR_NO_SUCH_LOGON_SESSION for an invalid user name
//     (docs/contract/smb.md#errors-of-a-mapping),
//   - ERROR_ACCESS_DENIED for privacy on a server without encryption
//     (docs/contract/smb.md#errors-of-a-mapping).
func (n *Node) UseAdd(u win32.NewUse) error {
	return n.do(func(t *tx) error {
		ref, err := winpath.ParseShare(u.Remote)
		switch {
		case u.Flags&^(win32.REQUIRE_CONNECTION_INTEGRITY|win32.REQUIRE_CONNECTION_PRIVACY) != 0:
			return win32.ERROR_INVALID_PARAMETER
		case err != nil:
			return win32.ERROR_BAD_NET_NAME
		case strings.ContainsAny(u.User+u.Domain, "\"/[]:;|=,+*?<>\\\x00"):
			return win32.ERROR_NO_SUCH_LOGON_SESSION
		}
		server, known := n.smb.servers[foldSMB(ref.Server)]
		if !known || server.Down {
			return win32.ERROR_BAD_NETPATH
		}
		m := smbMapping{Remote: u.Remote, User: u.User, Domain: u.Domain}
		for _, other := range n.smb.mappings {
			o, err := winpath.ParseShare(other.Remote)
			if err != nil || !o.SameServer(ref) {
				continue
			}
			same := strings.EqualFold(other.User, u.User) && strings.EqualFold(other.Domain, u.Domain)
			if !same || o.Equal(ref) && other.Status != win32.USE_OK {
				return win32.ERROR_SESSION_CREDENTIAL_CONFLICT
			}
		}
		if u.Flags&win32.REQUIRE_CONNECTION_PRIVACY != 0 && server.NoEncryption {
			return win32.ERROR_ACCESS_DENIED
		}
		key, err := server.logon(win32.Credentials{User: u.User, Domain: u.Domain, Password: u.Password})
		if err != nil {
			return err
		}
		if key != "" {
			m.Account, m.Changes = key, server.Accounts[key].Changes
		}
		if _, ok := server.Shares[foldSMB(ref.Name)]; !ok {
			return win32.ERROR_BAD_NET_NAME
		}
		n.setMapping(t, m)
		return nil
	})
}

// UseEnum implements [win32.SMB]. Mappings are sorted by name.
func (n *Node) UseEnum() (uses []win32.Use, err error) {
	err = n.do(func(*tx) error {
		for _, m := range n.smb.mappings {
			uses = append(uses, win32.Use{Remote: m.Remote, User: m.User, Domain: m.Domain, Status: m.Status})
		}
		return nil
	})
	slices.SortFunc(uses, func(a, b win32.Use) int { return strings.Compare(foldSMB(a.Remote), foldSMB(b.Remote)) })
	return uses, err
}

// UseDel implements [win32.SMB]. Only USE_LOTS_OF_FORCE is emulated. Other values
// fail with ERROR_NOT_SUPPORTED, which Windows does not return.
func (n *Node) UseDel(remote string, force uint32) error {
	return n.do(func(t *tx) error {
		m, ok := n.smb.mappings[foldSMB(remote)]
		switch {
		case !ok:
			return win32.ERROR_NOT_CONNECTED
		case force > win32.USE_LOTS_OF_FORCE:
			return win32.ERROR_INVALID_PARAMETER
		case force != win32.USE_LOTS_OF_FORCE:
			return win32.ERROR_NOT_SUPPORTED
		}
		t.Delete(smbMappingPrefix + foldSMB(remote))
		t.onCommit(func() { delete(n.smb.mappings, foldSMB(remote)) })
		n.closeShare(t, m.Remote)
		return nil
	})
}

// closeShare closes the files on a share: their handles can only be closed.
func (n *Node) closeShare(t *tx, remote string) {
	for fsid, v := range n.smb.volumes {
		if !winpath.SameShare(v.share.String(), remote) {
			continue
		}
		t.deletePrefix(closingPrefix(fsid))
		t.onCommit(func() {
			v.gone = true
			v.tree.Dismount()
			delete(n.smb.volumes, fsid)
		})
	}
}

// reach returns the share if the node can use it now. Otherwise it returns the
// error of opening a file on it (ntstatus.h; when Windows returns which error is
// general knowledge).
func (n *Node) reach(ref winpath.Share) (smbShare, error) {
	server, ok := n.smb.servers[foldSMB(ref.Server)]
	if !ok || server.Down {
		return smbShare{}, win32.STATUS_BAD_NETWORK_PATH
	}
	share, ok := server.Shares[foldSMB(ref.Name)]
	if !ok {
		return smbShare{}, win32.STATUS_BAD_NETWORK_NAME
	}
	m, mapped := n.smb.mappings[foldSMB(ref.String())]
	switch {
	case !mapped && server.NodeAccount:
		return share, nil // with the node's own account
	case !mapped:
		return smbShare{}, win32.STATUS_ACCESS_DENIED
	case m.Status == win32.USE_OK:
		return share, nil
	case m.Status == win32.USE_DISCONN:
		return smbShare{}, win32.STATUS_LOGON_FAILURE
	}
	return smbShare{}, win32.STATUS_UNEXPECTED_NETWORK_ERROR
}

// openShare returns the root of the share at the front of rest, the part of a
// name after `\??\UNC\`, and the rest of the name.
//
// The file tree of a share accepts no reparse points.
func (n *Node) openShare(rest string) (place, string, error) {
	server, rest, _ := strings.Cut(rest, `\`)
	share, rest, _ := strings.Cut(rest, `\`)
	ref := winpath.Share{Server: server, Name: share}
	if server == "" || share == "" {
		return place{}, "", win32.STATUS_OBJECT_PATH_SYNTAX_BAD
	}
	s, err := n.reach(ref)
	if err != nil {
		return place{}, "", err
	}
	v := n.smb.volumes[s.FSID]
	if v == nil {
		v = &volume{n: n, share: &ref, fsid: s.FSID, tree: n.trees[s.FSID]}
		n.smb.volumes[s.FSID] = v
	}
	return place{vol: v, tree: v.tree, entry: v.tree.Root()}, rest, nil
}

// makeShare creates a share with an empty file tree.
func (n *Node) makeShare(t *tx, s *smbServer, name string) error {
	if _, err := winpath.ParseShare(`\\s\` + name); err != nil {
		return fmt.Errorf("share %q: not a valid share name", name)
	}
	if _, exists := s.Shares[foldSMB(name)]; exists {
		return fmt.Errorf("share %q: already exists on \\\\%s", name, s.Name)
	}
	id, err := n.newGUID()
	if err != nil {
		return err
	}
	// The dot distinguishes it from the identities of disks, which contain none.
	fsid := "share." + strings.Trim(id.String(), "{}")
	v := &volume{n: n, fsid: fsid}
	tree := filetree.New(t.files(v))
	t.onCommit(func() { n.trees[fsid] = tree })
	s.Shares[foldSMB(name)] = smbShare{name, fsid}
	return nil
}

// makeAccount creates an account of a server, or sets its password.
func (n *Node) makeAccount(s *smbServer, user, password string) error {
	if user == "" || strings.Count(user, `\`) > 1 {
		return fmt.Errorf("account %q: want a name, or a domain and a name as in DOMAIN\\name", user)
	}
	salt := make([]byte, 16)
	if _, err := io.ReadFull(n.rand, salt); err != nil {
		return fmt.Errorf("random salt: %w", err)
	}
	hash, err := hashPassword(password, salt)
	if err != nil {
		return err
	}
	a := s.Accounts[foldSMB(user)]
	s.Accounts[foldSMB(user)] = smbAccount{User: user, Salt: salt, Hash: hash, Changes: a.Changes + 1}
	return nil
}

// addSMBServer creates a server from its description.
func (n *Node) addSMBServer(t *tx, c nodespec.SMBServer) error {
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
func (n *Node) changeServer(name string, change func(t *tx, s *smbServer) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	s, ok := n.smb.servers[foldSMB(name)]
	if !ok {
		return fmt.Errorf("no SMB server %q", name)
	}
	s.Accounts, s.Shares = cloneMap(s.Accounts), cloneMap(s.Shares)
	err := n.transact(func(t *tx) error {
		if err := change(t, &s); err != nil {
			return err
		}
		n.setServer(t, s)
		return nil
	})
	if err != nil {
		return fmt.Errorf("SMB server %q: %w", s.Name, n.because(err))
	}
	return nil
}

func cloneMap[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// AddSMBServer adds an SMB server to the network.
func (n *Node) AddSMBServer(c nodespec.SMBServer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if err := n.transact(func(t *tx) error { return n.addSMBServer(t, c) }); err != nil {
		return n.because(err)
	}
	return nil
}

// AddSMBShare creates an empty share on a server.
func (n *Node) AddSMBShare(server, share string) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error { return n.makeShare(t, s, share) })
}

// RemoveSMBShare removes a share and all its files. Handles on it can only be
// closed. A mapping of it stays, but is disconnected (general knowledge), even if
// a share of the same name is created, until the server has been down.
func (n *Node) RemoveSMBShare(server, share string) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error {
		sh, ok := s.Shares[foldSMB(share)]
		if !ok {
			return fmt.Errorf("no share %q", share)
		}
		delete(s.Shares, foldSMB(share))
		n.dropShare(t, winpath.Share{Server: s.Name, Name: sh.Name}, sh)
		return nil
	})
}

// dropShare deletes the file tree of a share and disconnects its mapping.
func (n *Node) dropShare(t *tx, ref winpath.Share, sh smbShare) {
	if m, ok := n.smb.mappings[foldSMB(ref.String())]; ok {
		m.Status = win32.USE_DISCONN
		n.setMapping(t, m)
	}
	n.closeShare(t, ref.String())
	t.deletePrefix(filePrefix(sh.FSID))
	t.onCommit(func() { delete(n.trees, sh.FSID) })
}

// RemoveSMBAccount removes an account of a server. Its sessions last until the
// server goes down.
func (n *Node) RemoveSMBAccount(server, user string) error {
	return n.changeServer(server, func(_ *tx, s *smbServer) error {
		if _, ok := s.Accounts[foldSMB(user)]; !ok {
			return fmt.Errorf("no account %q", user)
		}
		delete(s.Accounts, foldSMB(user))
		return nil
	})
}

// RemoveSMBServer removes a server for good, with its shares. Mappings of them
// stay, but are disconnected.
func (n *Node) RemoveSMBServer(server string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	key := foldSMB(server)
	s, ok := n.smb.servers[key]
	if !ok {
		return fmt.Errorf("no SMB server %q", server)
	}
	return n.because(n.transact(func(t *tx) error {
		for _, sh := range s.Shares {
			n.dropShare(t, winpath.Share{Server: s.Name, Name: sh.Name}, sh)
		}
		t.Delete(smbServerPrefix + key)
		t.onCommit(func() { delete(n.smb.servers, key) })
		return nil
	}))
}

// SetSMBPassword sets the password of an account of a server, and creates the
// account if necessary. Sessions last.
func (n *Node) SetSMBPassword(server, user, password string) error {
	return n.changeServer(server, func(_ *tx, s *smbServer) error { return n.makeAccount(s, user, password) })
}

// SetSMBEncryption sets whether a server supports encryption. Sessions last.
func (n *Node) SetSMBEncryption(server string, can bool) error {
	return n.changeServer(server, func(_ *tx, s *smbServer) error { s.NoEncryption = !can; return nil })
}

// SetSMBServerDown takes a server down, which ends all its sessions, or brings it
// up again. Sessions then start again if the client still has the credentials and
// the server still accepts them.
func (n *Node) SetSMBServerDown(server string, down bool) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error {
		s.Down = down
		for _, m := range n.smb.mappings {
			ref, err := winpath.ParseShare(m.Remote)
			if err != nil || !strings.EqualFold(ref.Server, s.Name) {
				continue
			}
			a, account := s.Accounts[m.Account]
			_, share := s.Shares[foldSMB(ref.Name)]
			switch {
			case down:
				m.Status = win32.USE_DISCONN
				n.closeShare(t, m.Remote)
			case !m.Lost && share && (m.Account == "" && s.NodeAccount || account && a.Changes == m.Changes):
				m.Status = win32.USE_OK
			}
			n.setMapping(t, m)
		}
		return nil
	})
}

// SetSMBMappingStatus makes Windows report a status of a mapping, as on a bad
// network: one of [nodespec.SMBStatuses].
func (n *Node) SetSMBMappingStatus(remote, status string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	m, ok := n.smb.mappings[foldSMB(remote)]
	if !ok {
		return fmt.Errorf("no SMB mapping of %q", remote)
	}
	number := slices.Index(nodespec.SMBStatuses(), status)
	if number < 0 {
		return fmt.Errorf("status %q, want one of %q", status, nodespec.SMBStatuses())
	}
	return n.because(n.transact(func(t *tx) error {
		m.Status = uint32(number)
		n.setMapping(t, m)
		return nil
	}))
}

// MakeShareDirectory creates a directory on a share, with its parents, as another
// machine would. path is relative to the share.
func (n *Node) MakeShareDirectory(server, share, path string) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error {
		sh, ok := s.Shares[foldSMB(share)]
		if !ok {
			return fmt.Errorf("no share %q", share)
		}
		v := &volume{n: n, fsid: sh.FSID, tree: n.trees[sh.FSID]}
		at := v.tree.Root()
		for _, part := range strings.Split(strings.Trim(path, `\`), `\`) {
			next := at.Lookup(part)
			if next == nil {
				var err error
				if next, err = v.tree.Create(t.files(v), at, part, win32.FILE_ATTRIBUTE_DIRECTORY); err != nil {
					return fmt.Errorf("directory %q: %w", path, err)
				}
			}
			at = next
		}
		return nil
	})
}

func validateSMBServer(c nodespec.SMBServer) error {
	if _, err := winpath.ParseShare(`\\` + c.Name + `\s`); err != nil {
		return fmt.Errorf("SMB server %q: not the name of a server", c.Name)
	}
	return nil
}

// defaultSMBServers are those of a node whose configuration names none.
var defaultSMBServers = []nodespec.SMBServer{{
	Name: "files.example.com", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "csi", Password: "csi"}},
}}

// makeSMB creates the configured servers.
func (n *Node) makeSMB() error {
	servers := n.cfg.SMBServers
	if servers == nil {
		servers = defaultSMBServers
	}
	for _, c := range servers {
		if err := n.transact(func(t *tx) error { return n.addSMBServer(t, c) }); err != nil {
			return n.because(err)
		}
	}
	return nil
}

// showSMB returns the servers and mappings, sorted.
func (n *Node) showSMB() (servers []nodespec.SMBServerInfo, mappings []nodespec.SMBMappingInfo) {
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

// checkSMB refuses invalid descriptions of servers.
func checkSMB(servers []nodespec.SMBServer) error {
	seen := map[string]bool{}
	for i, c := range servers {
		err := validateSMBServer(c)
		if err == nil && seen[foldSMB(c.Name)] {
			err = errors.New("another has the same name")
		}
		if err != nil {
			return fmt.Errorf("SMB server %d of the configuration: %w", i, err)
		}
		seen[foldSMB(c.Name)] = true
	}
	return nil
}
