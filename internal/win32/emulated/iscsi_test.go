package emulated

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/services"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const testIQN = "iqn.2003-01.org.example:disk1"

var testPortal = win32.ISCSIPortal{Address: "10.0.0.1", Socket: 3260}

func iscsiConfig(targets ...nodespec.ISCSITarget) nodespec.Config {
	return nodespec.Config{
		Services: []nodespec.Service{{Name: services.ISCSI, State: "running"}},
		World:    behavior.In("", behavior.Windows{NewDisks: behavior.NewDisksFree, ISCSIDiscovery: behavior.ISCSIDiscoverySendTargets}),
		ISCSI:    nodespec.ISCSI{Portals: []nodespec.ISCSIPortal{{Address: "10.0.0.1"}}, Targets: targets},
	}
}

func lunTarget(iqn string, luns int) nodespec.ISCSITarget {
	c := nodespec.ISCSITarget{IQN: iqn, Portals: []nodespec.ISCSIPortal{{Address: "10.0.0.1"}}, LUNs: make([]nodespec.LUN, luns)}
	for i := range c.LUNs {
		c.LUNs[i].Size = disk.MinSize
	}
	return c
}

// login registers the portal and logs in.
func login(t *testing.T, n *Node, iqn string) win32.ISCSISessionID {
	t.Helper()
	if err := n.AddIScsiSendTargetPortal(testPortal); err != nil && !errors.Is(err, win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS) {
		t.Fatal(err)
	}
	id, err := n.LoginIScsiTarget(iqn, testPortal, win32.ISCSILogin{})
	ok(t, err)
	return id
}

func TestInitiatorRefusals(t *testing.T) {
	refusing, gone := lunTarget("iqn.2003-01.org.example:refusing", 1), lunTarget("iqn.2003-01.org.example:gone", 1)
	refusing.Refuses = true
	gone.Portals = []nodespec.ISCSIPortal{{Address: "10.0.0.7"}}
	n := start(t, iscsiConfig(lunTarget(testIQN, 1), refusing, gone))
	away := win32.ISCSIPortal{Address: "10.0.0.7", Socket: 3260}
	ok(t, n.AddIScsiSendTargetPortal(away))
	gone.Unreachable = true
	ok(t, n.SetISCSITarget(gone))
	login(t, n, testIQN)
	in := func(iqn string, p win32.ISCSIPortal, l win32.ISCSILogin) error {
		return second(n.LoginIScsiTarget(iqn, p, l))
	}
	short := win32.NewSecret("short")
	registered := win32.ISCSISendTargetPortal{Initiator: iscsi.AdapterName, InitiatorPort: 0xFFFFFFFF, ISCSIPortal: away}
	nowhere := win32.ISCSISendTargetPortal{ISCSIPortal: win32.ISCSIPortal{Address: "10.9.9.9", Socket: 3260}}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"a portal twice", n.AddIScsiSendTargetPortal(testPortal), win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS},
		{"an unreachable portal", n.AddIScsiSendTargetPortal(nowhere.ISCSIPortal), win32.ISDSC_CONNECTION_FAILED},
		{"refresh of a portal that is not registered", n.RefreshIScsiSendTargetPortal(nowhere), win32.ISDSC_PORTAL_NOT_FOUND},
		{"refresh of a portal that became unreachable", n.RefreshIScsiSendTargetPortal(registered), win32.ISDSC_CONNECTION_FAILED},
		{"removal of a portal that is not registered", n.RemoveIScsiSendTargetPortal(nowhere), win32.ISDSC_PORTAL_NOT_FOUND},
		{"discovery of an unknown target", second(n.IScsiTargetDiscovery("iqn.x")), win32.ISDSC_TARGET_NOT_FOUND},
		{"portals of an unknown target", second(n.ReportIScsiTargetPortals("iqn.x")), win32.ISDSC_TARGET_NOT_FOUND},
		{"login to an unknown target", in("iqn.x", testPortal, win32.ISCSILogin{}), win32.ISDSC_TARGET_NOT_FOUND},
		{"login twice", in(testIQN, testPortal, win32.ISCSILogin{}), win32.ISDSC_TARGET_ALREADY_LOGGED_IN},
		{"login at a portal of another target", in(gone.IQN, testPortal, win32.ISCSILogin{}), win32.ISDSC_NOT_FOUND},
		{"login at a portal that became unreachable", in(gone.IQN, away, win32.ISCSILogin{}), win32.ISDSC_CONNECTION_FAILED},
		{"refused login", in(refusing.IQN, testPortal, win32.ISCSILogin{}), win32.ISDSC_AUTHORIZATION_FAILURE},
		{"logout of an unknown session", n.LogoutIScsiTarget(win32.ISCSISessionID{AdapterSpecific: 99}), win32.ISDSC_INVALID_SESSION_ID},
		{"devices of an unknown session", second(n.GetDevicesForIScsiSession(win32.ISCSISessionID{})), win32.ISDSC_INVALID_SESSION_ID},
		{"removal of an unknown persistent login", n.RemoveIScsiPersistentTarget(win32.ISCSIPersistentLogin{TargetName: testIQN}), win32.ISDSC_TARGET_NOT_FOUND},
		{"a secret of 5 bytes", n.SetIScsiInitiatorCHAPSharedSecret(short), win32.ERROR_INVALID_PARAMETER},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	if _, err := n.ControlService(services.ISCSI, win32.SERVICE_CONTROL_STOP); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"GetIScsiSessionList": second(n.GetIScsiSessionList()), "ReportIScsiTargets": second(n.ReportIScsiTargets(true)),
		"ReportIScsiPersistentLogins": second(n.ReportIScsiPersistentLogins()), "LogoutIScsiTarget": n.LogoutIScsiTarget(win32.ISCSISessionID{}),
	} {
		if !errors.Is(err, win32.ISDSC_SERVICE_NOT_RUNNING) {
			t.Errorf("%s without MSiSCSI: %v", name, err)
		}
	}
}

