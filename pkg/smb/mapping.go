package smb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// state is the state of the mapping of a share. The package comment has the state machine.
type state int

const (
	absent   state = iota
	works          // the share can be used
	doubtful       // the share can be used, although Windows says that the mapping does not work
	silent         // the share cannot be used, although Windows says so, for a reason that may pass
	broken         // the share cannot be used, and Windows says that the mapping does not work
	lost           // the server refuses the user of the mapping, or Windows has lost the credentials
	missing        // the server does not have the share
)

// owner says whose credentials a mapping has.
type owner int

const (
	own     owner = iota // those of the request
	maybe                // of the same user with another password or spelling, or of an unknown user
	foreign              // of another user
)

// use says which links use a mapping.
type use int

const (
	unused use = iota
	itself     // only the link of the request
	others     // another link
)

// action is what a request does about the mapping of its share.
type action int

const (
	add     action = iota // make the mapping
	keep                  // use the mapping as it is
	ask                   // ask the server whether it accepts the credentials
	adopt                 // keep the mapping, and know its credentials from now on
	replace               // make the mapping again with the credentials of the request
	deny                  // fail: links use the mapping, and it is another user's or requires too little
	fail                  // fail: the server does not accept the credentials, or the share cannot be used
)

// next is the state machine. enough says that the mapping requires what the call needs. It is
// called again with the answer of the server after ask.
func next(s state, o owner, u use, enough bool, a smbapi.Answer) action {
	alive := s == works || s == doubtful || s == silent // links work, or may work again
	switch {
	case s == absent:
		return add
	case s == missing:
		return fail
	case alive && (o == foreign && u == others || !enough && u != unused):
		return deny
	case s == works && o == own && enough:
		return keep
	case a == smbapi.Unasked:
		return ask
	case a == smbapi.Accepted && s == works && o == maybe && u != unused:
		return adopt
	case a == smbapi.Accepted:
		return replace
	case a != smbapi.CannotAsk: // refused, or there is no answer
		return fail
	}
	// The server cannot be asked. A mapping that works is kept if a link uses it, and one that
	// cannot work is replaced.
	switch {
	case s == lost, s != silent && s != broken && u == unused:
		return replace
	case s == silent, s == broken:
		return fail
	case o == foreign:
		return deny
	}
	return keep
}

// view is what a request sees of the mapping of its share.
type view struct {
	state  state
	owner  owner
	use    use
	enough bool // it requires what the call needs
	status smbapi.Status
	user   string // whose mapping it is, for messages
	by     string // another link that uses it, or ""
	failed error  // of a use of the share
}

// ensure makes sure that the share is mapped with the credentials of the call. fresh reports
// whether the share was not mapped before. linked says that the link of the call already
// exists, so programs may use the share through it.
func (c *call) ensure(linked bool) (fresh bool, err error) {
	v, err := c.look(linked)
	if err != nil {
		return false, err
	}
	do := next(v.state, v.owner, v.use, v.enough, smbapi.Unasked)
	if do == ask {
		if err := c.ask(); err != nil {
			return false, err
		}
		if c.answer == smbapi.Accepted && (v.state == silent || v.state == broken) { // the server may have come back since
			if v, err = c.look(linked); err != nil {
				return false, err
			}
		}
		do = next(v.state, v.owner, v.use, v.enough, c.answer)
	}
	switch do {
	case add:
		// A link without a mapping is left if another program removed the mapping, or an earlier
		// process ended before it made it again.
		by, err := c.usedBy(c.share, "")
		switch {
		case err != nil:
			return false, err
		case by != "":
			c.needs = c.needs.And(c.owed(true))
		case c.update:
			return false, hosterr.WithHint("update mapping of share", hosterr.Quote(c.share.String()), hosterr.Text(hosterr.ErrNotFound, "it is not mapped"), "map it with NewSmbGlobalMapping")
		}
		if err := c.add(); err != nil {
			return false, err
		}
		c.s.change(c.share, func(r *record) { r.new = true })
		return true, nil
	case adopt:
		c.adopt(v)
	case replace:
		return false, c.replace(v)
	case deny:
		if v.enough || v.owner == foreign {
			return false, c.conflict(c.share, v.user, v.by, "")
		}
		return false, c.unprotected()
	case fail:
		return false, c.failure(v)
	}
	return false, nil
}

