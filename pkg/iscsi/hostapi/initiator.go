package api

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const (
	// busyAttempts and busyPause are for what the initiator is busy with: a
	// session that is being set up or taken down.
	busyAttempts = 5
	busyPause    = time.Second
	// arrivalPoll and arrivalLimit are for the disks of a login. A target may
	// have none, so that they do not come is no error.
	arrivalPoll  = 250 * time.Millisecond
	arrivalLimit = 10 * time.Second
)

// advice is an error with a hint, until named gives it an operation.
type advice struct {
	error
	hint string
}

func (a *advice) Unwrap() error { return a.error }

// named says of which operation on what err is the error.
func named(op, target string, err error) error {
	var a *advice
	if errors.As(err, &a) {
		return hosterr.WithHint(op, target, err, a.hint)
	}
	return hosterr.Wrap(op, target, err)
}

func through(iqn string, p *TargetPortal) string {
	if p == nil {
		return hosterr.Quote(shortened(iqn))
	}
	return hosterr.Quote(shortened(iqn)) + " through " + shortened(p.String())
}

func portalText(p *TargetPortal) string {
	if p == nil {
		return ""
	}
	return shortened(p.String())
}

// initiatorError gives an error of the initiator its kind.
func initiatorError(err error) error {
	var s win32.ISCSIStatus
	if errors.As(err, &s) {
		switch s {
		case win32.ISDSC_SERVICE_NOT_RUNNING, win32.ISDSC_SERVICE_UNAVAILABLE, win32.ISDSC_SERVICE_DID_NOT_RESPOND:
			return serviceDown(err)
		case win32.ISDSC_NOT_FOUND, win32.ISDSC_TARGET_NOT_FOUND, win32.ISDSC_TARGET_REMOVED, win32.ISDSC_PORTAL_NOT_FOUND:
			return hosterr.Text(hosterr.ErrNotFound, "%w", err)
		case win32.ISDSC_AUTHENTICATION_FAILURE, win32.ISDSC_AUTHORIZATION_FAILURE:
			return hosterr.Text(hosterr.ErrPermissionDenied, "%w", err)
		case win32.ISDSC_LOGIN_USER_INFO_BAD:
			return hosterr.Text(hosterr.ErrInvalid, "%w", err)
		case win32.ISDSC_CONNECTION_FAILED, win32.ISDSC_TRANSPORT_ERROR, win32.ISDSC_SESSION_BUSY, win32.ISDSC_OUT_OF_RESOURCES:
			return hosterr.Text(hosterr.ErrUnavailable, "%w", err)
		}
		return err
	}
	if win32.IsCode(err, win32.RPC_S_SERVER_UNAVAILABLE, win32.RPC_S_UNKNOWN_IF, win32.ERROR_SERVICE_NOT_ACTIVE) {
		return serviceDown(err)
	}
	return err
}

func serviceDown(err error) error {
	return &advice{
		hosterr.Text(hosterr.ErrFailedPrecondition, "the service MSiSCSI does not answer: %w", err),
		"start it: StartService of the system API with the name MSiSCSI",
	}
}

// busy tells errors of a session or device that is occupied for a moment.
func busy(err error) bool {
	return errors.Is(err, win32.ISDSC_SESSION_BUSY) || errors.Is(err, win32.ISDSC_DEVICE_BUSY_ON_SESSION)
}

// patiently repeats what the initiator is too busy for.
func (i ISCSIAPI) patiently(call func() error) error {
	return i.host.Poll(node.Pace{Pause: busyPause, Tries: busyAttempts}, func() (bool, error) {
		err := call()
		return !busy(err), err
	})
}

// registered finds a portal among those that are registered. Windows has it
// once for each adapter that it was registered for.
func (i ISCSIAPI) registered(p TargetPortal) ([]win32.ISCSISendTargetPortal, error) {
	if err := i.host.Ready(); err != nil {
		return nil, err
	}
	all, err := i.host.Node.API.ReportIScsiSendTargetPortals()
	if err != nil {
		return nil, initiatorError(err)
	}
	return slices.DeleteFunc(all, func(r win32.ISCSISendTargetPortal) bool { return !p.is(r.Address, r.Socket) }), nil
}