func TestLogoutRefusedWhileDiskOpen(t *testing.T) {
	n := start(t, iscsiConfig(lunTarget(testIQN, 2)))
	id := login(t, n, testIQN)
	devices, err := n.GetDevicesForIScsiSession(id)
	if err != nil || len(devices) != 2 {
		t.Fatalf("devices = %v, %v", devices, err)
	}
	for name, access := range map[string]uint32{"data": win32.GENERIC_READ, "no data": 0} {
		h, err := n.CreateFile(`\\.\PhysicalDrive4`, access, shareBoth, win32.OPEN_EXISTING, 0)
		ok(t, err)
		if access != 0 {
			if err := n.LogoutIScsiTarget(id); !errors.Is(err, win32.ISDSC_DEVICE_BUSY_ON_SESSION) {
				t.Errorf("%s: logout = %v, want ISDSC_DEVICE_BUSY_ON_SESSION", name, err)
			}
		}
		ok(t, n.CloseHandle(h))
	}
	ok(t, n.LogoutIScsiTarget(id))
	if _, err := n.CreateFile(`\\.\PhysicalDrive4`, 0, shareBoth, win32.OPEN_EXISTING, 0); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("the disk after the logout: %v", err)
	}
}

// LUNs keep their content from one session to the next, and after a kill.
func TestLUNsKeepContent(t *testing.T) {
	cfg := iscsiConfig(lunTarget(testIQN, 1))
	cfg.StateDir = t.TempDir()
	n, err := Open(cfg, kernel.Machine{})
	ok(t, err)
	id := login(t, n, testIQN)
	online(t, n, 3)
	h := openPath(t, n, `\\.\PhysicalDrive3`, readWrite)
	want := append([]byte("kept"), make([]byte, 508)...)
	if _, err := n.WriteAt(h, want, 0); err != nil {
		t.Fatal(err)
	}
	ok(t, errors.Join(n.CloseHandle(h), n.LogoutIScsiTarget(id)))
	login(t, n, testIQN)
	read := func(n *Node) string {
		h := openPath(t, n, `\\.\PhysicalDrive3`, win32.GENERIC_READ)
		got := make([]byte, 512)
		if _, err := n.ReadAt(h, got, 0); err != nil {
			t.Fatal(err)
		}
		ok(t, n.CloseHandle(h))
		return string(got)
	}
	if got := read(n); got != string(want) {
		t.Errorf("after a second login: %.8q", got)
	}
	ok(t, n.Close())
	n = start(t, cfg)
	if got := read(n); got != string(want) {
		t.Errorf("after reopening: %.8q", got)
	}
	list, err := n.GetIScsiSessionList()
	if err != nil || len(list) != 1 || list[0].TargetName != testIQN || list[0].Connections[0].TargetAddress != "10.0.0.1" {
		t.Errorf("sessions after reopening: %+v, %v", list, err)
	}
	// A new session does not reuse an ID.
	ok(t, n.LogoutIScsiTarget(list[0].ID))
	if again := login(t, n, testIQN); again == list[0].ID {
		t.Errorf("the session ID %v was used again", again)
	}
}

// A target that refuses logins refuses those that Windows repeats, too.
func TestPersistentLoginRefused(t *testing.T) {
	n := start(t, nodespec.Config{ISCSI: nodespec.ISCSI{Targets: []nodespec.ISCSITarget{
		{IQN: testIQN, Portals: []nodespec.ISCSIPortal{{Address: "10.0.0.1"}}, Persistent: true, Refuses: true},
	}}})
	ok(t, n.StartService("MSiSCSI"))
	if sessions, err := n.GetIScsiSessionList(); err != nil || len(sessions) > 0 {
		t.Errorf("sessions %+v, %v, want none", sessions, err)
	}
}

func TestInvalidTargetConfigs(t *testing.T) {
	three, number := uint8(3), uint32(7)
	for name, c := range map[string]nodespec.ISCSITarget{
		"no name": {Portals: []nodespec.ISCSIPortal{{Address: "a"}}}, "no portal": {IQN: testIQN},
		"a portal without an address": {IQN: testIQN, Portals: []nodespec.ISCSIPortal{{}}},
		"a delay":                     {IQN: testIQN, Portals: []nodespec.ISCSIPortal{{Address: "a"}}, ArrivalDelay: -1},
		"a LUN twice":                 {IQN: testIQN, Portals: []nodespec.ISCSIPortal{{Address: "a"}}, LUNs: []nodespec.LUN{{LUN: &three}, {LUN: &three}}},
		"a disk with a number":        {IQN: testIQN, Portals: []nodespec.ISCSIPortal{{Address: "a"}}, LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Number: &number}}}},
		"a disk that cannot be":       {IQN: testIQN, Portals: []nodespec.ISCSIPortal{{Address: "a"}}, LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: 1}}}},
	} {
		if n, err := Open(iscsiConfig(c), kernel.Machine{}); err == nil {
			t.Errorf("%s: opened", name)
			n.Close()
		}
	}
	if n, err := Open(iscsiConfig(lunTarget(testIQN, 0), lunTarget(testIQN, 0)), kernel.Machine{}); err == nil {
		t.Error("the same target twice: opened")
		n.Close()
	}
}