// requires returns what the mapping of the share requires, and whether that is known.
func (c *call) requires() (has smbapi.Protection, known bool) {
	with, made := c.s.madeWith(c.share)
	for _, m := range c.listed {
		switch {
		case m.Share != c.share:
		case !m.RequiresUnknown:
			return m.Requires, true
		case m.User != "" && accountOf(m.User).name != with.name:
			made = false // another program has made the mapping again
		}
	}
	if made {
		return c.s.required(c.share)
	}
	return has, false
}

// inEffect reports whether this process made the mapping of a share with the credentials of the call.
func (c *call) inEffect(share winpath.Share) bool {
	with, ok := c.s.madeWith(share)
	return ok && with.account == c.as.account && with.mark == c.as.mark
}

// owed returns what the mapping must require when it is made again, for those that use it: what it
// required when this process knew it last, which is remembered in case that making it fails. If
// that is unknown, an update of a mapping that links use requires encryption, because a pod may have
// been promised it.
func (c *call) owed(used bool) smbapi.Protection {
	has, known := c.requires()
	if !known {
		has, known = c.s.required(c.share)
	}
	if known {
		c.s.change(c.share, func(r *record) { r.requires = &has })
	}
	if !known && used && c.update {
		c.s.base.Node.Log.Warn("Requiring encryption of an SMB mapping that links use, because it is unknown what it required", "share", c.share)
		has.Privacy = true
	}
	return has
}

// unprotected returns the error for a mapping that requires less than the call needs. Windows has no
// call that changes that, and making the mapping again would close the files of the links.
func (c *call) unprotected() error {
	what := "encryption"
	if !c.needs.Privacy {
		what = "signing"
	}
	is := "is mapped without required " + what
	if _, known := c.requires(); !known {
		is = "was mapped by another process, and Windows does not say whether it requires " + what
	}
	return hosterr.WithHint("map share", hosterr.Quote(c.share.String()),
		hosterr.Text(hosterr.ErrFailedPrecondition, "it %s, and links use it, so it was not changed", is),
		"try again when no volume on the node uses the share; csi-proxyctl smb list shows the links")
}

// ask asks the server, once, whether it accepts the credentials of the call. It returns an
// error only if the call has ended.
func (c *call) ask() error {
	if c.answer == smbapi.Unasked {
		c.answer, c.answerErr = c.host.Ask(c.share.Server(), c.as.user, c.password)
	}
	return c.ctx.Err()
}

// look looks at the mapping of the share, and uses it, which may make Windows connect it.
func (c *call) look(linked bool) (v view, err error) {
	m, err := c.mapping()
	if err != nil || m == nil {
		return view{state: absent}, err
	}
	v.failed = c.access(c.share.String())
	v.owner, v.user = c.owner(*m)
	// An update says of a mapping of which it is unknown that it is not in effect.
	has, known := c.requires()
	v.enough = known && has.Covers(c.needs) || !known && (c.update || c.needs == smbapi.Protection{})
	// The user may have no right to the root directory of the share.
	fine := func() bool {
		return v.owner == own && m.Status == smbapi.StatusOK && (v.failed == nil || smbapi.AccessDenied(v.failed))
	}
	if fine() && v.enough {
		return view{state: works, enough: true}, c.ctx.Err()
	}
	if v.by, err = c.usedBy(c.share, c.local); err != nil {
		return v, err
	}
	switch {
	case v.by != "":
		v.use = others
	case linked:
		v.use = itself
	}
	refused := smbapi.UserRefused(v.failed)
	if v.failed != nil && v.use != unused {
		// The user may have a right to a directory below the root, or the failure has passed.
		below := v.failed
		probe := func(path string, _ error) (more bool) {
			if link, ok, err := c.host.LinkAt(path); err == nil && ok {
				below = c.access(link.Target.String())
			}
			return smbapi.UserRefused(below)
		}
		if !linked || probe(c.local, nil) {
			if err := c.eachLink(c.share, map[string]bool{linkKey(c.local): linked}, true, probe); err != nil {
				return v, err
			}
		}
		refused = refused && smbapi.UserRefused(below)
		if below == nil || errors.Is(below, errNotFound) && !errors.Is(v.failed, errNotFound) {
			v.failed = nil
		}
	}
	if m.Status != smbapi.StatusOK {
		if m, err = c.settled(); err != nil || m == nil {
			return view{state: absent}, err
		}
		v.owner, v.user = c.owner(*m) // Windows may report it only now
		if v.failed != nil && m.Status == smbapi.StatusOK {
			v.failed = c.access(c.share.String())
		}
	}
	v.status = m.Status
	switch {
	case smbapi.NoShare(v.failed):
		v.state = missing
	case fine(), v.failed == nil && (v.status == smbapi.StatusOK || v.status.Connects() || c.update): // an update closes no files
		v.state = works
	case v.failed == nil:
		v.state = doubtful
	case refused:
		v.state = lost
	case v.status == smbapi.StatusOK:
		v.state = silent
	default:
		v.state = broken
	}
	return v, c.ctx.Err()
}

