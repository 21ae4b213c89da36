package hunt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

const (
	iscsiService = "MSiSCSI"
	chapUser     = "hunter"
	chapSecret   = "secret of hunt"
)

// iscsiPortals are the addresses of the portals. The first target has both, and a disk with a
// volume. The other one has only the second portal. When a run begins, another program is
// connected to it, and its disk is foreign.
var (
	iscsiPortals = [2]string{"192.0.2.1", "192.0.2.2"}
	iscsiTargets = [2]struct {
		iqn, disk string
		portals   []int
	}{
		{"iqn.2026-01.com.example:data", "lun0", []int{0, 1}},
		{"iqn.2026-01.com.example:other", "foreign5", []int{1}},
	}
)

// iscsiMount is where the volume of the first target is mounted.
const iscsiMount = base + `\iscsi`

func iscsiPortal(p int) win32.ISCSIPortal {
	return win32.ISCSIPortal{Address: iscsiPortals[p], Socket: nodespec.ISCSIPort}
}

// iscsiTarget describes a target.
func iscsiTarget(t int) nodespec.ISCSITarget {
	lun := nodespec.Disk{ID: iscsiTargets[t].disk, Size: 64 * mib}
	c := nodespec.ISCSITarget{IQN: iscsiTargets[t].iqn, ArrivalDelay: nodespec.Duration(arrival)}
	if t == 0 {
		lun.Content, lun.Partitions = nodespec.ContentGPT, []nodespec.Partition{{FileSystem: "NTFS"}}
		c.CHAP = &nodespec.CHAP{User: chapUser, Secret: chapSecret}
	} else {
		lun.Bytes = []nodespec.Bytes{ext4}
	}
	for _, p := range iscsiTargets[t].portals {
		c.Portals = append(c.Portals, nodespec.ISCSIPortal{Address: iscsiPortals[p]})
	}
	c.LUNs = []nodespec.LUN{{Disk: lun}}
	return c
}

// iscsiObject is the iSCSI initiator: its service, portals, targets and sessions, and the
// volume of one target.
type iscsiObject struct {
	whole
	w       *world
	volume  string // its ID, once it was there
	lost    [2]bool
	numbers [2]int // of the disks, or -1
}

func (o *iscsiObject) name() string { return "iscsi" }

// login connects a target as another program does.
func (o *iscsiObject) login(t, p int) error {
	var in win32.ISCSILogin
	if t == 0 {
		user, secret := chapUser, win32.NewSecret(chapSecret)
		in = win32.ISCSILogin{AuthType: win32.ISCSI_CHAP_AUTH_TYPE, User: &user, Password: &secret}
	}
	_, err := o.w.m.LoginIScsiTarget(iscsiTargets[t].iqn, iscsiPortal(p), in)
	return err
}

func (o *iscsiObject) requests() []string {
	return []string{
		"Add0", "Add1", "Remove0", "Remove1", "Discover0", "Discover1", "Portals", "StartInitiator", "StopInitiator",
		"Connect00", "Connect00", "Connect01", "Connect11", "Wrong00", "Disconnect00", "Disconnect00", "Disconnect01", "Disconnect11",
		"Disks00", "Disks01", "Disks11", "Online", "Attach", "Release",
	}
}

func (o *iscsiObject) events() []string {
	return []string{
		"stop", "start", "vanish0", "back0", "vanish1", "back1", "forget0", "forget1", "persist0", "persist1",
		"login00", "login01", "login11", "drop0", "drop1", "lose0", "lose1",
	}
}

func (o *iscsiObject) learn() {
	if _, v := o.lun(o.w.show()); v != nil {
		o.volume = v.ID
	}
}

func (o *iscsiObject) useful() []string {
	info := o.w.show()
	target, _ := o.target(info, 0)
	lun, v := o.lun(info)
	switch {
	case o.status(info) != "running":
		return []string{"StartInitiator"}
	case target.State != nil && slices.Contains(target.State, "unreachable"):
		return []string{"back0", "Connect00", "Discover0"}
	case len(info.ISCSIPortals) == 0 || info.ISCSIPortals[0].Address != iscsiPortals[0]:
		return []string{"Add0"}
	case target.Session == "":
		return []string{"Connect00", "Connect00", "Connect01", "Discover0", "login00", "persist0"}
	case lun == nil:
		return []string{"Disks00", "Disconnect00"}
	case !lun.Online || v == nil:
		return []string{"Online", "Online", "Disconnect00"}
	case !o.mounted():
		return []string{"Attach", "Attach", "Attach", "Disks00", "Disconnect00", "drop0", "persist0"}
	}
	return []string{"Disconnect00", "Disconnect00", "Release", "Disks01", "Connect00", "StopInitiator", "drop0", "persist0"}
}

