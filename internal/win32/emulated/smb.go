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
)

// What is here is the node's SMB client and the servers that it can reach.
//
// # A mapping and its session
//
// A mapping has a status as NetUseEnum tells it. It is OK from UseAdd on, as
// long as its session lives. A session ends when its server goes away, and
// begins anew when the server is back, with the credentials that the client
// keeps in its memory, if the server still takes them. A restart of Windows
// keeps mappings and loses the credentials: they stay disconnected until
// somebody makes them anew. The credentials themselves are not kept here: a
// mapping knows which of its account's passwords, by count, it was made with.
//
// A password that changes on the server does not end sessions ([MS-SMB2]: a
// session is authenticated once), so such a mapping stays OK until its server
// goes away for the first time.
//
// # One user for each server
//
// Windows refuses a second user for one server (error 1219), whatever the
// status of the mappings that the first one has, and so it is here. The same
// share again is success with the same user over a session that lives, else
// 1219 (general knowledge, from reports of users after a restart).

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
	Changes int    `json:"changes"` // how often the password was set
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
	Changes int    `json:"changes,omitempty"` // of the account's password, as of the session's
	Status  uint32 `json:"status,omitempty"`
	Lost    bool   `json:"lost,omitempty"` // the client no longer has the credentials
}

// shareRef names the share that a volume stands for.
type shareRef struct{ server, share string }