// mustBeRegistered is registered for methods that need the portal.
func (i ISCSIAPI) mustBeRegistered(p TargetPortal) ([]win32.ISCSISendTargetPortal, error) {
	found, err := i.registered(p)
	if err == nil && len(found) == 0 {
		err = &advice{fmt.Errorf("target portal %s is not registered: %w", p, hosterr.ErrNotFound), "AddTargetPortal registers it"}
	}
	return found, err
}

// AddTargetPortal implements [HostAPI].
func (i ISCSIAPI) AddTargetPortal(portal *TargetPortal) error {
	return named("add target portal", portalText(portal), i.addTargetPortal(portal))
}

func (i ISCSIAPI) addTargetPortal(portal *TargetPortal) error {
	p, err := portal.Check()
	if err != nil {
		return err
	}
	if found, err := i.registered(p); err != nil || len(found) > 0 {
		return err
	}
	err = i.host.Node.API.AddIScsiSendTargetPortal(p.win32())
	if errors.Is(err, win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS) {
		return nil // somebody was faster
	}
	return initiatorError(err)
}

// ListTargetPortals implements [HostAPI].
func (i ISCSIAPI) ListTargetPortals() ([]TargetPortal, error) {
	list, err := i.listTargetPortals()
	return list, named("list target portals", "", err)
}

func (i ISCSIAPI) listTargetPortals() ([]TargetPortal, error) {
	if err := i.host.Ready(); err != nil {
		return nil, err
	}
	all, err := i.host.Node.API.ReportIScsiSendTargetPortals()
	if err != nil {
		return nil, initiatorError(err)
	}
	var list []TargetPortal
	for _, r := range all {
		if p := (TargetPortal{Address: r.Address, Port: uint32(r.Socket)}); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list, nil
}

// RemoveTargetPortal implements [HostAPI]. Sessions through the portal stay.
func (i ISCSIAPI) RemoveTargetPortal(portal *TargetPortal) error {
	return named("remove target portal", portalText(portal), i.removeTargetPortal(portal))
}

func (i ISCSIAPI) removeTargetPortal(portal *TargetPortal) error {
	p, err := portal.Check()
	if err != nil {
		return err
	}
	found, err := i.mustBeRegistered(p)
	if err != nil {
		return err
	}
	for _, r := range found {
		if err := i.host.Node.API.RemoveIScsiSendTargetPortal(r); err != nil && !errors.Is(err, win32.ISDSC_PORTAL_NOT_FOUND) {
			return initiatorError(err)
		}
	}
	return nil
}

// DiscoverTargetPortal implements [HostAPI]. The portal is asked, so targets
// that are new on it are found.
func (i ISCSIAPI) DiscoverTargetPortal(portal *TargetPortal) ([]string, error) {
	iqns, err := i.discoverTargetPortal(portal)
	return iqns, named("discover target portal", portalText(portal), err)
}

func (i ISCSIAPI) discoverTargetPortal(portal *TargetPortal) ([]string, error) {
	p, err := portal.Check()
	if err != nil {
		return nil, err
	}
	found, err := i.mustBeRegistered(p)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if err := i.host.Node.API.RefreshIScsiSendTargetPortal(r); err != nil {
			return nil, initiatorError(err)
		}
	}
	return i.targetsAt(p)
}

// targetsAt lists the targets that a portal has told of.
func (i ISCSIAPI) targetsAt(p TargetPortal) ([]string, error) {
	all, err := i.host.Node.API.ReportIScsiTargets(false)
	if err != nil {
		return nil, initiatorError(err)
	}
	var iqns []string
	for _, iqn := range all {
		if err := i.host.Ctx.Err(); err != nil {
			return nil, err
		}
		ok, err := i.toldBy(p, iqn)
		if err != nil {
			return nil, err
		}
		if ok {
			iqns = append(iqns, iqn)
		}
	}
	return iqns, nil
}

// toldBy tells whether the initiator knows a target by a portal's word. How
// Windows spells its discovery mechanisms is documented nowhere; where nothing
// can be read of them, the target's own portals have to do.
func (i ISCSIAPI) toldBy(p TargetPortal, iqn string) (bool, error) {
	texts, err := i.host.Node.API.IScsiTargetDiscovery(iqn)
	if err != nil && !isNotFound(err) {
		return false, initiatorError(err)
	}
	understood := false
	for _, text := range texts {
		address, port, ok := parseMechanism(text)
		if !ok {
			continue
		}
		understood = true
		if p.is(address, port) {
			return true, nil
		}
	}
	if understood || err != nil {
		return false, nil
	}
	portals, err := i.host.Node.API.ReportIScsiTargetPortals(iqn)
	if err != nil && !isNotFound(err) {
		return false, initiatorError(err)
	}
	return slices.ContainsFunc(portals, func(w win32.ISCSIPortal) bool { return p.is(w.Address, w.Socket) }), nil
}