// mapping returns the mapping of the share, or nil.
func (c *call) mapping() (*smbapi.Mapping, error) {
	all, err := c.host.Mappings()
	if err != nil {
		return nil, err
	}
	c.listed = all
	for i := range all {
		if all[i].Share == c.share {
			return &all[i], nil
		}
	}
	return nil, nil
}

// connecting is how long Windows may take to connect a mapping.
var connecting = node.Pace{Pause: 100 * time.Millisecond, Longest: time.Second, Limit: 5 * time.Second}

// settled returns the mapping when Windows is not connecting it any more, or nil.
func (c *call) settled() (m *smbapi.Mapping, err error) {
	err = node.Poll(c.ctx, c.s.base.Node.Clock, connecting, func() (done bool, err error) {
		m, err = c.mapping()
		return err != nil || m == nil || !m.Status.Connects(), err
	})
	return m, err
}

var errNotFound = errors.New("the root directory of the share was not found")

// access returns the error of a use of a directory of the share, or nil.
func (c *call) access(path string) error {
	out, err := c.s.fs.PathValid(c.ctx, &filesystem.PathValidRequest{Path: path})
	if err == nil && !out.Valid {
		err = hosterr.Text(hosterr.ErrNotFound, "%w", errNotFound)
	}
	return err
}

