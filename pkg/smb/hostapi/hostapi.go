// Package api implements operations on the SMB mappings of a Windows node: which Windows
// calls are made, in which order. Package smb calls them. Drivers that need a single step
// can call it here.
//
// Mappings are global: all accounts of the node use them, with the credentials that they
// were made with. A mapping belongs to \\server\share; the methods accept any path on the
// share and use the mapping of the share. Methods take no locks: package
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/smb] prevents concurrent changes for one
// server.
//
// docs/develop/verification.md says what has been verified, and on which systems.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// HostAPI is what the SMB service needs from a node.
type HostAPI interface {
	// IsSMBMapped reports whether the share has a global mapping that works (status OK).
	IsSMBMapped(remotePath string) (bool, error)
	// NewSMBLink makes a directory link at localPath to remotePath. It succeeds if the
	// same link already exists, and fails if anything else exists there.
	NewSMBLink(remotePath, localPath string) error
	// NewSMBGlobalMapping maps the share. username may be DOMAIN\name. If it is empty,
	// the node uses its own account and ignores the password.
	NewSMBGlobalMapping(remotePath, username, password string) error
	// RemoveSMBGlobalMapping removes the mapping and closes the files that are open on
	// the share. It fails with hosterr.ErrNotFound if the share is not mapped.
	RemoveSMBGlobalMapping(remotePath string) error
}

// Status is the status of a mapping, as Windows reports it.
type Status uint32

// The statuses of a mapping.
const (
	StatusOK           Status = win32.USE_OK
	StatusPaused       Status = win32.USE_PAUSED
	StatusDisconnected Status = win32.USE_DISCONN
	StatusNetworkError Status = win32.USE_NETERR
	StatusConnecting   Status = win32.USE_CONN
	StatusReconnecting Status = win32.USE_RECONN
)

// Connects reports whether Windows is connecting the mapping.
func (s Status) Connects() bool { return s == StatusConnecting || s == StatusReconnecting }

// String returns the name of the status.
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusPaused:
		return "paused"
	case StatusDisconnected:
		return "disconnected"
	case StatusNetworkError:
		return "network error"
	case StatusConnecting:
		return "connecting"
	case StatusReconnecting:
		return "reconnecting"
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// Mapping is a global mapping.
type Mapping struct {
	Share  winpath.Share // zero if Windows lists something else than \\server\share
	User   string        // DOMAIN\name or name; empty for the node's own account, or if Windows does not report it
	Status Status
	// Requires is what the mapping requires of its connection, unless RequiresUnknown says that
	// Windows does not report it.
	Requires        Protection
	RequiresUnknown bool
}

// Protection is what a mapping requires of its connection.
type Protection struct {
	Privacy   bool // encryption, which needs SMB 3
	Integrity bool // signing
}

// And returns what both require.
func (p Protection) And(q Protection) Protection {
	return Protection{p.Privacy || q.Privacy, p.Integrity || q.Integrity}
}

// Covers reports whether p is at least what q requires. What is encrypted is also protected from
// changes ([MS-SMB2] 3.1.4.3).
func (p Protection) Covers(q Protection) bool {
	return p.Privacy || !q.Privacy && (p.Integrity || !q.Integrity)
}

// Link is a directory link to a share.
type Link struct {
	Path   string
	Target winpath.Path // on a share
}

// Share returns the share that the link leads to.
func (l Link) Share() winpath.Share {
	share, _ := l.Target.Share()
	return share
}

// SMBAPI is the HostAPI of a node. Its methods may be called concurrently. The methods of the
// zero SMBAPI return errors.
type SMBAPI struct {
	host      node.Host
	noPrivacy bool
	// anyPassword accepts a password that could not be verified with the server.
	anyPassword bool
	// kubelet is the directory in which Links searches on a node without working directories.
	kubelet string
}

var _ HostAPI = SMBAPI{}

// New returns the HostAPI of the Windows node that the process runs on. Its mappings are
// encrypted. On other systems all methods fail with [errors.ErrUnsupported].
func New() HostAPI { return SMBAPI{host: node.NativeHost()} }