func (r shareRef) remote() string { return `\\` + r.server + `\` + r.share }

// smbState is what a node has of SMB in memory.
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
	// passwordRounds is low: it guards passwords of tests.
	passwordRounds = 1000
)

func foldSMB(s string) string { return strings.ToLower(s) }

// setServer and setMapping store a record, and have it in memory once stored.
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

// loadSMB reads servers and mappings. Windows ran on while the process was away,
// so mappings are as they were.
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
		n.smb.mappings[foldSMB(m.Remote)] = m
	}
	return nil
}

// bootSMB is a restart of Windows: mappings stay, their credentials do not.
func (n *Node) bootSMB(t *tx) {
	for _, m := range n.smb.mappings {
		m.Status, m.Lost = win32.USE_DISCONN, true
		n.setMapping(t, m)
	}
}

// splitRemote reads `\\server\share`.
func splitRemote(remote string) (shareRef, bool) {
	rest, ok := strings.CutPrefix(remote, `\\`)
	server, share, both := strings.Cut(rest, `\`)
	return shareRef{server, share}, ok && both && server != "" && share != "" && !strings.ContainsAny(server+share, "\\/:*?\"<>|\x00")
}

// hashPassword is what a server keeps of a password.
func hashPassword(password string, salt []byte) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, salt, passwordRounds, sha256.Size)
}

// account finds whom the credentials mean: an account of the server, by its
// name or by domain and name. An account without a domain is also known with the
// server's own name before it.
func (s smbServer) account(domain, user string) (key string, ok bool) {
	key = foldSMB(user)
	if domain != "" && domain != "." && !strings.EqualFold(domain, s.Name) {
		key = foldSMB(domain + `\` + user)
	}
	_, ok = s.Accounts[key]
	return key, ok
}

// UseAdd implements [win32.SMB]. Beside what stands above:
//
//   - ERROR_INVALID_PARAMETER for flags that there are not, ERROR_BAD_NET_NAME
//     for what is no \\server\share,
//   - ERROR_BAD_NETPATH for a server that is not there,
//   - ERROR_LOGON_FAILURE for an unknown user, and for none where the server does
//     not know the node; ERROR_INVALID_PASSWORD; ERROR_NO_SUCH_LOGON_SESSION for
//     a user name that none can be (docs/contract/smb.md#errors-of-a-mapping),
//   - ERROR_ACCESS_DENIED where privacy is wanted and the server cannot encrypt
//     (docs/contract/smb.md#errors-of-a-mapping).
func (n *Node) UseAdd(u win32.NewUse) error {
	return n.do(func(t *tx) error {
		ref, ok := splitRemote(u.Remote)
		switch {
		case u.Flags&^(win32.REQUIRE_CONNECTION_INTEGRITY|win32.REQUIRE_CONNECTION_PRIVACY) != 0:
			return win32.ERROR_INVALID_PARAMETER
		case !ok:
			return win32.ERROR_BAD_NET_NAME
		case strings.ContainsAny(u.User+u.Domain, "\"/[]:;|=,+*?<>\\\x00"):
			return win32.ERROR_NO_SUCH_LOGON_SESSION
		}
		server, known := n.smb.servers[foldSMB(ref.server)]
		if !known || server.Down {
			return win32.ERROR_BAD_NETPATH
		}
		m := smbMapping{Remote: u.Remote, User: u.User, Domain: u.Domain}
		for _, other := range n.smb.mappings {
			o, _ := splitRemote(other.Remote)
			if !strings.EqualFold(o.server, ref.server) {
				continue
			}
			same := strings.EqualFold(other.User, u.User) && strings.EqualFold(other.Domain, u.Domain)
			if !same || strings.EqualFold(o.share, ref.share) && other.Status != win32.USE_OK {
				return win32.ERROR_SESSION_CREDENTIAL_CONFLICT
			}
		}
		if u.Flags&win32.REQUIRE_CONNECTION_PRIVACY != 0 && server.NoEncryption {
			return win32.ERROR_ACCESS_DENIED
		}
		if u.User == "" {
			if !server.NodeAccount {
				return win32.ERROR_LOGON_FAILURE
			}
		} else {
			key, known := server.account(u.Domain, u.User)
			if !known {
				return win32.ERROR_LOGON_FAILURE
			}
			a := server.Accounts[key]
			hash, err := hashPassword(u.Password.Reveal(), a.Salt)
			if err != nil || subtle.ConstantTimeCompare(hash, a.Hash) != 1 {
				return win32.ERROR_INVALID_PASSWORD
			}
			m.Account, m.Changes = key, a.Changes
		}
		if _, ok := server.Shares[foldSMB(ref.share)]; !ok {
			return win32.ERROR_BAD_NET_NAME
		}
		n.setMapping(t, m)
		return nil
	})
}

// UseEnum implements [win32.SMB]. Mappings come in the order of their names.
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

// UseDel implements [win32.SMB]. Only USE_LOTS_OF_FORCE is emulated; other
// forces are ERROR_NOT_SUPPORTED, which Windows does not answer.
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

// closeShare ends what is open on a share: handles to it are good for closing
// only.
func (n *Node) closeShare(t *tx, remote string) {
	for fsid, v := range n.smb.volumes {
		if !strings.EqualFold(v.share.remote(), remote) {
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

// reach tells whether the node can use a share at the moment: the error is that
// of opening something on it (ntstatus.h; which one Windows answers when is
// general knowledge).
func (n *Node) reach(ref shareRef) (smbShare, error) {
	server, ok := n.smb.servers[foldSMB(ref.server)]
	if !ok || server.Down {
		return smbShare{}, win32.STATUS_BAD_NETWORK_PATH
	}
	share, ok := server.Shares[foldSMB(ref.share)]
	if !ok {
		return smbShare{}, win32.STATUS_BAD_NETWORK_NAME
	}
	m, mapped := n.smb.mappings[foldSMB(ref.remote())]
	switch {
	case !mapped && server.NodeAccount:
		return share, nil // the node's own account will do
	case !mapped:
		return smbShare{}, win32.STATUS_ACCESS_DENIED
	case m.Status == win32.USE_OK:
		return share, nil
	case m.Status == win32.USE_DISCONN:
		return smbShare{}, win32.STATUS_LOGON_FAILURE
	}
	return smbShare{}, win32.STATUS_UNEXPECTED_NETWORK_ERROR
}

// openShare is the root of the share at the front of rest, which is what comes
// behind `\??\UNC\`, and what follows it.
//
// The file tree of a share takes no reparse points.
func (n *Node) openShare(rest string) (place, string, error) {
	server, rest, _ := strings.Cut(rest, `\`)
	share, rest, _ := strings.Cut(rest, `\`)
	ref := shareRef{server, share}
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

// makeShare gives a server a share with an empty file tree.
func (n *Node) makeShare(t *tx, s *smbServer, name string) error {
	if _, ok := splitRemote(`\\s\` + name); !ok {
		return fmt.Errorf("share %q: not the name of a share", name)
	}
	if _, exists := s.Shares[foldSMB(name)]; exists {
		return fmt.Errorf("share %q: \\\\%s has it already", name, s.Name)
	}
	id, err := n.newGUID()
	if err != nil {
		return err
	}
	// The dot keeps it apart from what disks have: their identities hold none.
	fsid := "share." + strings.Trim(id.String(), "{}")
	v := &volume{n: n, fsid: fsid}
	tree := filetree.New(t.files(v))
	t.onCommit(func() { n.trees[fsid] = tree })
	s.Shares[foldSMB(name)] = smbShare{name, fsid}
	return nil
}

// makeAccount gives a server an account, or one that it has another password.
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

// addSMBServer makes a server of its description.
func (n *Node) addSMBServer(t *tx, c SMBServerConfig) error {
	if err := c.validate(); err != nil {
		return err
	}
	if _, exists := n.smb.servers[foldSMB(c.Name)]; exists {
		return fmt.Errorf("there is an SMB server %q already", c.Name)
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

// changeServer changes a server; change works on a copy.
func (n *Node) changeServer(name string, change func(t *tx, s *smbServer) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	s, ok := n.smb.servers[foldSMB(name)]
	if !ok {
		return fmt.Errorf("there is no SMB server %q", name)
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

// AddSMBServer puts another SMB server on the network.
func (n *Node) AddSMBServer(c SMBServerConfig) error {
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

// AddSMBShare makes an empty share on a server.
func (n *Node) AddSMBShare(server, share string) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error { return n.makeShare(t, s, share) })
}

// RemoveSMBShare makes a share vanish, with all that is on it. What is open on it
// is good for closing only; a mapping of it stays and is disconnected (general
// knowledge), also when a share of that name comes back, until the server does.
func (n *Node) RemoveSMBShare(server, share string) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error {
		sh, ok := s.Shares[foldSMB(share)]
		if !ok {
			return fmt.Errorf("there is no share %q", share)
		}
		delete(s.Shares, foldSMB(share))
		n.dropShare(t, shareRef{s.Name, sh.Name}, sh)
		return nil
	})
}

// dropShare ends the file tree of a share and disconnects its mapping.
func (n *Node) dropShare(t *tx, ref shareRef, sh smbShare) {
	if m, ok := n.smb.mappings[foldSMB(ref.remote())]; ok {
		m.Status = win32.USE_DISCONN
		n.setMapping(t, m)
	}
	n.closeShare(t, ref.remote())
	t.deletePrefix(filePrefix(sh.FSID))
	t.onCommit(func() { delete(n.trees, sh.FSID) })
}

// RemoveSMBAccount makes an account of a server vanish. Sessions go on until the
// server goes down.
func (n *Node) RemoveSMBAccount(server, user string) error {
	return n.changeServer(server, func(_ *tx, s *smbServer) error {
		if _, ok := s.Accounts[foldSMB(user)]; !ok {
			return fmt.Errorf("there is no account %q", user)
		}
		delete(s.Accounts, foldSMB(user))
		return nil
	})
}

// RemoveSMBServer makes a server vanish for good, with its shares. Mappings of
// them stay and are disconnected.
func (n *Node) RemoveSMBServer(server string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	key := foldSMB(server)
	s, ok := n.smb.servers[key]
	if !ok {
		return fmt.Errorf("there is no SMB server %q", server)
	}
	return n.because(n.transact(func(t *tx) error {
		for _, sh := range s.Shares {
			n.dropShare(t, shareRef{s.Name, sh.Name}, sh)
		}
		t.Delete(smbServerPrefix + key)
		t.onCommit(func() { delete(n.smb.servers, key) })
		return nil
	}))
}

// SetSMBPassword sets the password of an account of a server, and makes the
// account if there is none. Sessions go on.
func (n *Node) SetSMBPassword(server, user, password string) error {
	return n.changeServer(server, func(_ *tx, s *smbServer) error { return n.makeAccount(s, user, password) })
}

// SetSMBEncryption tells whether a server can encrypt. Sessions go on.
func (n *Node) SetSMBEncryption(server string, can bool) error {
	return n.changeServer(server, func(_ *tx, s *smbServer) error { s.NoEncryption = !can; return nil })
}

// SetSMBServerDown takes a server away, with all sessions, or brings it back:
// then sessions begin anew whose credentials the client still has and the
// server still takes.
func (n *Node) SetSMBServerDown(server string, down bool) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error {
		s.Down = down
		for _, m := range n.smb.mappings {
			ref, _ := splitRemote(m.Remote)
			if !strings.EqualFold(ref.server, s.Name) {
				continue
			}
			a, account := s.Accounts[m.Account]
			_, share := s.Shares[foldSMB(ref.share)]
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

// SetSMBMappingStatus makes Windows tell a status of a mapping (USE_OK …), as
// bad networks do.
func (n *Node) SetSMBMappingStatus(remote string, status uint32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	m, ok := n.smb.mappings[foldSMB(remote)]
	if !ok {
		return fmt.Errorf("there is no SMB mapping of %q", remote)
	}
	if status > win32.USE_RECONN {
		return fmt.Errorf("status %d, want at most %d", status, win32.USE_RECONN)
	}
	return n.because(n.transact(func(t *tx) error {
		m.Status = status
		n.setMapping(t, m)
		return nil
	}))
}

// MakeShareDirectory makes a directory on a share, with those above it, as
// another machine would. path is relative to the share.
func (n *Node) MakeShareDirectory(server, share, path string) error {
	return n.changeServer(server, func(t *tx, s *smbServer) error {
		sh, ok := s.Shares[foldSMB(share)]
		if !ok {
			return fmt.Errorf("there is no share %q", share)
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

// SMBServerConfig describes an SMB server.
type SMBServerConfig struct {
	Name string `json:"name"` // as in \\name\share
	// Shares are the names of its shares, which are empty at first.
	Shares   []string           `json:"shares,omitempty"`
	Accounts []SMBAccountConfig `json:"accounts,omitempty"`
	// NodeAccount lets the node in without a user name.
	NodeAccount bool `json:"nodeAccount,omitempty"`
	// NoEncryption is a server without SMB 3's encryption.
	NoEncryption bool `json:"noEncryption,omitempty"`
}

// SMBAccountConfig is an account of an SMB server. It prints without its
// password.
type SMBAccountConfig struct {
	User     string `json:"user"` // "name" or `DOMAIN\name`
	Password string `json:"password"`
}

// Format implements [fmt.Formatter].
func (c SMBAccountConfig) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", c.User) }

func (c SMBServerConfig) validate() error {
	if _, ok := splitRemote(`\\` + c.Name + `\s`); !ok {
		return fmt.Errorf("SMB server %q: not the name of a server", c.Name)
	}
	return nil
}

// defaultSMBServers are those of a node whose configuration names none.
var defaultSMBServers = []SMBServerConfig{{
	Name: "files.example.com", Shares: []string{"data"}, Accounts: []SMBAccountConfig{{"csi", "csi"}},
}}

// makeSMB makes the servers that the configuration describes.
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

// SMBServerInfo is an SMB server.
type SMBServerInfo struct {
	Name       string   `json:"name"`
	Shares     []string `json:"shares,omitempty"`
	Users      []string `json:"users,omitempty"`
	Down       bool     `json:"down,omitempty"`
	Encryption bool     `json:"encryption"`
}

// SMBMappingInfo is a global mapping.
type SMBMappingInfo struct {
	Remote string `json:"remote"`
	User   string `json:"user,omitempty"`
	Status uint32 `json:"status"`
}

// showSMB tells of servers and mappings, sorted.
func (n *Node) showSMB() (servers []SMBServerInfo, mappings []SMBMappingInfo) {
	for _, s := range n.smb.servers {
		info := SMBServerInfo{Name: s.Name, Down: s.Down, Encryption: !s.NoEncryption}
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
		mappings = append(mappings, SMBMappingInfo{m.Remote, user, m.Status})
	}
	slices.SortFunc(servers, func(a, b SMBServerInfo) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(mappings, func(a, b SMBMappingInfo) int { return strings.Compare(a.Remote, b.Remote) })
	return servers, mappings
}

// checkSMB refuses descriptions of servers that cannot be.
func checkSMB(servers []SMBServerConfig) error {
	seen := map[string]bool{}
	for i, c := range servers {
		err := c.validate()
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