// isNotFound tells that the initiator does not know a target any more.
func isNotFound(err error) bool {
	return errors.Is(err, win32.ISDSC_TARGET_NOT_FOUND) || errors.Is(err, win32.ISDSC_NOT_FOUND) || errors.Is(err, win32.ISDSC_TARGET_REMOVED)
}

// parseMechanism reads a discovery mechanism such as
// `SendTargets:*10.61.169.28 0003260 Root\ISCSIPRT\0000_0`.
func parseMechanism(text string) (address string, port uint16, ok bool) {
	const kind = "sendtargets:"
	if len(text) < len(kind) || !strings.EqualFold(text[:len(kind)], kind) {
		return "", 0, false
	}
	fields := strings.Fields(strings.TrimPrefix(text[len(kind):], "*"))
	if len(fields) < 2 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(fields[1], 10, 16)
	if err != nil || n == 0 {
		return "", 0, false
	}
	return fields[0], uint16(n), true
}

// known is nil if a registered portal has told of a target.
func (i ISCSIAPI) known(p TargetPortal, iqn string) error {
	if _, err := i.mustBeRegistered(p); err != nil {
		return err
	}
	iqns, err := i.host.Node.API.ReportIScsiTargets(false)
	if err != nil {
		return initiatorError(err)
	}
	if slices.ContainsFunc(iqns, func(have string) bool { return strings.EqualFold(have, iqn) }) {
		ok, err := i.toldBy(p, iqn)
		if ok || err != nil {
			return err
		}
	}
	return &advice{fmt.Errorf("target portal %s has not told of this target: %w", p, hosterr.ErrNotFound), "DiscoverTargetPortal asks it again"}
}

// sessions lists the sessions of a target.
func (i ISCSIAPI) sessions(iqn string) ([]win32.ISCSISession, error) {
	if err := i.host.Ready(); err != nil {
		return nil, err
	}
	all, err := i.host.Node.API.GetIScsiSessionList()
	if err != nil {
		return nil, initiatorError(err)
	}
	return slices.DeleteFunc(all, func(s win32.ISCSISession) bool { return !strings.EqualFold(s.TargetName, iqn) }), nil
}

// throughPortal finds the session that goes through a portal, and names the
// portals of the others.
func throughPortal(p TargetPortal, sessions []win32.ISCSISession) (found *win32.ISCSISession, others []string) {
	for n, s := range sessions {
		for _, c := range s.Connections {
			if p.is(c.TargetAddress, c.TargetSocket) {
				return &sessions[n], nil
			}
			others = append(others, TargetPortal{c.TargetAddress, uint32(c.TargetSocket)}.String())
		}
	}
	return nil, others
}

// ConnectTarget implements [HostAPI]. A session through the portal is success,
// whatever it was made with; one through another portal only is not.
func (i ISCSIAPI) ConnectTarget(portal *TargetPortal, iqn, authType, chapUser, chapSecret string) error {
	return named("connect target", through(iqn, portal), i.connectTarget(portal, iqn, authType, chapUser, chapSecret))
}

func (i ISCSIAPI) connectTarget(portal *TargetPortal, iqn, authType, chapUser, chapSecret string) error {
	p, err := portal.Check()
	if err != nil {
		return err
	}
	if err := CheckIQN(iqn); err != nil {
		return err
	}
	login, err := loginOf(authType, chapUser, chapSecret)
	if err != nil {
		return err
	}
	for range rounds {
		if err = i.login(p, iqn, login); !ended(err) {
			return err
		}
	}
	return hosterr.Text(hosterr.ErrUnavailable, "others connect and disconnect the target at the same time: %w", err)
}

// rounds bounds how often a login begins anew because somebody else has ended the
// session.
const rounds = 3

// ended tells that a session is no more.
func ended(err error) bool { return errors.Is(err, win32.ISDSC_INVALID_SESSION_ID) }