func (o *iscsiObject) status(info nodespec.State) string {
	for _, s := range info.Services {
		if s.Name == iscsiService {
			return s.Status
		}
	}
	return ""
}

// target returns a target, and the portal of its session or -1.
func (o *iscsiObject) target(info nodespec.State, t int) (target nodespec.ISCSITargetInfo, session int) {
	for _, have := range info.ISCSITargets {
		if have.IQN == iscsiTargets[t].iqn {
			target = have
		}
	}
	address, _, _ := strings.Cut(target.Through, ":")
	return target, slices.Index(iscsiPortals[:], address)
}

// lun returns the disk of the first target and its volume.
func (o *iscsiObject) lun(info nodespec.State) (*nodespec.DiskInfo, *nodespec.VolumeInfo) {
	own := diskObject{w: o.w, id: iscsiTargets[0].disk}
	return own.find(info)
}

// mounted reports whether the directory is a mount point.
func (o *iscsiObject) mounted() bool {
	files, err := o.w.m.Files(iscsiMount)
	return err == nil && len(files) > 0 && files[0].Link != nil
}

// holders returns the identities of disks by their numbers.
func (o *iscsiObject) holders() map[string]string {
	info, err := o.w.m.Show()
	if err != nil {
		return nil
	}
	ids := map[string]string{}
	for _, d := range info.Disks {
		ids[fmt.Sprint(d.Number)] = d.ID
	}
	return ids
}

func iscsiCall[In, Out any](do func(iscsi.Interface, context.Context, *In) (*Out, error), in *In, value func(*Out) string) call {
	return checked(func(p *process) iscsi.Interface { return p.ISCSI }, do, in, value)
}

// place returns the target and the portal of an operation from the digits at its end.
func place(at string) (t, p int) {
	switch len(at) {
	case 1:
		return int(at[0] - '0'), int(at[0] - '0')
	case 2:
		return int(at[0] - '0'), int(at[1] - '0')
	}
	return 0, 0
}

func (o *iscsiObject) prepare(op string) call {
	name, at := split(op)
	t, p := place(at)
	portal, iqn := &iscsi.TargetPortal{TargetAddress: iscsiPortals[p]}, iscsiTargets[t].iqn
	lun, _ := o.lun(o.w.show())
	switch name {
	case "Add":
		return iscsiCall(iscsi.Interface.AddTargetPortal, &iscsi.AddTargetPortalRequest{TargetPortal: portal}, nil)
	case "Remove":
		return iscsiCall(iscsi.Interface.RemoveTargetPortal, &iscsi.RemoveTargetPortalRequest{TargetPortal: portal}, nil)
	case "Discover":
		return iscsiCall(iscsi.Interface.DiscoverTargetPortal, &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal}, func(r *iscsi.DiscoverTargetPortalResponse) string {
			return "targets " + strings.Join(r.IQNs, " ")
		})
	case "Portals":
		return iscsiCall(iscsi.Interface.ListTargetPortals, &iscsi.ListTargetPortalsRequest{}, func(r *iscsi.ListTargetPortalsResponse) string {
			text := "portals"
			for _, p := range r.TargetPortals {
				text += " " + p.TargetAddress
			}
			return text
		})
	case "Connect", "Wrong":
		in := &iscsi.ConnectTargetRequest{TargetPortal: portal, IQN: iqn}
		if t == 0 {
			in.AuthType, in.ChapUsername, in.ChapSecret = iscsi.ONE_WAY_CHAP, chapUser, chapSecret
		}
		if name == "Wrong" {
			in.ChapSecret = "a wrong secret"
		}
		return iscsiCall(iscsi.Interface.ConnectTarget, in, nil)
	case "Disconnect":
		return iscsiCall(iscsi.Interface.DisconnectTarget, &iscsi.DisconnectTargetRequest{TargetPortal: portal, IQN: iqn}, nil)
	case "Disks":
		before := o.holders()
		return iscsiCall(iscsi.Interface.GetTargetDisks, &iscsi.GetTargetDisksRequest{TargetPortal: portal, IQN: iqn}, func(r *iscsi.GetTargetDisksResponse) string {
			after := o.holders()
			for _, n := range r.DiskIDs {
				if id := before[n]; id != "" && id != iscsiTargets[t].disk && after[n] == id {
					return fmt.Sprintf("%s, which is %s", n, id)
				}
			}
			return fmt.Sprint(len(r.DiskIDs))
		})
	case "StartInitiator":
		return systemCall(system.Interface.StartService, &system.StartServiceRequest{Name: iscsiService}, nil)
	case "StopInitiator":
		return systemCall(system.Interface.StopService, &system.StopServiceRequest{Name: iscsiService}, nil)
	case "Online":
		if lun == nil {
			return nil
		}
		n := lun.Number
		o.w.named = &n
		return diskCall(disk.Interface.SetDiskState, &disk.SetDiskStateRequest{DiskNumber: n, IsOnline: true}, nil)
	}
	if o.volume == "" {
		return nil
	}
	if name == "Attach" {
		return volumeCall(volume.Interface.MountVolume, &volume.MountVolumeRequest{VolumeID: o.volume, TargetPath: iscsiMount}, nil)
	}
	return volumeCall(volume.Interface.UnmountVolume, &volume.UnmountVolumeRequest{VolumeID: o.volume, TargetPath: iscsiMount}, nil)
}

