package smb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// SMB is the Interface over a HostAPI. See the package's comment for its rules.
type SMB struct {
	base service.Base[smbapi.HostAPI]
	fs   filesystem.Interface
	*records
}

var _ Service = (*SMB)(nil)

// New makes the service. fsClient is asked whether a share can be reached. What
// is known of mappings, and the locks, are those of the node that hostAPI works
// on: two services of one node know the same. A hostAPI of another make has
// neither; its mappings have no count of users, so a removal removes.
func New(hostAPI smbapi.HostAPI, fsClient filesystem.Interface) (*SMB, error) {
	if fsClient == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "smb service: the filesystem service is nil")
	}
	base, err := service.New("smb", hostAPI)
	if err != nil {
		return nil, err
	}
	s := &SMB{base, fsClient, node.Shared(base.Node, "smb", newRecords)}
	base.Node.OnRemoved("smb", s.sweepSoon)
	return s, nil
}

// host is the node as one call sees it. A HostAPI of another make tells of one
// share at a time and nothing of links.
type host struct {
	api  smbapi.HostAPI
	more more // nil for one of another make
	root string
}

// more is what the service asks of a node beyond the published HostAPI.
type more interface {
	Mappings() ([]smbapi.Mapping, error)
	CheckLink(remotePath, localPath string) (there bool, err error)
	ShareOf(path string) (string, error)
	Links() ([]smbapi.Link, error)
	Verify(remotePath, username, password string) (verified bool, err error)
}

// on is the host for a call about a share. It heeds ctx, if it can.
func (s *SMB) on(ctx context.Context, root string) host {
	h := host{api: s.base.On(ctx), root: root}
	h.more, _ = h.api.(more)
	return h
}

func (h host) mappings() ([]smbapi.Mapping, error) {
	if h.more != nil {
		return h.more.Mappings()
	}
	ok, err := h.api.IsSMBMapped(h.root)
	if err != nil || !ok {
		return nil, err
	}
	return []smbapi.Mapping{{Remote: h.root}}, nil
}

func (h host) checkLink(remotePath, localPath string) (there bool, err error) {
	if h.more == nil {
		return false, nil
	}
	return h.more.CheckLink(remotePath, localPath)
}

func (h host) shareOf(path string) (string, error) {
	if h.more == nil {
		return "", nil
	}
	return h.more.ShareOf(path)
}

func (h host) verify(user, password string) (verified bool, err error) {
	if h.more == nil {
		return false, hosterr.Text(hosterr.ErrUnimplemented, "this HostAPI cannot verify credentials")
	}
	return h.more.Verify(h.root, user, password)
}

func (h host) links() ([]smbapi.Link, error) {
	if h.more == nil {
		return nil, nil
	}
	return h.more.Links()
}

// call is one request at work: it holds the lock of the server.
type call struct {
	s              *SMB
	ctx            context.Context
	remote         RemotePath
	root, local    string
	user, password string
	host           host
}

// Format keeps the password of a call from being printed.
func (c *call) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "call about %s", c.root) }