// NewBelow is [New] for a node on which the kubelet has another directory than
// C:\var\lib\kubelet. Links to shares are counted below it.
func NewBelow(kubeletDir string) HostAPI { return SMBAPI{host: node.NativeHost()}.Below(kubeletDir) }

// Below returns the same HostAPI for another directory of the kubelet. Empty means
// C:\var\lib\kubelet. On a node with working directories they count instead.
func (s SMBAPI) Below(kubeletDir string) SMBAPI {
	s.kubelet = kubeletDir
	return s
}

// On returns the HostAPI of a node, with its rules.
func On(n *node.Node) SMBAPI {
	return SMBAPI{host: node.HostOf(n)}.RequirePrivacy(!n.NoSMBPrivacy).AcceptUnverifiedPasswords(n.AcceptUnverifiedPasswords)
}

// RequirePrivacy returns the same HostAPI with encryption of new mappings on or off.
// Encryption needs SMB 3 on the server.
func (s SMBAPI) RequirePrivacy(privacy bool) SMBAPI {
	s.noPrivacy = !privacy
	return s
}

// AcceptUnverifiedPasswords returns the same HostAPI, whose Ask returns [CannotAsk] for
// credentials that could not be verified with the server, whatever the reason.
func (s SMBAPI) AcceptUnverifiedPasswords(accept bool) SMBAPI {
	s.anyPassword = accept
	return s
}

// WithContext returns the same HostAPI for one context. When ctx ends, its methods stop before
// their next Windows call.
func (s SMBAPI) WithContext(ctx context.Context) HostAPI {
	s.host = s.host.WithContext(ctx)
	return s
}

// Node returns the node that the methods work on, or nil if there is none.
func (s SMBAPI) Node() *node.Node { return s.host.Node }

// share returns the \\server\share of a path.
func share(remotePath string) (winpath.Share, error) {
	p, err := winpath.Parse(remotePath)
	s, ok := p.Share()
	if err == nil && !ok {
		err = hosterr.Text(hosterr.ErrInvalid, "not a path on a share: %s", remotePath)
	}
	return s, err
}