func (o *iscsiObject) happen(what string) ([]operation, bool) {
	info := o.w.show()
	name, at := split(what)
	t, p := place(at)
	target, _ := o.target(info, t)
	there := !slices.Contains(target.State, "unreachable")
	event := operation{op: what}
	ok := true
	var err error
	switch name {
	case "stop":
		_, err = o.w.m.ControlService(iscsiService, win32.SERVICE_CONTROL_STOP)
	case "start":
		err = o.w.m.StartService(iscsiService)
	case "vanish", "back":
		if ok = there == (name == "vanish"); ok {
			c := iscsiTarget(t)
			c.Unreachable = name == "vanish"
			err = o.w.m.SetISCSITarget(c)
		}
	case "persist": // another program makes Windows log in at each start
		if ok = !slices.Contains(target.State, "persistent"); ok {
			c := iscsiTarget(t)
			c.Unreachable, c.Persistent = !there, true
			err = o.w.m.SetISCSITarget(c)
		}
	case "forget":
		err = o.w.m.RemoveIScsiSendTargetPortal(win32.ISCSISendTargetPortal{ISCSIPortal: iscsiPortal(p)})
	case "login":
		err = o.login(t, p)
	case "drop":
		var sessions []win32.ISCSISession
		sessions, err = o.w.m.GetIScsiSessionList()
		i := slices.IndexFunc(sessions, func(s win32.ISCSISession) bool { return s.TargetName == iscsiTargets[t].iqn })
		if ok = i >= 0; ok {
			err = o.w.m.LogoutIScsiTarget(sessions[i].ID)
		}
	case "lose": // the storage takes the disk away
		if ok = len(target.Disks) > 0; ok {
			err = o.w.m.Detach(target.Disks[0])
			o.lost[t] = o.lost[t] || err == nil
		}
	}
	if !ok || err != nil {
		return nil, false
	}
	o.w.landing = true
	if name == "start" || name == "stop" {
		info, _ := o.w.m.Show()
		event.value = o.status(info)
	}
	return []operation{event}, true
}

// land notes which numbers the disks of sessions got.
func (o *iscsiObject) land() {
	info := o.w.show()
	o.w.landing = o.status(info) == "start pending" // it then makes persistent logins
	for t := range iscsiTargets {
		target, session := o.target(info, t)
		if session < 0 {
			o.lost[t] = false
		}
		number := -1
		if len(target.Disks) > 0 {
			number = int(target.Disks[0])
		}
		if number >= 0 && number != o.numbers[t] {
			o.w.s.takes(o, target.Disks[0])
		}
		o.numbers[t] = number
		if number < 0 && session >= 0 && !o.lost[t] {
			o.w.landing = true
		}
	}
}