// locked runs work while no other request works on the server of the path, or on
// local if that is not nil.
func (s *SMB) locked(ctx context.Context, server string, local *winpath.Path, work func() error) error {
	if local != nil {
		unlock, err := service.Path(s.base.Node, *local)(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	unlock, err := s.base.Node.Locks.Shares.Lock(ctx, strings.ToLower(server))
	if err != nil {
		return hosterr.Wrap("wait for SMB server", hosterr.Quote(server), err)
	}
	defer unlock()
	return work()
}

// run runs the work of a call under its lock, after the links of earlier processes
// were found.
func (s *SMB) run(c *call, local *winpath.Path, work func() error) error {
	return service.Do(c.ctx, s.base, nil, func(smbapi.HostAPI) error {
		if err := s.find(c.ctx, c.host); err != nil {
			return err
		}
		return s.locked(c.ctx, c.remote.Server, local, work)
	})
}

// NewSMBGlobalMapping implements [Interface]. Nothing is changed before the whole
// request was found to be valid, and what was changed before a failure is undone.
func (s *SMB) NewSMBGlobalMapping(ctx context.Context, in *NewSMBGlobalMappingRequest) (*NewSMBGlobalMappingResponse, error) {
	if in == nil {
		return nil, service.NoRequest("NewSMBGlobalMapping")
	}
	remote, err := ParseRemotePath(in.RemotePath)
	if err != nil {
		return nil, err
	}
	var local *winpath.Path
	if in.LocalPath != "" {
		p, err := winpath.Validate(in.LocalPath)
		if err != nil {
			return nil, err
		}
		local = &p
	}
	if err := checkCredentials(in.Username, in.Password); err != nil {
		return nil, err
	}
	c := &call{s: s, ctx: ctx, remote: remote, root: remote.root(), local: in.LocalPath, user: in.Username, password: in.Password}
	c.host = s.on(ctx, c.root)
	err = s.run(c, local, c.newMapping)
	return service.Response(&NewSMBGlobalMappingResponse{}, err)
}

// checkCredentials refuses what Windows cannot take. No error holds a password.
func checkCredentials(user, password string) error {
	if strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		return hosterr.Text(hosterr.ErrInvalid, "user name %q holds a control character", user)
	}
	if len(user) > 512 || strings.Count(user, `\`) > 1 || strings.HasSuffix(user, `\`) {
		return hosterr.Text(hosterr.ErrInvalid, `user name %q: want a name of at most 512 bytes, or DOMAIN\name`, user)
	}
	if strings.ContainsRune(password, 0) {
		return hosterr.Text(hosterr.ErrInvalid, "the password holds a NUL")
	}
	return nil
}

// newMapping makes the mapping, and the link if one is wanted.
func (c *call) newMapping() error {
	there := false
	if c.local != "" {
		var err error
		if there, err = c.host.checkLink(c.remote.String(), c.local); err != nil {
			return c.linkError(err)
		}
	}
	fresh, err := c.ensure(there)
	if err != nil {
		return err
	}
	c.s.setUnwanted(c.root, false)
	if c.local == "" {
		return nil
	}
	if !there {
		if err := c.host.api.NewSMBLink(c.remote.String(), c.local); err != nil {
			if fresh {
				c.undo()
			}
			return c.linkError(err)
		}
	}
	c.s.addLink(c.root, c.local)
	return nil
}

// linkError is the published text.
func (c *call) linkError(err error) error {
	return fmt.Errorf("creating link %s to %s failed with error: %w", c.local, c.remote, err)
}

// undo removes a mapping that the call has made, unless it is used by now.
func (c *call) undo() {
	if user, err := c.usedBy(c.root, ""); err != nil || user != "" {
		return
	}
	if err := c.remove(c.root); err != nil {
		c.s.base.Node.Log.Warn("SMB mapping left behind", "share", c.root, "error", err)
	}
}

// ensure makes sure that the share is mapped with the credentials of the call,
// and tells whether it was not mapped at all before. linked says that the link of
// the call is there already: then somebody may work on the share through it.
func (c *call) ensure(linked bool) (fresh bool, err error) {
	have, mapped, err := c.mapping()
	if err != nil {
		return false, err
	}
	if !mapped {
		return true, c.add()
	}
	works, err := c.works()
	if err != nil {
		return false, err
	}
	if works && have.Status != smbapi.StatusOK {
		// The question whether the share can be reached may have brought it back.
		if have, mapped, err = c.mapping(); err != nil {
			return false, err
		}
		works = mapped && have.Status == smbapi.StatusOK
	}
	if !works {
		return false, c.remake("it does not work: " + have.Status.String())
	}
	user, mark, known := c.s.credentials(c.root)
	if known && mark == c.s.markOf(c.user, c.password) {
		return false, nil
	}
	known = known && mark != unknownMark
	if !known {
		user = have.User
		if linked && (user == "" || sameUser(user, c.user)) {
			// Made before this process was started, and the link of this request
			// uses it.
			c.s.adopted(c.root, c.user)
			return false, nil
		}
	}
	other, err := c.usedBy(c.root, c.local)
	if err != nil {
		return false, err
	}
	if other == "" {
		return false, c.remake("it has other credentials, and nobody uses it")
	}
	if !sameUser(user, c.user) && (known || user != "") {
		return false, c.conflict(c.root, who(user), other, "")
	}
	if !known && user == "" {
		return false, c.verify("an unknown user", other)
	}
	return false, c.verify(who(user), other)
}

// verify decides about credentials for a mapping that other, a link, uses and whose
// password is another one or unknown. The mapping keeps the session that it has. If
// the server accepts the credentials, they are those of the mapping from now on: its
// next session begins with them.
func (c *call) verify(user, other string) error {
	verified, err := c.host.verify(c.user, c.password)
	switch {
	case verified:
		c.s.base.Node.Log.Info("Accepted new credentials for an SMB mapping in use", "share", c.root, "user", c.user)
		c.s.mapped(c.root, c.user, c.password)
		return nil
	case err == nil:
		c.s.adopted(c.root, c.user)
		return nil
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case errors.Is(err, hosterr.ErrPermissionDenied):
		return c.conflict(c.root, user, other, fmt.Sprintf("the server refuses it: %v", err))
	}
	return c.conflict(c.root, user, other, fmt.Sprintf("it cannot be verified: %v", err))
}

// mapping finds the mapping of the share.
func (c *call) mapping() (smbapi.Mapping, bool, error) {
	all, err := c.host.mappings()
	if err != nil {
		return smbapi.Mapping{}, false, err
	}
	for _, m := range all {
		if winpath.SameShare(m.Remote, c.root) {
			return m, true, nil
		}
	}
	return smbapi.Mapping{}, false, nil
}

// works asks whether the share can be reached. A server that does not answer is
// an error: a mapping of it may come back by itself, and could not be made anew.
func (c *call) works() (bool, error) {
	out, err := c.s.fs.PathValid(c.ctx, &filesystem.PathValidRequest{Path: c.root})
	switch {
	case err == nil:
		return out.Valid, nil
	case c.ctx.Err() != nil:
		return false, c.ctx.Err()
	case smbapi.ServerGone(err):
		return false, hosterr.WithHint("reach share", hosterr.Quote(c.root), err,
			"the mapping is kept: it may come back with its server")
	}
	return false, nil
}

// conflict returns the error for a mapping that is used and has other credentials. root
// is its share, why the reason against another password of its user.
func (c *call) conflict(root, user, by, why string) error {
	what := fmt.Sprintf("server %q: share %s is mapped for %s", c.remote.Server, root, user)
	if by != "" {
		what += ", and in use by " + by
	}
	hint := "one node has one user for each SMB server: use the same credentials, or remove the other mapping when nothing uses it"
	if why == "" {
		what += fmt.Sprintf("; Windows lets one user at a time use a server, and this request is for %s", who(c.user))
	} else {
		what += fmt.Sprintf("; this request has another password for %s, and %s", who(c.user), why)
		hint = "check the password in the volume's secret; -smb-accept-unverified-passwords accepts one that cannot be verified"
	}
	return hosterr.WithHint("map share", hosterr.Quote(c.root), hosterr.Text(hosterr.ErrFailedPrecondition, "%s", what), hint)
}

// who is a user in a message.
func who(user string) string {
	if user == "" {
		return "the node's own account"
	}
	return fmt.Sprintf("user %q", user)
}

// sameUser tells whether two names may mean one user: Windows may tell a domain
// that the request left out, or left it to the name (name@domain).
func sameUser(a, b string) bool {
	split := func(user string) (domain, name string) {
		if domain, name, ok := strings.Cut(user, `\`); ok {
			return domain, name
		}
		name, domain, _ = strings.Cut(user, "@")
		return domain, name
	}
	domainA, nameA := split(a)
	domainB, nameB := split(b)
	firstA, _, _ := strings.Cut(domainA, ".")
	firstB, _, _ := strings.Cut(domainB, ".")
	return strings.EqualFold(nameA, nameB) && (domainA == "" || domainB == "" || strings.EqualFold(firstA, firstB))
}

// add maps the share.
func (c *call) add() error {
	err := c.host.api.NewSMBGlobalMapping(c.root, c.user, c.password)
	if smbapi.CredentialConflict(err) {
		if err = c.clear(); err == nil {
			err = c.host.api.NewSMBGlobalMapping(c.root, c.user, c.password)
		}
	}
	if err != nil {
		if c.remote.mayBeDFS() && (errors.Is(err, hosterr.ErrNotFound) || errors.Is(err, hosterr.ErrUnavailable)) {
			return hosterr.WithHint("map", hosterr.Quote(c.remote.String()), err, hintDFS)
		}
		return err
	}
	c.s.mapped(c.root, c.user, c.password)
	c.s.base.Node.Log.Info("SMB share mapped", "share", c.root, "user", c.user)
	return nil
}

// clear makes room on the server: it removes mappings of the server for other
// users that nobody uses, if they do not work or were made here. The first that
// must stay is an error.
func (c *call) clear() error {
	all, err := c.host.mappings()
	if err != nil {
		return err
	}
	var dead []string
	for _, m := range all {
		other, err := ParseRemotePath(m.Remote)
		if err != nil || !other.share().SameServer(c.remote.share()) || sameUser(m.User, c.user) {
			continue
		}
		by, err := c.usedBy(other.root(), "")
		if err != nil {
			return err
		}
		_, _, ours := c.s.credentials(other.root())
		if by != "" || m.Status == smbapi.StatusOK && !ours {
			return c.conflict(other.root(), who(m.User), by, "")
		}
		dead = append(dead, other.root())
	}
	if len(dead) == 0 {
		return hosterr.WithHint("map share", hosterr.Quote(c.root),
			hosterr.Text(hosterr.ErrFailedPrecondition, "Windows has a session with server %q for another user than %s, or with another password", c.remote.Server, who(c.user)),
			"see net use on the node, in the sessions of administrators, too")
	}
	for _, root := range dead {
		c.s.base.Node.Log.Info("Another user needs the server of an SMB mapping that nobody uses", "share", root)
		if err := c.remove(root); err != nil {
			return err
		}
	}
	return nil
}

// remake removes the mapping and makes it anew. Links stay. Once begun it goes on
// to its end, whatever becomes of the caller: half of it would leave the share
// unmapped.
func (c *call) remake(why string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.s.base.Node.Log.Info("SMB mapping is made anew", "share", c.root, "because", why)
	whole := *c
	whole.ctx = context.WithoutCancel(c.ctx)
	whole.host = c.s.on(whole.ctx, c.root)
	if err := whole.remove(c.root); err != nil {
		return err
	}
	return whole.add()
}

// removal is the key of the lock by which mappings are removed one at a time, on
// all servers.
const removal = "\x00removal"

// remove removes a mapping; one that is gone is success.
func (c *call) remove(root string) error {
	unlock, err := c.s.base.Node.Locks.Shares.Lock(c.ctx, removal)
	if err != nil {
		return err
	}
	defer unlock()
	err = c.host.api.RemoveSMBGlobalMapping(root)
	if err != nil && !errors.Is(err, hosterr.ErrNotFound) {
		return err
	}
	c.s.removed(root)
	if err == nil {
		c.s.base.Node.Log.Info("SMB mapping removed", "share", root)
	}
	return nil
}

// usedBy is a link to the share, other than except, that is there; "" if there
// is none. Links that are gone are forgotten. What cannot be looked at is used.
func (c *call) usedBy(root, except string) (string, error) {
	for _, path := range c.s.linksTo(root) {
		if except != "" && linkKey(path) == linkKey(except) {
			continue
		}
		leads, err := c.host.shareOf(path)
		switch {
		case err == nil && winpath.SameShare(leads, root):
			return path, nil
		case err == nil:
			c.s.dropLink(root, path)
		case c.ctx.Err() != nil:
			return "", c.ctx.Err()
		default:
			c.s.base.Node.Log.Warn("A link to an SMB share cannot be looked at; it counts as in use", "link", path, "error", err)
			return path, nil
		}
	}
	if _, _, ours := c.s.credentials(root); c.s.partly && !ours {
		return "a link that may be there", nil
	}
	return "", nil
}

// Survey looks for the mappings and links of earlier processes and says in the
// log how many mappings no link uses. The daemon calls it when it starts; without
// it the first request does the same.
func (s *SMB) Survey(ctx context.Context) error {
	return service.Do(ctx, s.base, nil, func(smbapi.HostAPI) error { return s.find(ctx, s.on(ctx, "")) })
}

// find looks, once for each node, for the links that earlier processes made.
func (s *SMB) find(ctx context.Context, h host) error {
	s.search.Lock()
	defer s.search.Unlock()
	if s.searched {
		return nil
	}
	links, err := h.links()
	if errors.Is(err, smbapi.ErrIncomplete) {
		s.partly = true
		s.base.Node.Log.Warn("Not all links to SMB shares were looked for; every mapping of an earlier process counts as in use", "error", err)
	} else if err != nil {
		return hosterr.Wrap("look for links to shares", "", err)
	}
	for _, l := range links {
		if remote, err := ParseRemotePath(l.Remote); err == nil {
			s.addLink(remote.root(), l.Path)
		}
	}
	s.searched = true
	s.report(h, len(links))
	return nil
}

// report says in the log what was found at start.
func (s *SMB) report(h host, links int) {
	if h.more == nil {
		return
	}
	all, err := h.mappings()
	if err != nil {
		return // whoever needs them will say so
	}
	orphans := 0
	for _, m := range all {
		if remote, err := ParseRemotePath(m.Remote); err == nil && len(s.linksTo(remote.root())) == 0 {
			orphans++
		}
	}
	level := slog.LevelInfo
	if orphans > 0 {
		level = slog.LevelWarn
	}
	s.base.Node.Log.Log(context.Background(), level, "SMB mappings found", "mappings", len(all), "links", links, "without links", orphans)
}

// A mapping whose removal was asked for while links used it is removed when the
// filesystem service removes its last link. Links that others remove are noticed by a
// timer.
const (
	sweepInterval = 30 * time.Second
	// sweepLimit is how long a removal of a link waits for that of its mapping.
	sweepLimit = 2 * time.Second
)

// sweepSoon sweeps the shares to which a link was at or below path, which was removed.
// A sweep that takes long goes on after the caller has its response.
func (s *SMB) sweepSoon(ctx context.Context, path string) {
	roots := s.unwanted(path)
	if len(roots) == 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	rest := context.WithoutCancel(ctx)
	// Errors are logged where they happen.
	_ = service.Do(wait, s.base, nil, func(smbapi.HostAPI) error { return s.sweep(rest, roots) })
}

// sweepLater sweeps after an interval, if a mapping waits for its removal.
func (s *SMB) sweepLater() {
	s.armTimer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sweepInterval)
		defer cancel()
		if s.sweep(ctx, s.unwanted("")) == nil {
			s.sweepLater()
		}
	})
}

// sweep removes those mappings that no link uses any more. It returns the last error,
// which it has logged.
func (s *SMB) sweep(ctx context.Context, roots []string) (err error) {
	for _, root := range roots {
		if failed := s.sweepOne(ctx, root); failed != nil {
			err = failed
			if ctx.Err() != nil {
				return err
			}
			s.base.Node.Log.Warn("Failed to remove an SMB mapping without links", "share", root, "err", err)
		}
	}
	return err
}

func (s *SMB) sweepOne(ctx context.Context, root string) error {
	remote, err := ParseRemotePath(root)
	if err != nil {
		return err
	}
	c := &call{s: s, ctx: ctx, remote: remote, root: root, host: s.on(ctx, root)}
	return s.locked(ctx, remote.Server, nil, func() error {
		if !s.isUnwanted(root) { // mapped again meanwhile
			return nil
		}
		by, err := c.usedBy(root, "")
		if err != nil || by != "" {
			return err
		}
		return c.remove(root)
	})
}

// RemoveSMBGlobalMapping implements [Interface].
func (s *SMB) RemoveSMBGlobalMapping(ctx context.Context, in *RemoveSMBGlobalMappingRequest) (*RemoveSMBGlobalMappingResponse, error) {
	if in == nil {
		return nil, service.NoRequest("RemoveSMBGlobalMapping")
	}
	remote, err := ParseRemotePath(in.RemotePath)
	if err != nil {
		return nil, err
	}
	c := &call{s: s, ctx: ctx, remote: remote, root: remote.root()}
	c.host = s.on(ctx, c.root)
	err = s.run(c, nil, c.removeUnused)
	return service.Response(&RemoveSMBGlobalMappingResponse{}, err)
}

// removeUnused removes the mapping unless links still use it.
func (c *call) removeUnused() error {
	by, err := c.usedBy(c.root, "")
	if err != nil {
		return err
	}
	if by != "" {
		c.s.setUnwanted(c.root, true)
		c.s.sweepLater()
		c.s.base.Node.Log.Info("SMB mapping stays: a link uses it", "share", c.root, "link", by)
		return nil
	}
	return c.remove(c.root)
}
