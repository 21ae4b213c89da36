package api

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const (
	// The first and the longest pause between retries while the initiator is busy, because a
	// session is being made or ended, and the sum of all pauses.
	busyPause   = 20 * time.Millisecond
	longestBusy = time.Second
	busyLimit   = 4 * time.Second
	// arrivalPoll and arrivalLimit limit the wait for the disks of a login. arrivalPoll does
	// not begin shorter, because disks that arrive one after the other must not look like
	// all of them. It is not an error if none arrive: a target may have no disks.
	arrivalPoll  = 250 * time.Millisecond
	arrivalLimit = 10 * time.Second
)

// initiatorError adds the kind to an error of the initiator.
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
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "start it with sc.exe start MSiSCSI, or with StartService of the system API",
		"the service MSiSCSI does not respond: %w", err)
}

// busy reports whether err says that a session or device is temporarily busy.
func busy(err error) bool {
	return errors.Is(err, win32.ISDSC_SESSION_BUSY) || errors.Is(err, win32.ISDSC_DEVICE_BUSY_ON_SESSION)
}

// retryBusy repeats a call while the initiator is busy.
func (i ISCSIAPI) retryBusy(call func() error) error {
	left := busyLimit
	return i.host.Poll(node.Pace{Pause: busyPause, Longest: longestBusy, Left: &left}, func() (bool, error) {
		err := call()
		return !busy(err), err
	})
}

// registered returns the registrations of a portal. Windows has one for each adapter that
// it was registered for.
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

// mustBeRegistered is like registered, and fails if there is no registration.
func (i ISCSIAPI) mustBeRegistered(p TargetPortal) ([]win32.ISCSISendTargetPortal, error) {
	found, err := i.registered(p)
	if err == nil && len(found) == 0 {
		err = hosterr.TextWithHint(hosterr.ErrNotFound, "register it with AddTargetPortal", "target portal %s is not registered: %w", p, hosterr.ErrNotFound)
	}
	return found, err
}

// AddTargetPortal implements [HostAPI].
func (i ISCSIAPI) AddTargetPortal(portal *TargetPortal) error {
	p, err := portal.Check()
	if err != nil {
		return err
	}
	if found, err := i.registered(p); err != nil || len(found) > 0 {
		return err
	}
	err = i.inPart(i.host.Node.API.AddIScsiSendTargetPortal(p.win32()))
	if errors.Is(err, win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS) {
		return nil // another program was faster
	}
	return initiatorError(err)
}

// inPart returns the error of an operation for all initiators of the node, such as host bus
// adapters. One that succeeded for some of them is a success.
func (i ISCSIAPI) inPart(err error) error {
	if errors.Is(err, win32.ISDSC_OPERATION_NOT_ALL_SUCCESS) {
		i.host.Node.Log.Warn("Not every iSCSI initiator of the node has succeeded", "err", err)
		return nil
	}
	return err
}

// ListTargetPortals implements [HostAPI].
func (i ISCSIAPI) ListTargetPortals() ([]TargetPortal, error) {
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

// DiscoverTargetPortal implements [HostAPI]. It queries the portal, so it finds new targets.
func (i ISCSIAPI) DiscoverTargetPortal(portal *TargetPortal) ([]string, error) {
	p, err := portal.Check()
	if err != nil {
		return nil, err
	}
	found, err := i.mustBeRegistered(p)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if err := i.inPart(i.host.Node.API.RefreshIScsiSendTargetPortal(r)); err != nil {
			return nil, initiatorError(err)
		}
	}
	return i.targetsAt(p)
}

// targetsAt returns the targets that were discovered at a portal.
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
		ok, err := i.discoveredAt(p, iqn)
		if err != nil {
			return nil, err
		}
		if ok {
			iqns = append(iqns, iqn)
		}
	}
	return iqns, nil
}