// owner returns whose credentials a mapping has, and a text for that user. All mappings of a
// server have the same.
func (c *call) owner(m smbapi.Mapping) (owner, string) {
	have, known := c.s.credentials(m.Share.Server())
	reported := accountOf(m.User)
	if known && m.User != "" && have.name != reported.name {
		known = false // another program has made the mapping again
	}
	same, alike := have.account == c.as.account, have.mark == c.as.mark
	switch {
	case known && same && alike && c.update && !c.inEffect(m.Share):
		return maybe, userText(have.user)
	case known && same && alike:
		return own, userText(have.user)
	case known && (same || alike):
		return maybe, userText(have.user)
	case known:
		return foreign, userText(have.user)
	case m.User == "":
		return maybe, unknownUser
	case reported.maybe(c.as.account):
		return maybe, userText(m.User)
	}
	return foreign, userText(m.User)
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

// failure returns the error of a request that changes nothing: the server does not accept its
// credentials, or the share cannot be used.
func (c *call) failure(v view) error {
	why := "it cannot be verified"
	if c.answer == smbapi.Refused {
		why = "the server refuses it"
	}
	about, err, hint := "map share", c.answerErr, smbapi.HintCredentials(c.answerErr, c.as.user, c.password)
	switch {
	case v.failed != nil && c.answer != smbapi.Refused:
		about, hint = "reach share", "check the server and the share; the mapping is kept and works again when they do"
		if err == nil || errors.Is(v.failed, hosterr.ErrUnavailable) {
			err = v.failed // otherwise the server went away after the access
		}
	case errors.Is(err, hosterr.ErrUnavailable):
		hint = smbapi.HintServer
	case v.state == works && v.use == others:
		return c.conflict(c.share, v.user, v.by, fmt.Sprintf("%s: %v", why, err))
	}
	return hosterr.WithHint(about, hosterr.Quote(c.share.String()), err, hint)
}

// conflict returns the error for a mapping that has other credentials. by is a link that uses it, or
// "", and why is the reason for which a password of the same user was not accepted. The error does not
// name the links, which are of other drivers.
func (c *call) conflict(share winpath.Share, user, by, why string) error {
	what := fmt.Sprintf("server %q: share %s is mapped for %s", c.share.Server(), share, user)
	if by != "" {
		what += ", and in use by " + c.links(share)
		c.s.base.Node.Log.Info("Keeping SMB mapping for the links that use it", "share", share, "link", by)
	}
	hint := "a node can use an SMB server with one user only: use the same credentials, or remove the other mapping when nothing uses it; csi-proxyctl smb list shows the links"
	switch {
	case why == "":
		what += fmt.Sprintf("; Windows allows one user at a time for each server, and this request is for %s", userText(c.as.user))
	case user != unknownUser && !strings.EqualFold(user, userText(c.as.user)):
		what += fmt.Sprintf("; this request is for %s with the same password, and %s", userText(c.as.user), why)
	default:
		what += fmt.Sprintf("; this request has another password for %s, and %s", user, why)
		hint = "check the password in the volume's secret; -smb-accept-unverified-passwords accepts one that cannot be verified"
	}
	return hosterr.WithHint("map share", hosterr.Quote(c.share.String()), hosterr.Text(hosterr.ErrFailedPrecondition, "%s", what), hint)
}

// adopt records the credentials of the call, which the server has accepted, as those that later
// requests are compared with. The session of the mapping goes on, and Windows begins the next with
// those that it was made with. The user of the mapping stays as it is: a known one with its
// spelling, and an unknown one unknown, because the server accepts several.
func (c *call) adopt(v view) {
	have, known := c.s.credentials(c.share.Server())
	if v.user == unknownUser || known && have.account != c.as.account {
		return
	}
	c.s.base.Node.Log.Info("Accepted new credentials for an SMB mapping in use", "share", c.share, "user", c.as.user)
	c.s.accepted(c.share, c.as)
}

// add maps the share.
func (c *call) add() error {
	var requires smbapi.Protection
	add := func() (err error) {
		requires, err = c.host.MapShare(c.share.String(), c.as.user, c.password, c.needs)
		return err
	}
	err := add()
	switch {
	case smbapi.CredentialConflict(err):
		var removed int
		if removed, err = c.removeRivals(); err == nil && removed == 0 {
			err = hosterr.WithHint("map share", hosterr.Quote(c.share.String()),
				hosterr.Text(hosterr.ErrFailedPrecondition, "Windows has a session with server %q that is not for %s, or has another password", c.share.Server(), userText(c.as.user)),
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
	c.s.mapped(c.share, c.as, requires)
	c.s.base.Node.Log.Info("Mapped SMB share", "share", c.share, "user", c.as.user)
	return nil
}

// unexplained finds out why Windows did not map the share without giving a reason, as failed
// says. It asks the server, and maps the share again with add if mappings of other users
// were in the way.
func (c *call) unexplained(failed error, add func() error) error {
	if err := c.ask(); err != nil {
		return err
	}
	fail := func(err error, hint string) error {
		return hosterr.WithHint("map share", hosterr.Quote(c.share.String()), err, hint)
	}
	switch {
	case c.answer == smbapi.Refused:
		return fail(c.answerErr, smbapi.HintCredentials(c.answerErr, c.as.user, c.password))
	case errors.Is(c.answerErr, hosterr.ErrUnavailable):
		return fail(c.answerErr, smbapi.HintServer)
	}
	if err := c.access(c.share.String()); smbapi.NoShare(err) || errors.Is(err, hosterr.ErrUnavailable) {
		return fail(err, smbapi.HintServer)
	}
	removed, err := c.removeRivals()
	if err != nil {
		return err
	}
	if removed > 0 {
		if failed = add(); failed == nil {
			return nil
		}
	}
	if c.answer == smbapi.Accepted {
		failed = hosterr.Text(hosterr.ErrPermissionDenied, "Windows did not say why; the server has the share and accepts the credentials: %w", failed)
	}
	return fail(failed, smbapi.HintRights(c.needs)+"; or another user is connected to the server: run net use on the node")
}

// removeRivals removes the [call.rivals] of the call, if the server accepts its credentials. It
// returns how many, or an error for a mapping that it must not remove.
func (c *call) removeRivals() (removed int, err error) {
	if c.listed, err = c.host.Mappings(); err != nil {
		return 0, err
	}
	rivals, err := c.rivals(true, false)
	if err != nil || len(rivals) == 0 {
		return 0, err
	}
	if err := c.ask(); err != nil {
		return 0, err
	}
	if c.answerErr != nil {
		return 0, c.failure(view{})
	}
	for _, share := range rivals {
		c.s.base.Node.Log.Info("Removing an unused SMB mapping, because another user needs its server", "share", share)
		if err := c.remove(share); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// rivals returns the mappings of other shares of the server that have another user and can be
// removed, because no link uses them, and they do not work or were made by this process. It
// returns an error for one that must not be removed.
//
// refused says that Windows has refused the user of the call. Before, one with the same name is
// none, as CORP\ann may be ann@example.com, and one with an unknown user only if cautious is
// set, and it works and is used.
func (c *call) rivals(refused, cautious bool) (rivals []winpath.Share, err error) {
	for _, m := range c.listed {
		if m.Share == c.share || m.Share.Server() != c.share.Server() {
			continue
		}
		o, user := c.owner(m)
		unknown := user == unknownUser
		switch {
		case o == own, unknown && !refused && !(cautious && m.Status == smbapi.StatusOK):
			continue
		case !unknown && !refused && o == maybe:
			continue
		}
		by, err := c.usedBy(m.Share, "")
		switch {
		case err != nil:
			return nil, err
		case unknown && !refused && by == "":
			continue
		case by != "" || m.Status == smbapi.StatusOK && !c.s.made(m.Share):
			return nil, c.conflict(m.Share, user, by, "")
		}
		rivals = append(rivals, m.Share)
	}
	return rivals, nil
}

// replace makes the mapping again. It keeps what it required, and if it cannot have more, it is
// made without: programs use it, also by the UNC path of the share. Links stay. Once begun it
// continues to its end even if the caller leaves, because half of it would leave the share
// unmapped. It does not begin if Windows would refuse the user because of another share of the
// server.
func (c *call) replace(v view) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if _, err := c.rivals(false, v.state == silent && v.use == others); err != nil {
		return err
	}
	reason := "broken"
	if v.state == works {
		reason = "credentials or protection"
	}
	c.s.base.Node.Log.Info("Replacing SMB mapping", "share", c.share, "reason", reason, "status", v.status)
	whole := *c
	whole.ctx = context.WithoutCancel(c.ctx)
	whole.host = c.s.on(whole.ctx, c.share)
	owed, unwanted := c.owed(v.use != unused), slices.Contains(c.s.unwanted(""), c.share)
	whole.needs = c.needs.And(owed)
	if err := whole.remove(c.share); err != nil {
		return err
	}
	if unwanted { // until a request for it succeeds
		c.s.change(c.share, func(r *record) { r.unwanted = true })
		c.s.sweepLater()
	}
	err := whole.add()
	if err == nil || whole.needs == owed {
		return err
	}
	whole.needs = owed
	if again := whole.add(); again != nil {
		c.s.base.Node.Log.Warn("Failed to make an SMB mapping again as it was", "share", c.share, "err", again)
	}
	return err
}

// removal is the prefix of the keys of locks under which a share's mapping is removed. The
// locks of servers do not do: a server can have several names.
const removal = "\x00removal "

// remove removes a mapping. It succeeds if there is none.
func (c *call) remove(share winpath.Share) error {
	unlock, err := c.s.base.Node.Locks.Shares.Lock(c.ctx, removal+share.String())
	if err != nil {
		return err
	}
	defer unlock()
	err = c.host.api.RemoveSMBGlobalMapping(share.String())
	if err != nil && !errors.Is(err, hosterr.ErrNotFound) {
		return err
	}
	c.s.removed(share)
	if err == nil {
		c.s.base.Node.Log.Info("Removed SMB mapping", "share", share)
	}
	return nil
}