func (o *iscsiObject) restarted(reboot bool) []operation {
	o.w.landing = true
	return ifReboot(reboot)
}

func (o *iscsiObject) observe() []operation {
	info := o.w.show()
	text := o.status(info) + "; portals"
	for _, p := range info.ISCSIPortals {
		text += " " + p.Address
	}
	for t := range iscsiTargets {
		target, session := o.target(info, t)
		text += fmt.Sprintf("; session %d disks %d", session, len(target.Disks))
	}
	return []operation{{op: "observe", value: fmt.Sprintf("%s; mounted %t", text, o.mounted())}}
}

// iscsiState is the state of the initiator.
type iscsiState struct {
	service string  // "running", "stopped" or "moving"
	portals [2]bool // registered
	targets [2]targetState
	mounted bool
	ready   bool // the volume of the first target is there for sure
	held    bool // and it is mounted
}

// targetState is the state of a target on the node.
type targetState struct {
	known      [2]bool // when a portal was last asked, it had the target
	there      bool
	session    int // its portal, or -1
	disk       int // 0: it may have arrived, 1: it has, 2: it is lost
	persistent bool
}

func (o *iscsiObject) parts() []string              { return []string{""} }
func (o *iscsiObject) about(string, operation) bool { return true }
func (o *iscsiObject) first(string) any {
	return iscsiState{
		service: "running", portals: [2]bool{false, true},
		targets: [2]targetState{{known: [2]bool{false, true}, there: true, session: -1}, {known: [2]bool{false, true}, there: true, session: 1, disk: 1}},
	}
}

// hasPortal reports whether a target has a portal.
func hasPortal(t, p int) bool { return slices.Contains(iscsiTargets[t].portals, p) }

// ask returns the state after the initiator has asked a portal for its targets.
func (s iscsiState) ask(p int) iscsiState {
	s.portals[p] = true
	for t := range s.targets {
		s.targets[t].known[p] = s.targets[t].there && hasPortal(t, p)
	}
	return s
}

// forget returns the state without a portal.
func (s iscsiState) forget(p int) iscsiState {
	s.portals[p] = false
	for t := range s.targets {
		s.targets[t].known[p] = false
	}
	return s
}

// session returns the state with a session of a target through a portal, or without one for -1.
func (s iscsiState) session(t, p int) iscsiState {
	s.targets[t].session, s.targets[t].disk = p, 0
	if t == 0 {
		s = s.unsure()
	}
	return s
}

// unsure returns the state in which the volume may be gone.
func (s iscsiState) unsure() iscsiState {
	s.ready, s.held = false, false
	return s
}

// found reports whether a target counts as found at a portal. If Windows does not say where it
// found a target, that is each of its portals.
func (o *iscsiObject) found(s iscsiState, t, p int) bool {
	known := s.targets[t].known
	return known[p] || worldOf(o.w.s.spec.world).ISCSIDiscovery == behavior.ISCSIDiscoveryOther && hasPortal(t, p) && (known[0] || known[1])
}

// begun adds the states after Windows has made persistent logins, as it does when its service
// starts.
func begun(states []iscsiState) []iscsiState {
	for t := range iscsiTargets {
		for _, s := range states {
			if target := s.targets[t]; target.persistent && target.session < 0 && target.there && s.service != "stopped" {
				states = append(states, s.session(t, iscsiTargets[t].portals[0]))
			}
		}
	}
	return states
}

func (o *iscsiObject) step(_ string, state any, op operation) (all []any) {
	for _, s := range begun([]iscsiState{state.(iscsiState)}) {
		for _, after := range o.after(s, op) {
			if !slices.Contains(all, any(after)) {
				all = append(all, after)
			}
		}
	}
	return all
}

