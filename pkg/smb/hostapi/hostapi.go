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
// docs/evidence/verification.md says what has been verified, and on which systems.
package api

import (
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
	Remote string // \\server\share
	User   string // DOMAIN\name or name; empty for the node's own account, or if Windows does not report it
	Status Status
}

// Link is a directory link to a share.
type Link struct {
	Path   string
	Remote string // \\server\share\sub\
}

// On reports whether the link leads to a share, \\server\share.
func (l Link) On(remote string) bool {
	leads, err := share(l.Remote)
	return err == nil && winpath.SameShare(leads, remote)
}

// SMBAPI is the HostAPI of a node. Its methods may be called concurrently. The methods of the
// zero SMBAPI return errors.
type SMBAPI struct {
	host      node.Host
	noPrivacy bool
	// anyPassword accepts a password that could not be verified with the server.
	anyPassword bool
}

var _ HostAPI = SMBAPI{}

// New returns the HostAPI of the Windows node that the process runs on. Its mappings are
// encrypted. On other systems all methods fail with [errors.ErrUnsupported].
func New() HostAPI { return SMBAPI{host: node.NativeHost()} }

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

// AcceptUnverifiedPasswords returns the same HostAPI, whose Verify returns no error for
// credentials that could not be verified with the server.
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
func share(remotePath string) (string, error) {
	p, err := winpath.Parse(remotePath)
	if err == nil && !p.IsUNC() {
		err = hosterr.Text(hosterr.ErrInvalid, "not a path on a share: %s", remotePath)
	}
	return p.Volume, err
}