// login makes sure that there is a session through p. It may end before it returns.
func (i ISCSIAPI) login(p TargetPortal, iqn string, login win32.ISCSILogin) error {
	sessions, err := i.sessions(iqn)
	if err != nil {
		return err
	}
	if s, _ := throughPortal(p, sessions); s != nil {
		return i.awaitDisks(s.ID)
	}
	if err := i.known(p, iqn); err != nil {
		return err
	}
	var id win32.ISCSISessionID
	err = i.patiently(func() (err error) {
		id, err = i.host.Node.API.LoginIScsiTarget(iqn, p.win32(), login)
		return err
	})
	switch {
	case errors.Is(err, win32.ISDSC_TARGET_ALREADY_LOGGED_IN):
		return i.loggedInAlready(p, iqn)
	case errors.Is(err, win32.ISDSC_AUTHENTICATION_FAILURE):
		hint := "user name or secret are not those of the target"
		if login.AuthType == win32.ISCSI_NO_AUTH_TYPE {
			hint = "the target wants CHAP"
		} else if login.AuthType == win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE {
			hint += ", or the secret of SetMutualChapSecret, of which a node has one for all targets, is not the one that this target proves"
		}
		return &advice{initiatorError(err), hint}
	case err != nil:
		return initiatorError(err)
	}
	return i.awaitDisks(id)
}

// loggedInAlready judges what Windows means by it: a session that somebody made
// meanwhile, or one through another portal.
func (i ISCSIAPI) loggedInAlready(p TargetPortal, iqn string) error {
	sessions, err := i.sessions(iqn)
	if err != nil {
		return err
	}
	s, others := throughPortal(p, sessions)
	if s != nil {
		return i.awaitDisks(s.ID)
	}
	if len(sessions) == 0 {
		return win32.ISDSC_INVALID_SESSION_ID // it has ended since
	}
	if _, ip := ipAddress(p.Address); !ip {
		// Sessions name their portals by address, so that a host name cannot be
		// compared: the one that is there has to be it.
		return i.awaitDisks(sessions[0].ID)
	}
	return &advice{
		hosterr.Text(hosterr.ErrFailedPrecondition, "the target is connected through another portal: %s: %w", strings.Join(others, ", "), win32.ISDSC_TARGET_ALREADY_LOGGED_IN),
		"use that portal, or DisconnectTarget first",
	}
}

// loginOf is what a login says about itself. Where no authentication is asked
// for, nothing is passed of a user name and secret that were given.
func loginOf(authType, user, secret string) (win32.ISCSILogin, error) {
	var login win32.ISCSILogin
	switch authType {
	case "NONE":
		return login, nil
	case "ONEWAYCHAP":
		login.AuthType = win32.ISCSI_CHAP_AUTH_TYPE
	case "MUTUALCHAP":
		login.AuthType = win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE
	default:
		return login, hosterr.Text(hosterr.ErrInvalid, "authentication type %s: want NONE, ONEWAYCHAP or MUTUALCHAP", hosterr.Quote(shortened(authType)))
	}
	if err := CheckSecret("CHAP secret", secret); err != nil {
		return login, err
	}
	if err := checkUser(user); err != nil {
		return login, err
	}
	if user != "" { // without one, Windows uses the initiator's name
		login.User = &user
	}
	hidden := win32.NewSecret(secret)
	login.Password = &hidden
	return login, nil
}

// awaitDisks waits until a session has brought its disks: until there are some,
// and no more come from one look to the next. A driver looks for them next.
func (i ISCSIAPI) awaitDisks(session win32.ISCSISessionID) error {
	settled, last := false, -1
	err := i.host.Poll(node.Pace{Pause: arrivalPoll, Limit: arrivalLimit}, func() (bool, error) {
		disks, err := i.disksOf(session)
		if err != nil {
			return true, err
		}
		settled = len(disks) > 0 && len(disks) == last
		last = len(disks)
		return settled, nil
	})
	if err == nil && !settled {
		i.host.Node.Log.Warn("an iSCSI target is connected, and its disks are not all there", "session", session.String(), "disks", last, "waited", arrivalLimit)
	}
	return err
}