// discoveredAt reports whether the initiator discovered a target at a portal. The text of
// Windows' discovery mechanisms is not documented. If it cannot be parsed, discoveredAt uses
// the portals of the target.
func (i ISCSIAPI) discoveredAt(p TargetPortal, iqn string) (bool, error) {
	texts, err := i.host.Node.API.IScsiTargetDiscovery(iqn)
	if err != nil && !isNotFound(err) {
		return false, initiatorError(err)
	}
	parsed := false
	for _, text := range texts {
		address, port, ok := parseMechanism(text)
		if !ok {
			continue
		}
		parsed = true
		if p.is(address, port) {
			return true, nil
		}
	}
	if parsed || err != nil {
		return false, nil
	}
	portals, err := i.host.Node.API.ReportIScsiTargetPortals(iqn)
	if err != nil && !isNotFound(err) {
		return false, initiatorError(err)
	}
	return slices.ContainsFunc(portals, func(w win32.ISCSIPortal) bool { return p.is(w.Address, w.Socket) }), nil
}

// isNotFound reports whether err says that the initiator no longer knows a target.
func isNotFound(err error) bool {
	return errors.Is(err, win32.ISDSC_TARGET_NOT_FOUND) || errors.Is(err, win32.ISDSC_NOT_FOUND) || errors.Is(err, win32.ISDSC_TARGET_REMOVED)
}

// parseMechanism parses a discovery mechanism such as
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

// known returns an error if a target was not discovered at a registered portal.
func (i ISCSIAPI) known(p TargetPortal, iqn string) error {
	if _, err := i.mustBeRegistered(p); err != nil {
		return err
	}
	iqns, err := i.host.Node.API.ReportIScsiTargets(false)
	if err != nil {
		return initiatorError(err)
	}
	if slices.ContainsFunc(iqns, func(have string) bool { return strings.EqualFold(have, iqn) }) {
		ok, err := i.discoveredAt(p, iqn)
		if ok || err != nil {
			return err
		}
	}
	return hosterr.TextWithHint(hosterr.ErrNotFound, "check the IQN, and query the portal again with DiscoverTargetPortal",
		"this target was not discovered at target portal %s: %w", p, hosterr.ErrNotFound)
}

// Sessions returns all sessions of the initiator.
func (i ISCSIAPI) Sessions() ([]Session, error) {
	all, err := i.allSessions()
	var list []Session
	for _, s := range all {
		session := Session{ID: s.ID.String(), IQN: s.TargetName, id: s.ID}
		for _, c := range s.Connections {
			session.Portals = append(session.Portals, TargetPortal{c.TargetAddress, uint32(c.TargetSocket)})
		}
		list = append(list, session)
	}
	return list, hosterr.Wrap("list iSCSI sessions", "", err)
}

// DisksOf returns the numbers of the disks of a session that Sessions returned. A disk that has
// no number yet is left out. It fails with hosterr.ErrNotFound if the session has ended.
func (i ISCSIAPI) DisksOf(s Session) ([]uint32, error) {
	if err := i.host.Ready(); err != nil {
		return nil, err
	}
	disks, err := i.disksOf(s.id)
	if ended(err) {
		err = hosterr.Text(hosterr.ErrNotFound, "%w", err)
	}
	return disks, hosterr.Wrap("list disks of iSCSI session", s.ID, err)
}

func (i ISCSIAPI) allSessions() ([]win32.ISCSISession, error) {
	if err := i.host.Ready(); err != nil {
		return nil, err
	}
	all, err := i.host.Node.API.GetIScsiSessionList()
	return all, initiatorError(err)
}

// sessions returns the sessions of a target.
func (i ISCSIAPI) sessions(iqn string) ([]win32.ISCSISession, error) {
	all, err := i.allSessions()
	return slices.DeleteFunc(all, func(s win32.ISCSISession) bool { return !strings.EqualFold(s.TargetName, iqn) }), err
}

// throughPortal returns the session through a portal, or the portals of the other sessions.
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

// ConnectTarget implements [HostAPI]. It succeeds if there is a session through the portal,
// with any credentials, and fails if there are only sessions through other portals.
func (i ISCSIAPI) ConnectTarget(portal *TargetPortal, iqn, authType, chapUser, chapSecret string) error {
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
	return hosterr.Text(hosterr.ErrUnavailable, "other programs connect and disconnect the target at the same time; try again: %w", err)
}

// rounds is how often a login is tried if other programs end its session.
const rounds = 3

// ended reports whether err says that a session no longer exists.
func ended(err error) bool { return errors.Is(err, win32.ISDSC_INVALID_SESSION_ID) }