// Mappings returns the global mappings of the node with a single Windows call.
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
		user := u.User
		if u.Domain != "" && user != "" {
			user = u.Domain + `\` + user
		}
		list = append(list, Mapping{Remote: u.Remote, User: user, Status: Status(u.Status)})
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
		if winpath.SameShare(m.Remote, remote) {
			return m.Status == StatusOK, nil
		}
	}
	return false, nil
}

// NewSMBGlobalMapping implements [HostAPI].
func (s SMBAPI) NewSMBGlobalMapping(remotePath, username, password string) error {
	if err := s.host.Ready(); err != nil {
		return err
	}
	remote, err := share(remotePath)
	if err != nil {
		return err
	}
	use := win32.NewUse{Remote: remote}
	if username != "" {
		use.User, use.Password = username, win32.NewSecret(password)
		if domain, name, ok := strings.Cut(username, `\`); ok {
			use.Domain, use.User = domain, name
		}
	}
	if !s.noPrivacy {
		use.Flags |= win32.REQUIRE_CONNECTION_PRIVACY
	}
	err = s.host.Node.API.UseAdd(use)
	if err == nil {
		winfs.ShareMapped(s.host.Node, remote)
	}
	if win32.IsCode(err, win32.ERROR_NOT_SUPPORTED) {
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "%w", err)
	}
	return hosterr.WithHint("map share", hosterr.Quote(remote), node.Typed(err), s.hint(err, username))
}

// Verify checks with the server of a path whether it accepts the credentials, in a separate
// session that does not affect mappings. verified is false if the server did not respond,
// which is an error unless AcceptUnverifiedPasswords was called.
func (s SMBAPI) Verify(remotePath, username, password string) (verified bool, err error) {
	if err := s.host.Ready(); err != nil {
		return false, err
	}
	remote, err := share(remotePath)
	if err != nil {
		return false, err
	}
	server, _, _ := strings.Cut(strings.TrimPrefix(remote, `\\`), `\`)
	c := win32.Credentials{User: username}
	if username != "" {
		c.Password = win32.NewSecret(password)
		if domain, name, ok := strings.Cut(username, `\`); ok {
			c.Domain, c.User = domain, name
		}
	}
	err = node.Typed(s.host.Node.API.LogonToServer(server, c))
	if err != nil && !errors.Is(err, hosterr.ErrPermissionDenied) && s.anyPassword {
		s.host.Node.Log.Warn("Accepting SMB credentials that could not be verified", "server", server, "user", username, "err", err)
		return false, nil
	}
	return err == nil, hosterr.Wrap("log on to server", hosterr.Quote(server), err)
}

// Hints for errors of mappings.
const (
	HintServer = "check that the node can resolve the server's name and connect to its port 445, and that the server has the share"
	HintRights = "check the user's rights on the share, and that the server supports encryption (SMB 3); otherwise start csi-proxy with -require-privacy=false"
)

// HintCredentials returns the hint for credentials that a server refused.
func HintCredentials(username string) string {
	hint := "check the user name and password in the volume's secret"
	if username != "" && !strings.ContainsAny(username, `\@`) {
		hint += `; some servers need the user as DOMAIN\name, such as AZURE\account for Azure Files`
	}
	return hint
}

// hint returns the hint for an error of UseAdd, or "".
func (s SMBAPI) hint(err error, username string) string {
	switch {
	case win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_NOT_SUPPORTED) && !s.noPrivacy:
		return HintRights
	case win32.IsCode(err, win32.ERROR_NETWORK_ACCESS_DENIED) && !s.noPrivacy:
		return "the server does not support encryption (SMB 3): turn it on there, or start csi-proxy with -require-privacy=false"
	case win32.IsCode(err, win32.ERROR_LOGON_FAILURE, win32.ERROR_INVALID_PASSWORD):
		return HintCredentials(username)
	case win32.IsCode(err, win32.ERROR_NO_SUCH_LOGON_SESSION):
		return `specify the user as DOMAIN\name, or as AZURE\account for Azure Files; if the server knows no domain, any name will do`
	case win32.IsCode(err, win32.NERR_WkstaNotStarted):
		return "start the service LanmanWorkstation on the node"
	case win32.IsCode(err, win32.ERROR_NOT_ENOUGH_MEMORY):
		return "the node has too many SMB mappings: remove those without links; csi-proxy logs their number when it starts"
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
	err = s.host.Node.API.UseDel(remote, win32.USE_LOTS_OF_FORCE)
	if err == nil || win32.IsCode(err, win32.ERROR_NOT_CONNECTED) {
		winfs.ShareUnmapped(s.host.Node, remote)
	}
	if win32.IsCode(err, win32.ERROR_NOT_CONNECTED) {
		// The published text.
		err = hosterr.Text(hosterr.ErrNotFound, "failed to query SMB global mapping by remote path %s: not found", remote)
		return hosterr.Text(hosterr.ErrNotFound, "error remove smb mapping '%s'. err: %w", remote, err)
	}
	return hosterr.Wrap("remove mapping of share", hosterr.Quote(remote), node.Typed(err))
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

// RemoteOf returns the UNC path that a link at path leads to. It returns "" if path does not
// exist, is not a link, or leads elsewhere.
func (s SMBAPI) RemoteOf(path string) (string, error) {
	if err := s.host.Ready(); err != nil {
		return "", err
	}
	link, ok, err := s.readlink(path)
	switch {
	case errors.Is(err, hosterr.ErrNotFound):
		return "", nil
	case err != nil || !ok:
		return "", err
	}
	target, err := winpath.FromNT(link.Substitute)
	if err != nil || !target.IsUNC() {
		return "", nil // does not lead to a share
	}
	return target.String(), nil
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
		dirs = []string{defaultKubelet}
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
// outside the working directories.
func absent(err error) bool {
	return errors.Is(err, hosterr.ErrNotFound) || errors.Is(err, win32.STATUS_DELETE_PENDING) || errors.Is(err, hosterr.ErrPermissionDenied)
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
		s.found = append(s.found, Link{Path: path, Remote: target.String()})
	}
	return nil
}

// Refused reports whether err says that the server refused the credentials of a mapping, or
// that Windows has lost them.
func Refused(err error) bool {
	return AccessDenied(err) || win32.IsCode(err, win32.ERROR_INVALID_PASSWORD, win32.ERROR_LOGON_FAILURE, win32.ERROR_ACCOUNT_RESTRICTION,
		win32.ERROR_PASSWORD_EXPIRED, win32.ERROR_ACCOUNT_DISABLED, win32.ERROR_PASSWORD_MUST_CHANGE, win32.ERROR_ACCOUNT_LOCKED_OUT, win32.ERROR_NOT_CONNECTED)
}

// AccessDenied reports whether err says that access is denied: the server refuses the
// credentials, or they have no right to the root directory of the share.
func AccessDenied(err error) bool { return win32.IsCode(err, win32.ERROR_ACCESS_DENIED) }

// NotConnected reports whether err says that a mapping has no session.
func NotConnected(err error) bool { return win32.IsCode(err, win32.ERROR_NOT_CONNECTED) }

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
