package smb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// SMB implements [Service] with a HostAPI. The package comment describes its rules.
type SMB struct {
	base service.Base[smbapi.HostAPI]
	fs   filesystem.Interface
	*records
}

var _ Service = (*SMB)(nil)

// New returns a service that uses hostAPI. It uses fsClient to check whether a share can be
// reached. With the HostAPI of this project, all services of a node share their locks and
// what they know about mappings. With any other HostAPI the service does not know which
// links use a mapping, so RemoveSMBGlobalMapping always removes the mapping.
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

// host is the node for one call. With a HostAPI that is not of this project it can query
// only one share, and no links.
type host struct {
	api  smbapi.HostAPI
	more more // nil if the HostAPI is not of this project
	root string
}

// more has the methods that the service needs in addition to the published HostAPI.
type more interface {
	Mappings() ([]smbapi.Mapping, error)
	CheckLink(remotePath, localPath string) (there bool, err error)
	RemoteOf(path string) (string, error)
	Links() ([]smbapi.Link, error)
	Verify(remotePath, username, password string) (verified bool, err error)
}

// on returns the host for a call about a share.
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

// remoteOf returns the UNC path that a link leads to, or "".
func (h host) remoteOf(path string) (string, error) {
	if h.more == nil {
		return "", nil
	}
	return h.more.RemoteOf(path)
}

// leadsTo reports whether a link leads to the share.
func (h host) leadsTo(path, root string) (bool, error) {
	remote, err := h.remoteOf(path)
	return err == nil && smbapi.Link{Remote: remote}.On(root), err
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

// call is a running request. It holds the lock of the server.
type call struct {
	s              *SMB
	ctx            context.Context
	remote         RemotePath
	root, local    string
	user, password string
	host           host
	// accepted means that the server accepted the credentials while it was not known
	// whose credentials the mapping has.
	accepted bool
	// listed are the mappings of the node, as they were listed last.
	listed []smbapi.Mapping
}

// Format prints a call without its password.
func (c *call) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "call about %s", c.root) }

// locked runs work while no other request uses the server, or local if that is not nil.
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

// run runs the work of a call under its lock, after a search for links of earlier processes.
func (s *SMB) run(c *call, local *winpath.Path, work func() error) error {
	return service.Do(c.ctx, s.base, nil, func(smbapi.HostAPI) error {
		if err := s.find(c.ctx, c.host); err != nil {
			return err
		}
		return s.locked(c.ctx, c.remote.Server, local, work)
	})
}

// NewSMBGlobalMapping implements [Interface]. It checks the whole request before it changes
// anything, and undoes its changes if it fails.
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