// after returns the states after an operation, or none if it is not possible.
func (o *iscsiObject) after(s iscsiState, op operation) []iscsiState {
	name, at := split(op.op)
	t, p := place(at)
	next := s
	switch name {
	case "stop", "start", "reboot":
		if next.service = op.value; next.service != "running" && next.service != "stopped" {
			next.service = "moving"
		}
		if name == "reboot" {
			next = next.session(0, -1).session(1, -1)
		}
	case "vanish", "back":
		next.targets[t].there = name == "back"
	case "persist":
		next.targets[t].persistent = true
	case "forget":
		next = s.forget(p)
	case "login":
		next = s.session(t, p)
	case "drop":
		next = s.session(t, -1)
	case "lose":
		if next.targets[t].disk = 2; t == 0 {
			next = next.unsure()
		}
	case "observe":
		return s.observed(op.value)
	case "Partition", "Online", "Offline", "State", "List": // of a disk, perhaps another one
		next = next.unsure()
		if sure := s; name == "Online" && op.object == o.name() && op.succeeded() && !op.disturbed && s.targets[0].session >= 0 && s.targets[0].disk < 2 {
			sure.ready, sure.targets[0].disk = true, 1
			return []iscsiState{sure}
		}
		return []iscsiState{s, next}
	default:
		return o.answered(s, op, name, t, p)
	}
	return []iscsiState{next}
}

// observed returns the state if it is the one that was observed.
func (s iscsiState) observed(text string) []iscsiState {
	fields := strings.Split(text, "; ")
	if s.service == "moving" && !strings.HasSuffix(fields[0], "pending") {
		s.service = fields[0]
	}
	portals := "portals"
	for p, address := range iscsiPortals {
		if s.portals[p] {
			portals += " " + address
		}
	}
	if s.service != fields[0] && s.service != "moving" || portals != fields[1] || fields[4] != fmt.Sprintf("mounted %t", s.mounted) {
		return nil
	}
	for t := range s.targets {
		var session, disks int
		if _, err := fmt.Sscanf(fields[2+t], "session %d disks %d", &session, &disks); err != nil || session != s.targets[t].session || !s.targets[t].has(disks) {
			return nil
		}
		if disks > 0 {
			s.targets[t].disk = 1
		}
	}
	return []iscsiState{s}
}

// has reports whether a target may have so many disks.
func (t targetState) has(disks int) bool {
	switch {
	case t.session < 0 || t.disk == 2:
		return disks == 0
	case t.disk == 1:
		return disks == 1
	}
	return disks <= 1
}

// answered returns the states after a request.
func (o *iscsiObject) answered(s iscsiState, op operation, name string, t, p int) []iscsiState {
	if op.disturbed && name == "Disconnect" { // a session that cannot say which disks it has is ended
		s = s.unsure()
	}
	switch {
	case op.unknown:
		return append(o.partly(s, name, t, p), o.done(s, name, "", t, p)...)
	case op.err == nil && op.disturbed && name == "Discover": // the portal may have been removed meanwhile
		return o.partly(s, name, t, p)
	case op.err == nil && op.disturbed && name == "Disks" && op.value == "0" && s.targets[t].session < 0: // its session ended meanwhile
		return []iscsiState{s}
	case op.err == nil:
		return o.done(s, name, op.value, t, p)
	case op.disturbed:
		return append(o.partly(s, name, t, p), o.done(s, name, "", t, p)...)
	case strings.HasSuffix(name, "Initiator"):
		return nil
	case name == "Attach" || name == "Release":
		if s.ready || name == "Release" && !s.mounted {
			return nil
		}
		return append(o.partly(s, name, t, p), o.done(s, name, "", t, p)...)
	case s.service != "running" && errors.Is(op.err, hosterr.ErrFailedPrecondition):
		return o.partly(s, name, t, p) // its service may have stopped in between
	case o.mayFail(s, name, op.err, t, p):
		return []iscsiState{s}
	}
	return nil
}