// login makes sure that there is a session through p. The session may end before login returns.
func (i ISCSIAPI) login(p TargetPortal, iqn string, login win32.ISCSILogin) error {
	sessions, err := i.sessions(iqn)
	if err != nil {
		return err
	}
	if s, _ := throughPortal(p, sessions); s != nil {
		return i.awaitDisks(s.ID)
	}
	if err := reconnecting(sessions); err != nil {
		return err
	}
	if err := i.known(p, iqn); err != nil {
		return err
	}
	var id win32.ISCSISessionID
	err = i.retryBusy(func() (err error) {
		id, err = i.host.Node.API.LoginIScsiTarget(iqn, p.win32(), login)
		return err
	})
	switch {
	case errors.Is(err, win32.ISDSC_TARGET_ALREADY_LOGGED_IN):
		return i.loggedInAlready(p, iqn)
	case errors.Is(err, win32.ISDSC_AUTHENTICATION_FAILURE):
		hint := "check the CHAP user name and secret of the target"
		if login.AuthType == win32.ISCSI_NO_AUTH_TYPE {
			hint = "the target requires CHAP"
		} else if login.AuthType == win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE {
			hint += ", and the secret of SetMutualChapSecret, which is the same for all targets of a node"
		}
		return hosterr.TextWithHint(hosterr.ErrPermissionDenied, hint, "%w", err)
	case err != nil:
		return initiatorError(err)
	}
	return i.awaitDisks(id)
}

// reconnecting returns an error if a target has sessions, and none of them has a connection:
// the target is away, and Windows connects it again by itself.
func reconnecting(sessions []win32.ISCSISession) error {
	if len(sessions) == 0 || slices.ContainsFunc(sessions, func(s win32.ISCSISession) bool { return len(s.Connections) > 0 }) {
		return nil
	}
	return hosterr.TextWithHint(hosterr.ErrUnavailable, "check that the node reaches the target's portal; nothing else is needed",
		"the session with the target has no connection, and Windows is reconnecting it")
}

// loggedInAlready handles Windows' error that the target is logged in: another program has
// just made the session, or it goes through another portal.
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
		return win32.ISDSC_INVALID_SESSION_ID // the session has ended in the meantime
	}
	if err := reconnecting(sessions); err != nil {
		return err
	}
	if _, ip := ipAddress(p.Address); !ip {
		// Sessions have the addresses of their portals, so a host name cannot be compared.
		// Assume that the existing session goes through this portal.
		return i.awaitDisks(sessions[0].ID)
	}
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "use that portal, or call DisconnectTarget first",
		"the target is connected through another portal: %s: %w", strings.Join(others, ", "), win32.ISDSC_TARGET_ALREADY_LOGGED_IN)
}

// loginOf returns the parameters of a login. Without authentication it ignores the user name
// and the secret.
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
	if err := checkSecret("CHAP secret", secret); err != nil {
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

// awaitDisks waits for the disks of a session, because drivers look for them next: until
// there are disks and their number no longer changes.
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
		i.host.Node.Log.Warn("Connected an iSCSI target, but its disks have not all arrived", "session", session.String(), "disks", last, "waited", arrivalLimit)
	}
	return err
}

// disksOf returns the numbers of a session's disks.
func (i ISCSIAPI) disksOf(session win32.ISCSISessionID) ([]uint32, error) {
	var devices []win32.ISCSIDevice
	err := i.retryBusy(func() (err error) {
		devices, err = i.host.Node.API.GetDevicesForIScsiSession(session)
		return err
	})
	if err != nil {
		return nil, initiatorError(err)
	}
	var disks []uint32
	for _, d := range devices {
		// A device that is not ready yet has no number.
		if d.Interface == win32.GUID_DEVINTERFACE_DISK && d.Number.DeviceType == win32.FILE_DEVICE_DISK && d.Number.DeviceNumber != ^uint32(0) {
			disks = append(disks, d.Number.DeviceNumber)
		}
	}
	return disks, nil
}