// credentials returns the credentials of a user, who may be DOMAIN\name.
func credentials(username, password string) win32.Credentials {
	if username == "" {
		return win32.Credentials{}
	}
	c := win32.Credentials{User: username, Password: win32.NewSecret(password)}
	if domain, name, ok := strings.Cut(username, `\`); ok {
		c.Domain, c.User = domain, name
	}
	return c
}

// Mappings returns the global mappings of the node with a single Windows call, without those that
// have the letter of a drive: no method makes or removes one.
func (s SMBAPI) Mappings() ([]Mapping, error) {
	if err := s.host.Ready(); err != nil {
		return nil, err
	}
	uses, err := s.host.Node.API.UseEnum()
	if err != nil {
		return nil, hosterr.Wrap("list SMB mappings", "", node.Typed(err))
	}
	var list []Mapping
	for _, u := range uses {
		if u.Local != "" {
			continue
		}
		user := u.User
		if u.Domain != "" && user != "" {
			user = u.Domain + `\` + user
		}
		share, _ := winpath.ParseShare(u.Remote)
		requires := Protection{Privacy: u.Flags&win32.REQUIRE_CONNECTION_PRIVACY != 0, Integrity: u.Flags&win32.REQUIRE_CONNECTION_INTEGRITY != 0}
		list = append(list, Mapping{share, user, Status(u.Status), requires, u.FlagsUnknown})
	}
	return list, nil
}

// IsSMBMapped implements [HostAPI].
func (s SMBAPI) IsSMBMapped(remotePath string) (bool, error) {
	remote, err := share(remotePath)
	if err != nil {
		return false, err
	}
	list, err := s.Mappings()
	if err != nil {
		return false, err
	}
	for _, m := range list {
		if m.Share == remote {
			return m.Status == StatusOK, nil
		}
	}
	return false, nil
}

// NewSMBGlobalMapping implements [HostAPI].
func (s SMBAPI) NewSMBGlobalMapping(remotePath, username, password string) error {
	_, err := s.MapShare(remotePath, username, password, Protection{})
	return err
}

// MapShare is NewSMBGlobalMapping for a mapping that requires p, and what the node requires. It
// returns both together.
func (s SMBAPI) MapShare(remotePath, username, password string, p Protection) (Protection, error) {
	if err := s.host.Ready(); err != nil {
		return p, err
	}
	remote, err := share(remotePath)
	if err != nil {
		return p, err
	}
	as := credentials(username, password)
	use := win32.NewUse{Remote: remote.String(), User: as.User, Domain: as.Domain, Password: as.Password}
	without := withoutPrivacy(p)
	if p.Privacy = p.Privacy || !s.noPrivacy; !p.Privacy {
		without = ""
	} else {
		use.Flags |= win32.REQUIRE_CONNECTION_PRIVACY
	}
	if p.Integrity {
		use.Flags |= win32.REQUIRE_CONNECTION_INTEGRITY
	}
	err = s.host.Node.API.UseAdd(use)
	if err == nil {
		winfs.ShareMapped(s.host.Node, remote)
	}
	switch {
	case win32.IsCode(err, win32.ERROR_NOT_SUPPORTED):
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "%w", err)
	case win32.IsCode(err, win32.ERROR_NO_SYSTEM_RESOURCES, win32.ERROR_NOT_ENOUGH_MEMORY): // of the node, until something ends
		err = hosterr.Text(hosterr.ErrUnavailable, "%w", err)
	}
	return p, hosterr.WithHint("map share", hosterr.Quote(remote.String()), node.Typed(err), hint(err, username, password, without))
}

// Answer is the answer of a server to the question whether it accepts credentials.
type Answer int

// The answers.
const (
	Unasked   Answer = iota
	Accepted         // the server accepts them
	Refused          // the server refuses them, as the error says
	NoAnswer         // the server did not answer, as the error says
	CannotAsk        // it cannot be known, and the request goes on without; there is no error
)

// Ask asks a server whether it accepts the credentials, in a separate session that does not
// affect mappings.
//
// It is not known whether Windows can always ask: while a node has a session with the server,
// Windows may refuse another one (error 1219). Then the answer is CannotAsk. Without a user
// there is no separate session, and the same error says that the session is another user's.
func (s SMBAPI) Ask(server, username, password string) (Answer, error) {
	if err := s.host.Ready(); err != nil {
		return NoAnswer, err
	}
	err := s.host.Node.API.LogonToServer(server, credentials(username, password))
	typed := hosterr.Wrap("log on to server", hosterr.Quote(server), node.Typed(err))
	switch {
	case err == nil:
		return Accepted, nil
	case errors.Is(typed, hosterr.ErrPermissionDenied):
		return Refused, typed
	case s.anyPassword, CredentialConflict(err) && username != "":
		s.host.Node.Log.Warn("Could not verify SMB credentials with the server", "server", server, "user", username, "err", typed)
		return CannotAsk, nil
	}
	return NoAnswer, typed
}

// Hints for errors of mappings.
const (
	HintServer = "check that the node can resolve the server's name and connect to its port 445, and that the server has the share"

	hintRights = "check the user's rights on the share, and that the server supports encryption (SMB 3); otherwise "
)

// HintRights is the hint for an error that may be one of rights or of encryption, of a mapping that
// was to require p.
func HintRights(p Protection) string { return hintRights + withoutPrivacy(p) }

// withoutPrivacy says how to map a share without encryption.
func withoutPrivacy(p Protection) string {
	const node = "start csi-proxy with -require-privacy=false"
	if p.Privacy {
		return "ask for a mapping without privacy, and " + node
	}
	return node
}

// HintCredentials returns the hint for credentials that a server refused with an error, or "" if
// the error says something else.
func HintCredentials(err error, username, password string) string {
	switch {
	case !errors.Is(node.Typed(err), hosterr.ErrPermissionDenied):
		return ""
	case username == "":
		return "no user was given, so the node used its own account: put username and password into the volume's secret"
	case password == "":
		return "no password was given: put it into the volume's secret"
	case win32.IsCode(err, win32.ERROR_ACCOUNT_LOCKED_OUT):
		return "wait until the server unlocks the account, or unlock it there; each request with a wrong password may lock it again"
	case win32.IsCode(err, win32.ERROR_ACCOUNT_DISABLED, win32.ERROR_ACCOUNT_RESTRICTION, win32.ERROR_PASSWORD_EXPIRED, win32.ERROR_PASSWORD_MUST_CHANGE):
		return "let the account log on, or give it a new password, at the server or in its domain"
	}
	hint := "check the user name and password in the volume's secret"
	if !strings.ContainsAny(username, `\@`) {
		hint += `; some servers need the user as DOMAIN\name, such as AZURE\account for Azure Files`
	}
	return hint
}

// hint returns the hint for an error of UseAdd, or "". without says how to map the share without
// encryption; it is empty if the mapping required none.
//
// Source: document, System Error Codes, for 85 and 1450; KB 198386 for 1130.
func hint(err error, username, password, without string) string {
	credentials := HintCredentials(err, username, password)
	switch {
	case win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_NOT_SUPPORTED) && without != "":
		if username == "" || password == "" {
			return strings.TrimPrefix(credentials+"; or "+hintRights+without, "; or ")
		}
		return hintRights + without
	case win32.IsCode(err, win32.ERROR_NETWORK_ACCESS_DENIED) && without != "":
		return "the server does not support encryption (SMB 3): turn it on there, or " + without
	case win32.IsCode(err, win32.ERROR_NO_SUCH_LOGON_SESSION) && username != "":
		return `specify the user as DOMAIN\name, or as AZURE\account for Azure Files; if the server knows no domain, any name will do`
	case credentials != "":
		return credentials
	case win32.IsCode(err, win32.NERR_WkstaNotStarted):
		return "start the service LanmanWorkstation on the node"
	case win32.IsCode(err, win32.ERROR_ALREADY_ASSIGNED):
		return "another program has mapped the share meanwhile: csi-proxyctl smb list and net use on the node show it; RemoveSmbGlobalMapping removes it if nothing uses it"
	case win32.IsCode(err, win32.ERROR_NOT_ENOUGH_SERVER_MEMORY):
		return "the server has no resources left for another session: look at its System event log, for event 2011 of Srv raise its IRPStackSize, or restart its service Server"
	case win32.IsCode(err, win32.ERROR_NOT_ENOUGH_MEMORY, win32.ERROR_NO_SYSTEM_RESOURCES):
		return "the node has no resources left, often because of too many SMB mappings: csi-proxyctl smb list shows them; remove those without links, or restart the node"
	case errors.Is(node.Typed(err), hosterr.ErrUnavailable):
		return HintServer
	}
	return ""
}

// RemoveSMBGlobalMapping implements [HostAPI].
func (s SMBAPI) RemoveSMBGlobalMapping(remotePath string) error {
	if err := s.host.Ready(); err != nil {
		return err
	}
	remote, err := share(remotePath)
	if err != nil {
		return err
	}
	err = s.host.Node.API.UseDel(remote.String())
	if err == nil || win32.IsCode(err, win32.ERROR_NOT_CONNECTED) {
		winfs.ShareUnmapped(s.host.Node, remote)
	}
	if win32.IsCode(err, win32.ERROR_NOT_CONNECTED) {
		// The published text.
		err = hosterr.Text(hosterr.ErrNotFound, "failed to query SMB global mapping by remote path %s: not found", remote)
		return hosterr.Text(hosterr.ErrNotFound, "error remove smb mapping '%s'. err: %w", remote, err)
	}
	return hosterr.Wrap("remove mapping of share", hosterr.Quote(remote.String()), node.Typed(err))
}

// NewSMBLink implements [HostAPI]. The print name of the link is the UNC path with a trailing
// backslash, and its substitute name is the same path in NT form.
func (s SMBAPI) NewSMBLink(remotePath, localPath string) error {
	if err := s.host.Ready(); err != nil {
		return err
	}
	return winfs.LinkToShare(s.host.Ctx, s.host.Node, remotePath, localPath)
}

// CheckLink reports whether the link of NewSMBLink exists. It fails if NewSMBLink would.
func (s SMBAPI) CheckLink(remotePath, localPath string) (there bool, err error) {
	if err := s.host.Ready(); err != nil {
		return false, err
	}
	return winfs.CheckLinkToShare(s.host.Ctx, s.host.Node, remotePath, localPath)
}

// LinkAt returns the link to a share that is at path. ok is false if path does not exist, is
// not a link, or leads elsewhere.
func (s SMBAPI) LinkAt(path string) (l Link, ok bool, err error) {
	if err := s.host.Ready(); err != nil {
		return Link{}, false, err
	}
	link, ok, err := s.readlink(path)
	if err != nil || !ok {
		if errors.Is(err, hosterr.ErrNotFound) {
			err = nil
		}
		return Link{}, false, err
	}
	target, err := winpath.FromNT(link.Substitute)
	return Link{Path: path, Target: target}, err == nil && target.IsUNC(), nil
}

// readlink reads a link. It tries again if Windows cannot read it, because a link that
// cannot be read keeps a mapping with its credentials.
func (s SMBAPI) readlink(path string) (link winfs.Link, ok bool, err error) {
	err = s.host.Poll(node.Pace{Pause: pause, Tries: tries}, func() (_ bool, err error) {
		link, ok, err = winfs.Readlink(s.host.Ctx, s.host.Node, path)
		return err == nil || absent(err) || winfs.IsAway(err), err
	})
	return link, ok, err
}

// defaultKubelet is the directory to search on a node without working directories.
const defaultKubelet = `C:\var\lib\kubelet`

// The limits of a search for links.
const (
	maxDirectories = 100_000
	maxWaiting     = 2 * time.Second // for directories that other programs have open
	pause          = 20 * time.Millisecond
	tries          = 3 // of a directory or link that Windows cannot read
	maxDepth       = 6 // plugins\kubernetes.io\csi\<driver>\<volume>\globalmount
)

// Links returns the links to shares in the kubelet's directories for CSI drivers:
// pods\*\volumes\kubernetes.io~csi\*\mount and plugins\**\globalmount in each working
// directory.
func (s SMBAPI) Links() ([]Link, error) {
	if err := s.host.Ready(); err != nil {
		return nil, err
	}
	dirs := s.host.Node.WorkingDirs
	if len(dirs) == 0 {
		dirs = []string{cmp.Or(s.kubelet, defaultKubelet)}
	}
	search := search{api: s, left: maxDirectories, waiting: maxWaiting}
	for _, dir := range dirs {
		search.away = false
		dir = strings.TrimRight(strings.ReplaceAll(dir, "/", `\`), `\`)
		if err := search.pods(dir + `\pods`); err != nil {
			return search.found, err
		}
		if err := search.plugins(dir+`\plugins`, "", 0); err != nil {
			return search.found, err
		}
	}
	if search.skipped != "" {
		return search.found, fmt.Errorf("directories or links cannot be read, such as %s (%v): %w", search.skipped, search.why, ErrIncomplete)
	}
	return search.found, nil
}

// ErrIncomplete is the error of Links if there are too many directories, or some cannot be
// read. Links also returns the links that it found.
var ErrIncomplete = errors.New("the search was incomplete")

// search is a search for links to shares.
type search struct {
	api   SMBAPI
	found []Link
	left  int
	// waiting is how long the search may still wait for directories that other
	// programs have open. Most are open for a moment, like one that becomes a link.
	waiting time.Duration
	skipped string // a directory or link that could not be read
	why     error
	away    bool // the disk of the working directory is missing: the rest of it is skipped
}

// skip goes on without a directory or link that cannot be read, for example because another
// program has it open. Only the end of the request ends the search.
func (s *search) skip(path string, err error) error {
	if ended := s.api.host.Ctx.Err(); ended != nil {
		return ended
	}
	s.skipped, s.why, s.away = path, err, s.away || winfs.IsAway(err)
	return nil
}

// list returns the entries of the directory below in dir, which is "" or a relative path.
// One that is [empty] has none.
func (s *search) list(dir, below string) ([]winfs.Entry, error) {
	if s.left--; s.left < 0 {
		return nil, fmt.Errorf("more than %d directories may contain links to shares: %w", maxDirectories, ErrIncomplete)
	}
	if s.away {
		return nil, nil
	}
	var entries []winfs.Entry
	looks := 0
	err := s.api.host.Poll(node.Pace{Pause: pause, Left: &s.waiting}, func() (_ bool, err error) {
		entries, err = winfs.ReadDirBelow(s.api.host.Ctx, s.api.host.Node, dir, below)
		looks++
		return err == nil || empty(err) || winfs.IsAway(err) || looks >= tries && !win32.IsCode(err, win32.ERROR_SHARING_VIOLATION), err
	})
	switch {
	case empty(err):
		return nil, nil
	case err != nil:
		return nil, s.skip(dir+`\`+below, err)
	}
	return entries, nil
}

// empty reports whether err says that a directory has no entries for this search: it is
// [absent], a volume without a file system, or a link. The kubelet makes none there, and one
// that an attacker planted may lead to itself, or to a server that is down.
func empty(err error) bool {
	return absent(err) || win32.IsCode(err, win32.ERROR_DIRECTORY, win32.ERROR_CANT_RESOLVE_FILENAME, win32.ERROR_REPARSE_POINT_ENCOUNTERED, win32.ERROR_UNRECOGNIZED_VOLUME)
}

// absent reports whether err says that something does not exist, is being removed, or is
// outside the working directories. What an access control list hides may be there.
func absent(err error) bool {
	return errors.Is(err, hosterr.ErrNotFound) || errors.Is(err, win32.STATUS_DELETE_PENDING) || errors.Is(err, hosterr.ErrPermissionDenied) && !AccessDenied(err)
}

func (s *search) pods(dir string) error {
	pods, err := s.list(dir, "")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.IsLink() || !pod.IsDir() {
			continue
		}
		volumes := pod.Name + `\volumes\kubernetes.io~csi`
		names, err := s.list(dir, volumes)
		if err != nil {
			return err
		}
		for _, v := range names {
			if !v.IsLink() && v.IsDir() {
				if err := s.link(dir + `\` + volumes + `\` + v.Name + `\mount`); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *search) plugins(dir, below string, depth int) error {
	entries, err := s.list(dir, below)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := strings.TrimPrefix(below+`\`+e.Name, `\`)
		switch staging := winpath.Fold(e.Name) == "GLOBALMOUNT"; {
		case e.IsLink() && staging:
			err = s.link(dir + `\` + path)
		case e.IsDir() && !e.IsLink() && !staging && depth < maxDepth: // a staging directory that is not a link contains a volume's data
			err = s.plugins(dir, path, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *search) link(path string) error {
	if s.away {
		return nil
	}
	link, ok, err := s.api.readlink(path)
	if absent(err) {
		return nil
	}
	if err != nil {
		return s.skip(path, err)
	}
	if !ok {
		return nil
	}
	if target, err := winpath.FromNT(link.Substitute); err == nil && target.IsUNC() {
		s.found = append(s.found, Link{Path: path, Target: target})
	}
	return nil
}

// UserRefused reports whether err says that the server refused the credentials of a mapping,
// or that Windows has lost them.
func UserRefused(err error) bool {
	return AccessDenied(err) || win32.IsCode(err, win32.ERROR_INVALID_PASSWORD, win32.ERROR_LOGON_FAILURE, win32.ERROR_ACCOUNT_RESTRICTION,
		win32.ERROR_PASSWORD_EXPIRED, win32.ERROR_ACCOUNT_DISABLED, win32.ERROR_PASSWORD_MUST_CHANGE, win32.ERROR_ACCOUNT_LOCKED_OUT, win32.ERROR_NOT_CONNECTED)
}

// AccessDenied reports whether err says that access is denied: the server refuses the
// credentials, or they have no right to the root directory of the share.
func AccessDenied(err error) bool { return win32.IsCode(err, win32.ERROR_ACCESS_DENIED) }

// NoShare reports whether err says that the server does not have the share.
func NoShare(err error) bool { return win32.IsCode(err, win32.ERROR_BAD_NET_NAME) }

// NoReason reports whether err says that a call failed, and not why. WMI returns such errors
// for mappings.
func NoReason(err error) bool { return win32.IsCode(err, win32.ERROR_GEN_FAILURE) }

// CredentialConflict reports whether err says that Windows has a session with the server for
// another user (error 1219).
func CredentialConflict(err error) bool {
	return win32.IsCode(err, win32.ERROR_SESSION_CREDENTIAL_CONFLICT)
}