// mayFail reports whether an operation may fail in a state, and change nothing, while the
// service runs and nothing disturbs it.
func (o *iscsiObject) mayFail(s iscsiState, name string, err error, t, p int) bool {
	target := s.targets[t]
	missing := (!s.portals[p] || !o.found(s, t, p)) && errors.Is(err, hosterr.ErrNotFound)
	switch name {
	case "Add", "Discover":
		if name == "Discover" && !s.portals[p] {
			return errors.Is(err, hosterr.ErrNotFound)
		}
		reachable := false
		for t := range s.targets {
			reachable = reachable || s.targets[t].there && hasPortal(t, p)
		}
		return !reachable && errors.Is(err, hosterr.ErrUnavailable)
	case "Remove":
		return !s.portals[p] && errors.Is(err, hosterr.ErrNotFound)
	case "Connect", "Wrong":
		switch {
		case target.session >= 0 && !target.there: // Windows connects it again
			return missing || errors.Is(err, hosterr.ErrUnavailable)
		case target.session == p:
			return false
		case target.session >= 0:
			return missing || errors.Is(err, hosterr.ErrFailedPrecondition)
		}
		return missing || !target.there && (errors.Is(err, hosterr.ErrNotFound) || errors.Is(err, hosterr.ErrUnavailable)) ||
			name == "Wrong" && errors.Is(err, hosterr.ErrPermissionDenied)
	case "Disconnect":
		if target.session < 0 {
			return !target.persistent && missing
		}
		return errors.Is(err, win32.ISDSC_DEVICE_BUSY_ON_SESSION) || t == 0 && s.mounted && errors.Is(err, hosterr.ErrFailedPrecondition)
	case "Disks":
		return target.session < 0 && missing
	}
	return false
}

// done returns the states after an operation that succeeded with a value, or none if it could
// not. The value "" stands for any.
func (o *iscsiObject) done(s iscsiState, name, value string, t, p int) []iscsiState {
	only := func(ok bool) []iscsiState {
		if !ok {
			return nil
		}
		return []iscsiState{s}
	}
	target := &s.targets[t]
	switch name {
	case "StartInitiator":
		s.service = "running"
		return only(true)
	case "StopInitiator":
		s.service = "stopped"
		return only(true)
	case "Release":
		s.mounted, s.held = false, false
		return only(true)
	case "Attach":
		ok := target.session >= 0 && target.disk < 2
		s.mounted, s.ready, s.held, target.disk = true, true, true, 1
		return only(ok)
	}
	if s.service == "stopped" {
		return nil
	}
	switch name {
	case "Add":
		if !s.portals[p] {
			s = s.ask(p)
		}
		return only(true)
	case "Remove":
		ok := s.portals[p]
		s = s.forget(p)
		return only(ok)
	case "Discover":
		ok := s.portals[p]
		s = s.ask(p)
		text := "targets"
		for t := range s.targets {
			if o.found(s, t, p) {
				text += " " + iscsiTargets[t].iqn
			}
		}
		return only(ok && (value == "" || value == strings.TrimSpace(text) || value == text))
	case "Portals":
		text := "portals"
		for p, address := range iscsiPortals {
			if s.portals[p] {
				text += " " + address
			}
		}
		return only(value == "" || value == text)
	case "Connect", "Wrong":
		if target.session < 0 {
			ok := name == "Connect" && s.portals[p] && o.found(s, t, p) && target.there && hasPortal(t, p)
			s = s.session(t, p)
			s.targets[t].disk = 1
			return only(ok)
		}
		ok := target.session == p && target.there
		target.disk = max(target.disk, 1)
		return only(ok)
	case "Disconnect":
		ok := target.session >= 0 || target.persistent || s.portals[p] && o.found(s, t, p)
		ok = ok && !(t == 0 && target.session >= 0 && s.held)
		s = s.session(t, -1)
		s.targets[t].persistent = false
		return only(ok)
	case "Disks":
		if target.session < 0 {
			return only((value == "" || value == "0") && s.portals[p] && o.found(s, t, p))
		}
		var disks int
		if value == "" {
			return only(true)
		}
		if _, err := fmt.Sscan(value, &disks); err != nil || fmt.Sprint(disks) != value || !target.has(disks) {
			return nil
		}
		if disks == 1 {
			target.disk = 1
		}
		return only(true)
	}
	return nil
}

// partly returns the states in which an operation may stop.
func (o *iscsiObject) partly(s iscsiState, name string, t, p int) []iscsiState {
	next := s
	switch name {
	case "Connect":
		if s.targets[t].session < 0 && s.targets[t].there && hasPortal(t, p) {
			next = s.session(t, p)
		}
	case "Disconnect":
		next.targets[t].persistent = false
	case "Attach":
		next.mounted = true
	case "StartInitiator", "StopInitiator":
		next.service = "moving"
	case "Discover":
		if s.portals[p] {
			next = s.ask(p)
		}
	}
	return []iscsiState{s, next}
}