// DisconnectTarget implements [HostAPI]. It disconnects the target even if the portal was
// removed.
func (i ISCSIAPI) DisconnectTarget(portal *TargetPortal, iqn string) error {
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
	for _, s := range sessions {
		if err := i.unneeded(s); err != nil {
			return err
		}
	}
	// Persistent logins first, because Windows would log in again.
	for _, l := range persistent {
		if err := i.host.Node.API.RemoveIScsiPersistentTarget(l); err != nil && !isNotFound(err) {
			return fmt.Errorf("persistent login: %w", initiatorError(err))
		}
	}
	for _, s := range sessions {
		if err := i.host.Ctx.Err(); err != nil {
			return err
		}
		err := i.retryBusy(func() error { return i.host.Node.API.LogoutIScsiTarget(s.ID) })
		if errors.Is(err, win32.ISDSC_DEVICE_BUSY_ON_SESSION) {
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "unmount the volumes on its disks, or take the disks offline", "session %s: %w", s.ID, err)
		}
		if err != nil && !ended(err) {
			return fmt.Errorf("session %s: %w", s.ID, initiatorError(err))
		}
	}
	return nil
}

// unneeded returns an error if a volume on a disk of the session is mounted in a folder, or
// if the node itself needs the disk: Windows may end the session of such a disk, and what is
// in the cache of the volume is lost. A session that does not say which disks it has, as when
// the portal is gone, can be ended.
func (i ISCSIAPI) unneeded(s win32.ISCSISession) error {
	disks, err := i.disksOf(s.ID)
	if err != nil {
		if ended := i.host.Ctx.Err(); ended != nil {
			return ended
		}
		i.host.Node.Log.Warn("Cannot check whether disks of an iSCSI session are mounted", "session", s.ID.String(), "target", s.TargetName, "err", err)
		return nil
	}
	for _, disk := range disks {
		folders, err := i.mountedAt(disk)
		if err != nil {
			return fmt.Errorf("disk %d: %w", disk, err)
		}
		if len(folders) > 0 {
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "unmount it first; if the folder is gone, mountvol /R makes Windows forget it",
				"session %s: a volume of disk %d is mounted at %s", s.ID, disk, strings.Join(folders, ", "))
		}
		if err := i.guard(disk); err != nil {
			return fmt.Errorf("session %s: %w", s.ID, err)
		}
		storage.FormatsEnd(i.host.Node, disk)
	}
	return nil
}

// mountedAt returns the folders in which volumes of a disk are mounted: all that the mount
// manager has, but for those that exist and are not the volume's mount point any longer. One
// that does not exist may have moved with a directory above it, and still be a mount point.
//
// Containers can change what is above a folder, so it is looked at as package winfs does,
// which leaves neither the working directories nor the node.
func (i ISCSIAPI) mountedAt(disk uint32) (paths []string, err error) {
	folders, err := storage.Folders(i.host.Ctx, i.host.Node, disk)
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		link, is, err := winfs.Readlink(i.host.Ctx, i.host.Node, f.Path)
		if ended := i.host.Ctx.Err(); ended != nil {
			return nil, ended
		}
		if err != nil || is && strings.EqualFold(link.Volume, f.Volume) {
			paths = append(paths, f.Path)
		}
	}
	return paths, nil
}

// guard returns an error if the node needs the disk. One whose partition table cannot be
// read, because its storage does not respond, is not needed by a node that still runs.
func (i ISCSIAPI) guard(number uint32) error {
	disk, err := storage.OpenDisk(i.host.Ctx, i.host.Node, number, storage.Query)
	if err == nil {
		defer disk.Close()
		var l win32.Layout
		if l, err = disk.Layout(i.host.Ctx); err == nil {
			err = storage.GuardRemoval(i.host.Ctx, disk, l)
			if errors.Is(err, hosterr.ErrFailedPrecondition) {
				return err
			}
		}
	}
	if ended := i.host.Ctx.Err(); ended != nil {
		return ended
	}
	if err != nil {
		i.host.Node.Log.Warn("Cannot check whether the node needs a disk of an iSCSI session", "disk", number, "err", err)
	}
	return nil
}

// GetTargetDisks implements [HostAPI]. The numbers are sorted and unique.
func (i ISCSIAPI) GetTargetDisks(portal *TargetPortal, iqn string) ([]string, error) {
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
	if err := i.host.Ready(); err != nil {
		return err
	}
	if err := checkSecret("mutual CHAP secret", mutualChapSecret); err != nil {
		return err
	}
	return initiatorError(i.host.Node.API.SetIScsiInitiatorCHAPSharedSecret(win32.NewSecret(mutualChapSecret)))
}