// checkCredentials returns an error if Windows cannot use the credentials. The error does not contain the password.
func checkCredentials(user, password string) error {
	if strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		return hosterr.Text(hosterr.ErrInvalid, "user name %q contains a control character", user)
	}
	if len(user) > 512 || strings.Count(user, `\`) > 1 || strings.HasSuffix(user, `\`) {
		return hosterr.Text(hosterr.ErrInvalid, `user name %q: want a name of at most 512 bytes, or DOMAIN\name`, user)
	}
	if strings.ContainsRune(password, 0) {
		return hosterr.Text(hosterr.ErrInvalid, "the password contains a NUL")
	}
	return nil
}

// newMapping makes the mapping and, if requested, the link.
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
		c.s.dropLink(c.root, c.local) // an earlier one at this path
	}
	c.s.addLink(c.root, c.local, false)
	if c.accepted {
		c.s.accepted(c.root, c.local, c.user, c.password)
		c.infer()
	}
	return nil
}

// infer infers whose credentials a mapping of an earlier process has. Only links that are
// older than this process say so, and only if the server accepted the same user for each of
// them. It accepts other users for new links as long as that is not known.
func (c *call) infer() {
	if !c.s.link(c.root, c.local).found {
		return
	}
	for _, l := range c.s.linksTo(c.root) {
		if !l.found || l.mark != unknownMark && sameUser(l.user, c.user) {
			continue
		}
		leads, err := c.host.leadsTo(l.path, c.root)
		if err != nil || leads {
			return
		}
		c.s.dropLink(c.root, l.path)
	}
	c.s.infer(c.root, c.user, c.password)
}

// linkError returns the error with the published text.
func (c *call) linkError(err error) error {
	return fmt.Errorf("creating link %s to %s failed with error: %w", c.local, c.remote, err)
}

// undo removes the mapping that the call has made, unless it is already in use.
func (c *call) undo() {
	if user, err := c.usedBy(c.root, ""); err != nil || user != "" {
		return
	}
	if err := c.remove(c.root); err != nil {
		c.s.base.Node.Log.Warn("Failed to remove an SMB mapping after an error", "share", c.root, "err", err)
	}
}

// ensure makes sure that the share is mapped with the credentials of the call. fresh reports
// whether the share was not mapped before. linked says that the link of the call already
// exists, so programs may use the share through it.
func (c *call) ensure(linked bool) (fresh bool, err error) {
	have, mapped, err := c.mapping()
	if err != nil {
		return false, err
	}
	if !mapped {
		return true, c.add()
	}
	failed := c.access()
	if c.ctx.Err() != nil {
		return false, c.ctx.Err()
	}
	user, mark, known := c.s.credentials(c.root)
	same := known && mark == c.s.markOf(c.user, c.password)
	if failed != nil && !(same && have.Status == smbapi.StatusOK && smbapi.AccessDenied(failed)) {
		works, err := c.repair(have.Status, failed)
		if !works || err != nil {
			return false, err
		}
		failed = nil
	}
	if failed == nil && (have.Status != smbapi.StatusOK || have.User == "" && !known) {
		// The check of the share may have reconnected the mapping, and Windows may know its
		// user only while it is connected.
		if have, mapped, err = c.mapping(); err != nil {
			return false, err
		}
		if !mapped || have.Status != smbapi.StatusOK {
			return false, c.remake("broken", have.Status)
		}
	}
	local := c.s.link(c.root, c.local)
	if same || linked && local.mark == c.s.markOf(c.user, c.password) {
		return false, nil
	}
	known = known && mark != unknownMark
	if !known {
		user = have.User
	}
	switch maybe := user == "" || sameUser(user, c.user); {
	case linked && !known && maybe:
		// The mapping was made before this process started, and the link of this
		// request uses it.
		switch verified, _ := c.host.verify(c.user, c.password); {
		case verified && user == "":
			c.accept()
		case verified:
			c.s.mapped(c.root, c.user, c.password)
		default:
			c.s.adopted(c.root)
		}
		return false, c.ctx.Err()
	case linked && local.found && c.s.inferred(c.root) && !sameUser(user, c.user):
		if verified, _ := c.host.verify(c.user, c.password); verified {
			c.accept() // the inference was wrong, or is
			return false, c.ctx.Err()
		}
	}
	other, err := c.usedBy(c.root, c.local)
	if err != nil {
		return false, err
	}
	if other == "" {
		return false, c.exchange(have.Status)
	}
	if !sameUser(user, c.user) && (known || user != "") {
		return false, c.conflict(c.root, userText(user), other, "")
	}
	if !known && user == "" {
		return false, c.verify("", other)
	}
	return false, c.verify(userText(user), other)
}

// exchange replaces a mapping that works, and that no other link uses, with one that has the
// credentials of the call, if the server accepts them. Otherwise the link of this request, or a
// program that uses the share by its UNC path, would lose the share.
func (c *call) exchange(status smbapi.Status) error {
	if err := c.mayReplace(); err != nil {
		return err
	}
	return c.remake("credentials", status)
}

// mayReplace returns an error if the server does not accept the credentials of the call, or
// is away: then a mapping with other credentials must not be removed for them.
func (c *call) mayReplace() error {
	_, err := c.host.verify(c.user, c.password)
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case err == nil, errors.Is(err, hosterr.ErrUnimplemented): // a HostAPI that cannot verify
		return nil
	case errors.Is(err, hosterr.ErrUnavailable):
		return hosterr.WithHint("map share", hosterr.Quote(c.root), err, smbapi.HintServer)
	}
	return hosterr.WithHint("map share", hosterr.Quote(c.root), err, smbapi.HintCredentials(c.user))
}

// accept records that the server accepted the credentials of the call for a mapping whose
// credentials are not known.
func (c *call) accept() {
	c.s.adopted(c.root)
	c.accepted = true
}

// verify verifies the credentials of a request for a mapping that another link uses, and
// whose password differs or is unknown. The mapping keeps its session. If the server accepts
// the credentials, they are those of the mapping from now on, and its next session uses
// them. If the user of the mapping is unknown (""), nothing is recorded: another user
// may be the right one.
func (c *call) verify(user, other string) error {
	verified, err := c.host.verify(c.user, c.password)
	unknown := user == ""
	if unknown {
		user = unknownUser
	}
	switch {
	case verified && unknown:
		c.accept()
		return nil
	case verified:
		c.s.base.Node.Log.Info("Accepted new credentials for an SMB mapping in use", "share", c.root, "user", c.user)
		c.s.mapped(c.root, c.user, c.password)
		return nil
	case err == nil:
		c.s.adopted(c.root)
		return nil
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case errors.Is(err, hosterr.ErrPermissionDenied):
		return c.conflict(c.root, user, other, fmt.Sprintf("the server refuses it: %v", err))
	}
	return c.conflict(c.root, user, other, fmt.Sprintf("it cannot be verified: %v", err))
}

// mapping returns the mapping of the share, if there is one.
func (c *call) mapping() (smbapi.Mapping, bool, error) {
	all, err := c.s.list(c.host)
	if err != nil {
		return smbapi.Mapping{}, false, err
	}
	c.listed = all
	for _, m := range all {
		if winpath.SameShare(m.Remote, c.root) {
			return m, true, nil
		}
	}
	return smbapi.Mapping{}, false, nil
}

var errNoRoot = errors.New("the root directory of the share was not found")

// access returns the error of a use of the share, or nil.
func (c *call) access() error {
	out, err := c.s.fs.PathValid(c.ctx, &filesystem.PathValidRequest{Path: c.root})
	if err == nil && !out.Valid {
		err = hosterr.Text(hosterr.ErrNotFound, "%w", errNoRoot)
	}
	return err
}

// usable reports whether a directory that another link leads to can be used, although the use
// of the root directory failed. Then that failure was temporary, or the mapping's user has no
// right to the root directory, and the mapping works. If one of the two failures may be
// temporary, and Windows reports that the mapping works, it is not replaced for another user:
// that is a conflict.
func (c *call) usable(status smbapi.Status, failed error) (bool, error) {
	by, err := c.usedBy(c.root, c.local)
	if err != nil || by == "" {
		return false, err
	}
	leads, err := c.host.remoteOf(by)
	if err != nil || leads == "" {
		return false, c.ctx.Err()
	}
	out, err := c.s.fs.PathValid(c.ctx, &filesystem.PathValidRequest{Path: leads})
	user, unknown := c.owner()
	switch {
	case c.ctx.Err() != nil:
		return false, c.ctx.Err()
	case err == nil: // the server may say that it has no such directory, as it does of the root directory
		return out.Valid || !errors.Is(failed, errNoRoot), nil
	case status == smbapi.StatusOK && !(smbapi.Refused(failed) && smbapi.Refused(err)) && !unknown && !sameUser(user, c.user):
		return false, c.conflict(c.root, userText(user), by, "")
	}
	return false, nil
}

// repair replaces a mapping through which the share cannot be used, if the server says
// that this helps: a mapping that is removed while its server is away cannot be made again,
// and works again when the server does. failed is the error of the use. works reports that the
// mapping is not to be replaced, because it works for another link.
func (c *call) repair(status smbapi.Status, failed error) (works bool, err error) {
	keep := func(err error) error {
		return hosterr.WithHint("reach share", hosterr.Quote(c.root), err,
			"check the server and the share; the mapping is kept and works again when they do")
	}
	verified, err := c.host.verify(c.user, c.password)
	switch {
	case c.ctx.Err() != nil:
		return false, c.ctx.Err()
	case errors.Is(err, hosterr.ErrPermissionDenied):
		return false, hosterr.WithHint("map share", hosterr.Quote(c.root), err, smbapi.HintCredentials(c.user))
	case errors.Is(err, hosterr.ErrUnavailable) && !errors.Is(failed, hosterr.ErrUnavailable) && !smbapi.NoShare(failed):
		return false, keep(err) // the server went away after the use
	case errors.Is(err, hosterr.ErrUnavailable), verified && smbapi.NoShare(failed):
		return false, keep(failed)
	case !verified && status == smbapi.StatusOK && !smbapi.Refused(failed):
		return false, keep(failed) // it is not known whether the server responds
	}
	// Unlike other errors, a refusal of the user is not temporary.
	if !smbapi.Refused(failed) || smbapi.AccessDenied(failed) || smbapi.NotConnected(failed) {
		if works, err := c.usable(status, failed); works || err != nil {
			return works, err
		}
	}
	return false, c.remake("broken", status)
}

// conflict returns the error for a mapping in use that has other credentials. root is its
// share, and why is the reason for which a password of the same user was not accepted.
func (c *call) conflict(root, user, by, why string) error {
	what := fmt.Sprintf("server %q: share %s is mapped for %s", c.remote.Server, root, user)
	if by != "" {
		what += ", and in use by " + by
	}
	hint := "a node can use an SMB server with one user only: use the same credentials, or remove the other mapping when nothing uses it"
	if why == "" {
		what += fmt.Sprintf("; Windows allows one user at a time for each server, and this request is for %s", userText(c.user))
	} else {
		what += fmt.Sprintf("; this request has another password for %s, and %s", userText(c.user), why)
		hint = "check the password in the volume's secret; -smb-accept-unverified-passwords accepts one that cannot be verified"
	}
	return hosterr.WithHint("map share", hosterr.Quote(c.root), hosterr.Text(hosterr.ErrFailedPrecondition, "%s", what), hint)
}

// unknownUser describes the user of a mapping that Windows does not report.
const unknownUser = "an unknown user"

// userText describes a user in a message.
func userText(user string) string {
	if user == "" {
		return "the node's own account"
	}
	return fmt.Sprintf("user %q", user)
}

// sameUser reports whether two names can be of the same user: Windows may report a domain
// that is not in the request, or that the request has in the name (name@domain).
func sameUser(a, b string) bool {
	domainA, nameA := account(a)
	domainB, nameB := account(b)
	firstA, _, _ := strings.Cut(domainA, ".")
	firstB, _, _ := strings.Cut(domainB, ".")
	return strings.EqualFold(nameA, nameB) && (domainA == "" || domainB == "" || strings.EqualFold(firstA, firstB))
}

// account returns the parts of a user: "ann" of "CORP\ann", "ann@corp.example.com" and "ann".
func account(user string) (domain, name string) {
	if domain, name, ok := strings.Cut(user, `\`); ok {
		return domain, name
	}
	name, domain, _ = strings.Cut(user, "@")
	return domain, name
}

// add maps the share.
func (c *call) add() error {
	add := func() error { return c.host.api.NewSMBGlobalMapping(c.root, c.user, c.password) }
	err := add()
	switch {
	case smbapi.CredentialConflict(err):
		var removed int
		if removed, err = c.removeConflicting(); err == nil && removed == 0 {
			err = hosterr.WithHint("map share", hosterr.Quote(c.root),
				hosterr.Text(hosterr.ErrFailedPrecondition, "Windows has a session with server %q that is not for %s, or has another password", c.remote.Server, userText(c.user)),
				"run net use on the node, also in the sessions of administrators, and disconnect the server")
		}
		if err == nil {
			err = add()
		}
	case smbapi.NoReason(err):
		err = c.unexplained(err, add)
	}
	if err != nil {
		if c.remote.mayBeDFS() && (errors.Is(err, hosterr.ErrNotFound) || errors.Is(err, hosterr.ErrUnavailable)) {
			return hosterr.WithHint("map", hosterr.Quote(c.remote.String()), err, hintDFS)
		}
		return err
	}
	c.s.removed(c.root) // what was known about a mapping that another program removed
	c.s.mapped(c.root, c.user, c.password)
	c.s.base.Node.Log.Info("Mapped SMB share", "share", c.root, "user", c.user)
	return nil
}

// unexplained finds out why Windows did not map the share without giving a reason, as failed
// says. It asks the server, and maps the share again with add if mappings of other users
// were in the way.
func (c *call) unexplained(failed error, add func() error) error {
	verified, err := c.host.verify(c.user, c.password)
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case errors.Is(err, hosterr.ErrPermissionDenied):
		return hosterr.WithHint("map share", hosterr.Quote(c.root), err, smbapi.HintCredentials(c.user))
	case errors.Is(err, hosterr.ErrUnavailable):
		return hosterr.WithHint("map share", hosterr.Quote(c.root), err, smbapi.HintServer)
	}
	if err := c.access(); smbapi.NoShare(err) || errors.Is(err, hosterr.ErrUnavailable) {
		return hosterr.WithHint("map share", hosterr.Quote(c.root), err, smbapi.HintServer)
	}
	removed, err := c.removeConflicting()
	if err != nil {
		return err
	}
	if removed > 0 {
		if failed = add(); failed == nil {
			return nil
		}
	}
	if verified {
		failed = hosterr.Text(hosterr.ErrPermissionDenied, "Windows did not say why; the server has the share and accepts the credentials: %w", failed)
	}
	return hosterr.WithHint("map share", hosterr.Quote(c.root), failed, smbapi.HintRights+"; or another user is connected to the server: run net use on the node")
}

// removeConflicting removes unused mappings of the server for other users, if they do not
// work or were made by this process. It returns how many, or an error for a mapping that it
// must not remove.
func (c *call) removeConflicting() (removed int, err error) {
	all, err := c.host.mappings()
	if err != nil {
		return 0, err
	}
	dead, err := c.conflicting(all, false)
	if err != nil || len(dead) == 0 {
		return 0, err
	}
	if err := c.mayReplace(); err != nil {
		return 0, err
	}
	for _, root := range dead {
		c.s.base.Node.Log.Info("Removing an unused SMB mapping, because another user needs its server", "share", root)
		if err := c.remove(root); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// owner returns the user of the mapping of the share, which is that of all mappings of its
// server, or that it is unknown.
func (c *call) owner() (user string, unknown bool) {
	for _, m := range c.listed {
		if m.User != "" && winpath.SameShare(m.Remote, c.root) {
			return m.User, false
		}
	}
	user, mark, ours := c.s.credentials(c.root)
	return user, !ours || mark == unknownMark
}

// conflicting returns which of all mappings are of other users of the server, and can be removed,
// or an error for one that must not be removed. If certain is set, Windows has not refused the
// user yet. Then conflicting skips the share of the call, mappings whose user is unknown as that
// of the call's share is, and users with the same name in another domain: CORP\ann may be
// ann@example.com.
func (c *call) conflicting(all []smbapi.Mapping, certain bool) (dead []string, err error) {
	_, own := account(c.user)
	for _, m := range all {
		other, err := ParseRemotePath(m.Remote)
		if err != nil || !other.share().SameServer(c.remote.share()) || certain && other.root() == c.root {
			continue
		}
		user, mark, ours := c.s.credentials(other.root())
		if m.User != "" || ours && mark == unknownMark {
			user = m.User
		}
		unknown := user == "" && (!ours || mark == unknownMark)
		if !certain && m.User == "" && c.s.inferred(other.root()) {
			unknown = true // the inference may be the reason why Windows refuses the user
		}
		if certain && (unknown || m.User == "" && c.s.inferred(other.root())) {
			if owner, none := c.owner(); !none {
				user, unknown = owner, false
			} else if unknown {
				continue
			}
		}
		text := userText(user)
		if unknown {
			text = unknownUser
		} else if _, name := account(user); sameUser(user, c.user) || certain && strings.EqualFold(name, own) {
			continue
		}
		by, err := c.usedBy(other.root(), "")
		if err != nil {
			return nil, err
		}
		if by != "" || m.Status == smbapi.StatusOK && !ours {
			return nil, c.conflict(other.root(), text, by, "")
		}
		dead = append(dead, other.root())
	}
	return dead, nil
}

// remake replaces the mapping. Links stay. Once begun it continues to its end even if the
// caller leaves, because half of it would leave the share unmapped. It does not begin if
// Windows would refuse the user because of another share of the server. reason is "broken" or
// "credentials".
func (c *call) remake(reason string, status smbapi.Status) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if _, err := c.conflicting(c.listed, true); err != nil {
		return err
	}
	c.s.base.Node.Log.Info("Replacing SMB mapping", "share", c.root, "reason", reason, "status", status)
	whole := *c
	whole.ctx = context.WithoutCancel(c.ctx)
	whole.host = c.s.on(whole.ctx, c.root)
	if err := whole.remove(c.root); err != nil {
		return err
	}
	return whole.add()
}

// removal is the prefix of the keys of locks under which a share's mapping is removed. The
// locks of servers do not do: a server can have several names.
const removal = "\x00removal "

// remove removes a mapping. It succeeds if there is none.
func (c *call) remove(root string) error {
	unlock, err := c.s.base.Node.Locks.Shares.Lock(c.ctx, removal+root)
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
		c.s.base.Node.Log.Info("Removed SMB mapping", "share", root)
	}
	return nil
}

// usedBy returns an existing link to the share, other than except, or "". It forgets links
// that no longer exist. A link that cannot be read counts as existing.
func (c *call) usedBy(root, except string) (string, error) {
	for _, l := range c.s.linksTo(root) {
		path := l.path
		if except != "" && linkKey(path) == linkKey(except) {
			continue
		}
		leads, err := c.host.leadsTo(path, root)
		switch {
		case err == nil && leads:
			return path, nil
		case err == nil:
			c.s.dropLink(root, path)
		case c.ctx.Err() != nil:
			return "", c.ctx.Err()
		default:
			c.s.base.Node.Log.Warn("Failed to read a link to an SMB share; its mapping counts as in use", "link", path, "err", err)
			return path, nil
		}
	}
	if _, _, ours := c.s.credentials(root); c.s.partly() && !ours {
		return "a link that may exist", nil
	}
	return "", nil
}

// Survey searches for links of earlier processes. The daemon calls it when it starts. Otherwise
// the first request does the same. The first list of mappings after it logs how many are not
// used by a link.
func (s *SMB) Survey(ctx context.Context) error {
	return service.Do(ctx, s.base, nil, func(smbapi.HostAPI) error { return s.find(ctx, s.on(ctx, "")) })
}

// CountMappings returns how many mappings of the node have each status, also those of other
// programs. The daemon calls it for its metrics.
func (s *SMB) CountMappings(ctx context.Context) (map[smbapi.Status]int, error) {
	return service.Get(ctx, s.base, nil, func(smbapi.HostAPI) (map[smbapi.Status]int, error) {
		all, err := s.list(s.on(ctx, ""))
		if err != nil {
			return nil, hosterr.Wrap("list the mappings", "", err)
		}
		counts := map[smbapi.Status]int{}
		for _, m := range all {
			counts[m.Status]++
		}
		return counts, nil
	})
}

// CountPending returns how many mappings are removed as soon as no link uses them.
func (s *SMB) CountPending() int { return len(s.unwanted("")) }

// searching is the key of the lock of a search.
const searching = "\x00search for links"

// searchInterval is how long an incomplete search is not repeated.
const searchInterval = 10 * time.Minute

// find searches, once for each node, for links that earlier processes made. An incomplete
// search is repeated by a later request.
func (s *SMB) find(ctx context.Context, h host) error {
	if s.wasSearched(s.base.Node.Clock.Now()) {
		return nil
	}
	unlock, err := s.base.Node.Locks.Shares.Lock(ctx, searching)
	if err != nil {
		return hosterr.Wrap("wait for the search for links to shares", "", err)
	}
	defer unlock()
	if s.wasSearched(s.base.Node.Clock.Now()) {
		return nil
	}
	links, err := h.links()
	incomplete := errors.Is(err, smbapi.ErrIncomplete)
	if incomplete {
		s.base.Node.Log.Warn("Search for links to SMB shares was incomplete; every mapping of an earlier process counts as in use", "err", err)
	} else if err != nil {
		return hosterr.Wrap("search for links to shares", "", err)
	}
	for _, l := range links {
		if remote, err := ParseRemotePath(l.Remote); err == nil {
			s.addLink(remote.root(), l.Path, true)
		}
	}
	s.setSearched(s.base.Node.Clock.Now(), incomplete, len(links))
	return nil
}

// list lists the mappings. The first list after a search logs what the search found: a list at
// the start would load WMI into a process that may never need it.
func (s *SMB) list(h host) ([]smbapi.Mapping, error) {
	all, err := h.mappings()
	if err != nil || h.more == nil {
		return all, err
	}
	links, ok := s.toReport()
	if !ok {
		return all, nil
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
	s.base.Node.Log.Log(context.Background(), level, "Found SMB mappings", "mappings", len(all), "links", links, "withoutLinks", orphans)
	return all, nil
}

// A mapping whose removal was requested while links used it is removed when the filesystem
// service removes its last link. A timer checks for links that other programs removed.
const (
	sweepInterval = 30 * time.Second
	// sweepLimit is how long the removal of a link waits for the removal of its mapping.
	sweepLimit = 2 * time.Second
)

// sweepSoon sweeps the shares that had a link at or below path, which was removed. A long
// sweep continues after the caller has its response.
func (s *SMB) sweepSoon(ctx context.Context, path string) {
	roots := s.unwanted(path)
	if len(roots) == 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	rest := context.WithoutCancel(ctx)
	// sweep logs its errors.
	_ = service.Do(wait, s.base, nil, func(smbapi.HostAPI) error { s.sweep(rest, roots); return nil })
}

// sweepLater sweeps after an interval if a removal is pending, and again until none is.
func (s *SMB) sweepLater() {
	s.armTimer(func() {
		s.sweep(context.Background(), s.unwanted(""))
		s.sweepLater()
	})
}

// sweep removes the mappings of shares that are no longer used by a link, and logs errors.
// Shares do not wait for each other: each has an interval of its own.
func (s *SMB) sweep(ctx context.Context, roots []string) {
	var all sync.WaitGroup
	for _, root := range roots {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, sweepInterval)
			defer cancel()
			err := service.Do(ctx, s.base, nil, func(smbapi.HostAPI) error { return s.sweepOne(ctx, root) })
			if err != nil {
				s.base.Node.Log.Warn("Failed to remove an SMB mapping without links; it is tried again", "share", root, "err", err)
			}
		})
	}
	all.Wait()
}

func (s *SMB) sweepOne(ctx context.Context, root string) error {
	remote, err := ParseRemotePath(root)
	if err != nil {
		return err
	}
	c := &call{s: s, ctx: ctx, remote: remote, root: root, host: s.on(ctx, root)}
	return s.locked(ctx, remote.Server, nil, func() error {
		if !s.isUnwanted(root) { // mapped again in the meantime
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

// removeUnused removes the mapping unless a link uses it.
func (c *call) removeUnused() error {
	by, err := c.usedBy(c.root, "")
	if err != nil {
		return err
	}
	if by != "" {
		c.s.setUnwanted(c.root, true)
		c.s.sweepLater()
		c.s.base.Node.Log.Info("Keeping SMB mapping until its links are removed", "share", c.root, "link", by)
		return nil
	}
	return c.remove(c.root)
}