// disksOf lists the numbers of the disks of a session.
func (i ISCSIAPI) disksOf(session win32.ISCSISessionID) ([]uint32, error) {
	var devices []win32.ISCSIDevice
	err := i.patiently(func() (err error) {
		devices, err = i.host.Node.API.GetDevicesForIScsiSession(session)
		return err
	})
	if err != nil {
		return nil, initiatorError(err)
	}
	var disks []uint32
	for _, d := range devices {
		// A device that has not come up yet has no number.
		if d.Interface == win32.GUID_DEVINTERFACE_DISK && d.Number.DeviceType == win32.FILE_DEVICE_DISK && d.Number.DeviceNumber != ^uint32(0) {
			disks = append(disks, d.Number.DeviceNumber)
		}
	}
	return disks, nil
}

// DisconnectTarget implements [HostAPI]. It goes by the target: what is connected
// is disconnected even if its portal was removed.
func (i ISCSIAPI) DisconnectTarget(portal *TargetPortal, iqn string) error {
	return named("disconnect target", through(iqn, portal), i.disconnectTarget(portal, iqn))
}

func (i ISCSIAPI) disconnectTarget(portal *TargetPortal, iqn string) error {
	p, err := portal.Check()
	if err != nil {
		return err
	}
	if err := CheckIQN(iqn); err != nil {
		return err
	}
	sessions, err := i.sessions(iqn)
	if err != nil {
		return err
	}
	persistent, err := i.host.Node.API.ReportIScsiPersistentLogins()
	if err != nil {
		return initiatorError(err)
	}
	persistent = slices.DeleteFunc(persistent, func(l win32.ISCSIPersistentLogin) bool { return !strings.EqualFold(l.TargetName, iqn) })
	if len(sessions) == 0 && len(persistent) == 0 {
		return i.known(p, iqn)
	}
	// Persistent logins first: Windows would make the session again.
	for _, l := range persistent {
		if err := i.host.Node.API.RemoveIScsiPersistentTarget(l); err != nil && !isNotFound(err) {
			return fmt.Errorf("persistent login: %w", initiatorError(err))
		}
	}
	for _, s := range sessions {
		if err := i.host.Ctx.Err(); err != nil {
			return err
		}
		err := i.patiently(func() error { return i.host.Node.API.LogoutIScsiTarget(s.ID) })
		if errors.Is(err, win32.ISDSC_DEVICE_BUSY_ON_SESSION) {
			return &advice{hosterr.Text(hosterr.ErrFailedPrecondition, "session %s: %w", s.ID, err), "unmount the volumes on its disks, or take the disks offline"}
		}
		if err != nil && !ended(err) {
			return fmt.Errorf("session %s: %w", s.ID, initiatorError(err))
		}
	}
	return nil
}

// GetTargetDisks implements [HostAPI]. The numbers are in order, each once.
func (i ISCSIAPI) GetTargetDisks(portal *TargetPortal, iqn string) ([]string, error) {
	disks, err := i.getTargetDisks(portal, iqn)
	return disks, named("get disks of target", through(iqn, portal), err)
}

func (i ISCSIAPI) getTargetDisks(portal *TargetPortal, iqn string) ([]string, error) {
	p, err := portal.Check()
	if err != nil {
		return nil, err
	}
	if err := CheckIQN(iqn); err != nil {
		return nil, err
	}
	sessions, err := i.sessions(iqn)
	if err != nil {
		return nil, err
	}
	if len(sessions) == 0 {
		return nil, i.known(p, iqn)
	}
	var numbers []uint32
	for _, s := range sessions {
		disks, err := i.disksOf(s.ID)
		if ended(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, disks...)
	}
	slices.Sort(numbers)
	var texts []string
	for _, n := range slices.Compact(numbers) {
		texts = append(texts, strconv.FormatUint(uint64(n), 10))
	}
	return texts, nil
}

// SetMutualChapSecret implements [HostAPI].
func (i ISCSIAPI) SetMutualChapSecret(mutualChapSecret string) error {
	return named("set mutual CHAP secret", "", i.setMutualChapSecret(mutualChapSecret))
}

func (i ISCSIAPI) setMutualChapSecret(mutualChapSecret string) error {
	if err := i.host.Ready(); err != nil {
		return err
	}
	if err := CheckSecret("mutual CHAP secret", mutualChapSecret); err != nil {
		return err
	}
	return initiatorError(i.host.Node.API.SetIScsiInitiatorCHAPSharedSecret(win32.NewSecret(mutualChapSecret)))
}
