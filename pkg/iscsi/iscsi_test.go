package iscsi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// fixture is the iSCSI service over an emulated node.
type fixture struct {
	t *testing.T
	*nodetest.Node
	log   bytes.Buffer
	iscsi *iscsi.ISCSI
	disk  *disk.Disk
	// volumes is the service of the volumes on targets' disks.
	volumes *volume.Volume

	mu    sync.Mutex
	calls []string
	slow  time.Duration // of a LogoutIScsiTarget
}

const (
	address = "10.0.0.1"
	iqn     = "iqn.2003-01.org.example:disk1"
)

var here = &iscsi.TargetPortal{TargetAddress: address, TargetPort: 3260}

func target(iqn string, luns int, addresses ...string) nodespec.ISCSITarget {
	if addresses == nil {
		addresses = []string{address}
	}
	c := nodespec.ISCSITarget{IQN: iqn, LUNs: make([]nodespec.LUN, luns)}
	for _, a := range addresses {
		c.Portals = append(c.Portals, nodespec.ISCSIPortal{Address: a})
	}
	for i := range c.LUNs {
		c.LUNs[i].Size = 64 << 20
	}
	return c
}

// newFixture returns a fixture with a running MSiSCSI service.
func newFixture(t *testing.T, targets ...nodespec.ISCSITarget) *fixture {
	t.Helper()
	return newFixtureOn(t, nodespec.Config{
		ISCSI:    nodespec.ISCSI{Portals: []nodespec.ISCSIPortal{{Address: address}}, Targets: targets},
		Services: []nodespec.Service{{Name: "MSiSCSI", State: "running"}},
	})
}

func newFixtureOn(t *testing.T, cfg nodespec.Config) *fixture {
	t.Helper()
	f := &fixture{t: t}
	cfg.Log = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug - 10}))
	cfg.Disks = []nodespec.Disk{{Content: nodespec.ContentSystem}}
	f.Node = nodetest.New(t, cfg, func(c *win32.Call) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls = append(f.calls, c.Name)
		if c.Name == "LogoutIScsiTarget" {
			f.Clock.Advance(f.slow)
		}
	})
	var err error
	f.iscsi, err = iscsi.New(iscsiapi.On(f.Node.Node))
	f.must(err)
	f.disk, err = disk.New(diskapi.On(f.Node.Node))
	f.must(err)
	f.volumes, err = volume.New(volumeapi.On(f.Node.Node))
	f.must(err)
	return f
}

// connected returns a node that is connected to a target with so many disks.
func connected(t *testing.T, luns int) *fixture {
	t.Helper()
	f := newFixture(t, target(iqn, luns))
	f.must(f.add(here))
	f.must(f.connect(here, iqn))
	return f
}

// withVolume returns a node that is connected to a target, and the volume on its disk 1.
func withVolume(t *testing.T) (f *fixture, id string) {
	t.Helper()
	f = connected(t, 1)
	return f, f.volume(1)
}

// volume partitions a disk, and returns its volume.
func (f *fixture) volume(number uint32) string {
	f.t.Helper()
	_, err := f.disk.PartitionDisk(f.t.Context(), &disk.PartitionDiskRequest{DiskNumber: number})
	f.must(err)
	list, err := f.volumes.ListVolumesOnDisk(f.t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	f.must(err)
	return list.VolumeIDs[0]
}

func (f *fixture) format(id string) error {
	_, err := f.volumes.FormatVolume(f.t.Context(), &volume.FormatVolumeRequest{VolumeID: id})
	return err
}

// folder is where volumes are mounted.
const folder = `C:\var\lib\kubelet\pods\8d9f\mount`

// mount mounts a volume in a folder, which exists.
func (f *fixture) mount(id string) error {
	_, err := f.volumes.MountVolume(f.t.Context(), &volume.MountVolumeRequest{VolumeID: id, TargetPath: folder})
	return err
}

func (f *fixture) unmount(id string) error {
	_, err := f.volumes.UnmountVolume(f.t.Context(), &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: folder})
	return err
}

func (f *fixture) add(p *iscsi.TargetPortal) error {
	_, err := f.iscsi.AddTargetPortal(f.t.Context(), &iscsi.AddTargetPortalRequest{TargetPortal: p})
	return err
}

func (f *fixture) discover(p *iscsi.TargetPortal) ([]string, error) {
	out, err := f.iscsi.DiscoverTargetPortal(f.t.Context(), &iscsi.DiscoverTargetPortalRequest{TargetPortal: p})
	if err != nil {
		return nil, err
	}
	return out.IQNs, nil
}

func (f *fixture) connect(p *iscsi.TargetPortal, iqn string) error {
	_, err := f.iscsi.ConnectTarget(f.t.Context(), &iscsi.ConnectTargetRequest{TargetPortal: p, IQN: iqn})
	return err
}

func (f *fixture) chap(auth iscsi.AuthenticationType, user, secret string) error {
	_, err := f.iscsi.ConnectTarget(f.t.Context(), &iscsi.ConnectTargetRequest{
		TargetPortal: here, IQN: iqn, AuthType: auth, ChapUsername: user, ChapSecret: secret,
	})
	return err
}

func (f *fixture) mutual(secret string) error {
	_, err := f.iscsi.SetMutualChapSecret(f.t.Context(), &iscsi.SetMutualChapSecretRequest{MutualChapSecret: secret})
	return err
}

func (f *fixture) disconnect(p *iscsi.TargetPortal, iqn string) error {
	_, err := f.iscsi.DisconnectTarget(f.t.Context(), &iscsi.DisconnectTargetRequest{TargetPortal: p, IQN: iqn})
	return err
}

func (f *fixture) disks(iqn string) []string {
	f.t.Helper()
	out, err := f.iscsi.GetTargetDisks(f.t.Context(), &iscsi.GetTargetDisksRequest{TargetPortal: here, IQN: iqn})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.DiskIDs
}

// must stops the test if err is not nil.
func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (f *fixture) sessions() int {
	f.t.Helper()
	list, err := f.Windows.GetIScsiSessionList()
	f.must(err)
	return len(list)
}

// wants fails the test unless err has the kind and contains all texts.
func wants(t *testing.T, what string, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Errorf("%s = %v, want %v", what, err, kind)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s = %v, want %q in it", what, err, text)
		}
	}
}

func TestConnectRefusesSessionThroughOtherPortal(t *testing.T) {
	f := newFixture(t, target(iqn, 1, address, "10.0.0.2"))
	other := &iscsi.TargetPortal{TargetAddress: "10.0.0.2"}
	f.must(f.add(here))
	f.must(f.add(other))
	f.must(f.connect(here, iqn))
	err := f.connect(other, iqn)
	wants(t, "connect through the other portal", err, hosterr.ErrFailedPrecondition, "10.0.0.1:3260", "another portal")
	if hosterr.HintOf(err) == "" {
		t.Error("no hint")
	}
	// Disconnecting needs the target only. The portal may be another one.
	f.must(f.disconnect(other, iqn))
	f.must(f.connect(other, iqn))
}

func TestIPv6Portals(t *testing.T) {
	f := newFixture(t, target(iqn, 1, "fd00::10"))
	f.must(f.add(&iscsi.TargetPortal{TargetAddress: "[FD00:0::10]"}))
	f.must(f.add(&iscsi.TargetPortal{TargetAddress: "fd00::10", TargetPort: 3260}))
	out, err := f.iscsi.ListTargetPortals(t.Context(), &iscsi.ListTargetPortalsRequest{})
	if err != nil || len(out.TargetPortals) != 1 || *out.TargetPortals[0] != (iscsi.TargetPortal{TargetAddress: "fd00::10", TargetPort: 3260}) {
		t.Errorf("portals = %v, %v, want one", out, err)
	}
	p := &iscsi.TargetPortal{TargetAddress: "fd00:0:0::10"}
	if got, err := f.discover(p); err != nil || len(got) != 1 {
		t.Errorf("discovered %q, %v", got, err)
	}
	f.must(f.connect(p, iqn))
	f.must(f.connect(&iscsi.TargetPortal{TargetAddress: "[fd00::10]"}, strings.ToUpper(iqn))) // port 0 is 3260
	if f.count("LoginIScsiTarget") != 1 {
		t.Errorf("%d logins, want one", f.count("LoginIScsiTarget"))
	}
	_, err = f.iscsi.RemoveTargetPortal(t.Context(), &iscsi.RemoveTargetPortalRequest{TargetPortal: p})
	f.must(err)
	_, err = f.iscsi.RemoveTargetPortal(t.Context(), &iscsi.RemoveTargetPortalRequest{TargetPortal: p})
	wants(t, "second removal", err, hosterr.ErrNotFound, "not found", "[fd00::10]:3260")
	f.must(f.disconnect(p, iqn)) // without its portal
}

func TestDiscoverFindsNewTargets(t *testing.T) {
	f := newFixture(t)
	f.must(f.add(here))
	if got, err := f.discover(here); err != nil || len(got) != 0 {
		t.Fatalf("discovered %q, %v, want none", got, err)
	}
	f.must(f.Windows.SetISCSITarget(target(iqn, 1)))
	err := f.connect(here, iqn)
	wants(t, "connect before discovery", err, hosterr.ErrNotFound, "not found")
	if !strings.Contains(hosterr.HintOf(err), "DiscoverTargetPortal") {
		t.Errorf("hint %q", hosterr.HintOf(err))
	}
	f.must(f.add(here)) // already registered: no discovery
	if got, err := f.discover(here); err != nil || !slices.Equal(got, []string{iqn}) {
		t.Fatalf("discovered %q, %v, want the new target", got, err)
	}
	f.must(f.connect(here, iqn))
	f.must(f.Windows.RemoveISCSITarget(iqn))
	if got, err := f.discover(here); err != nil || len(got) != 0 {
		t.Errorf("discovered %q, %v, want that the target is gone", got, err)
	}
}

// The format of a discovery mechanism is not documented. If it cannot be parsed, the
// target's own portals are used.
func TestDiscoverWhateverTheMechanismSays(t *testing.T) {
	for _, value := range []string{behavior.ISCSIDiscoveryOther, behavior.ISCSIDiscoverySendTargets} {
		f := newFixtureOn(t, nodespec.Config{
			ISCSI:    nodespec.ISCSI{Portals: []nodespec.ISCSIPortal{{Address: address}, {Address: "10.0.0.9"}}, Targets: []nodespec.ISCSITarget{target(iqn, 1), target("iqn.2003-01.org.example:elsewhere", 1, "10.0.0.9")}},
			Services: []nodespec.Service{{Name: "MSiSCSI", State: "running"}},
			World:    behavior.In("", behavior.Windows{ISCSIDiscovery: value}),
		})
		f.must(f.add(here))
		f.must(f.add(&iscsi.TargetPortal{TargetAddress: "10.0.0.9"}))
		if got, err := f.discover(here); err != nil || !slices.Equal(got, []string{iqn}) {
			t.Errorf("%s: discovered %q, %v", value, got, err)
		}
	}
}

// The contract has the portals that are mistakes. These are also refused, before Windows is asked.
func TestInvalidPortals(t *testing.T) {
	f := newFixture(t, target(iqn, 1))
	for _, c := range []struct {
		name   string
		portal *iscsi.TargetPortal
		text   string
	}{
		{"any address", &iscsi.TargetPortal{TargetAddress: "::"}, "::"},
		{"multicast", &iscsi.TargetPortal{TargetAddress: "224.0.0.1"}, "224.0.0.1"},
		{"half brackets", &iscsi.TargetPortal{TargetAddress: "[fd00::1"}, "fd00"},
		{"much too long", &iscsi.TargetPortal{TargetAddress: strings.Repeat("a", 1<<20)}, "aaa"},
		{"NUL", &iscsi.TargetPortal{TargetAddress: "a\x00b"}, "a"},
		{"NUL in a zone", &iscsi.TargetPortal{TargetAddress: "fe80::1%1\x00"}, "fe80"},
		{"line in a zone", &iscsi.TargetPortal{TargetAddress: "fe80::1%1\nI1121 forged"}, "fe80"},
	} {
		_, discover := f.discover(c.portal)
		_, disks := f.iscsi.GetTargetDisks(t.Context(), &iscsi.GetTargetDisksRequest{TargetPortal: c.portal, IQN: iqn})
		_, remove := f.iscsi.RemoveTargetPortal(t.Context(), &iscsi.RemoveTargetPortalRequest{TargetPortal: c.portal})
		for method, err := range map[string]error{
			"AddTargetPortal": f.add(c.portal), "DiscoverTargetPortal": discover, "RemoveTargetPortal": remove,
			"ConnectTarget": f.connect(c.portal, iqn), "DisconnectTarget": f.disconnect(c.portal, iqn), "GetTargetDisks": disks,
		} {
			wants(t, method+" with "+c.name, err, hosterr.ErrInvalid, c.text)
			if len(err.Error()) > 2000 {
				t.Errorf("%s with %s: an error of %d bytes", method, c.name, len(err.Error()))
			}
		}
	}
	if err := f.chap(3, "csi", right); err == nil || err.Error() != "invalid authentication type authType=3" {
		t.Errorf("authentication type 3: %v, want the published text alone", err)
	}
	if len(f.calls) > 0 {
		t.Errorf("Windows was asked %q", f.calls)
	}
	for _, ok := range []string{"10.0.0.1", "storage", "storage-1.example.com", "fe80::1%12", "[fd00::1]"} {
		if _, err := (&iscsiapi.TargetPortal{Address: ok}).Check(); err != nil {
			t.Errorf("address %q: %v", ok, err)
		}
	}
}

func TestTargetNames(t *testing.T) {
	for _, c := range []struct {
		iqn string
		ok  bool
	}{
		{iqn, true}, {"IQN.2003-01.ORG.Example:Disk1", true}, {"eui.02004567A425678D", true}, {"naa.52004567BA64678D", true},
		{"iqn.2003-01.org.example:bücher", true},
		{"", false}, {"disk1", false}, {"iqn.2003-01", false}, {"iqn.2003-01.", false}, {"eui.0200", false}, {"naa.52", false},
		{"iqn.2003-01.org.example:disk 1", false}, {"iqn.2003-01.org.example:' OR 1=1", false}, {"iqn.2003-01.org.example:a\x00", false},
		{"iqn.2003-01.org.example:" + strings.Repeat("a", 200), false}, {"iqn.2003-01.org.example:\xff", false},
	} {
		if err := iscsiapi.CheckIQN(c.iqn); (err == nil) != c.ok || err != nil && !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("CheckIQN(%q) = %v, want ok %t", c.iqn, err, c.ok)
		}
	}
}

const (
	right   = "right-secret-16b"
	wrong   = "wrong-secret-16b"
	proof   = "mutual-secret-16"
	another = "mutual-other-16b"
)

func withCHAP() nodespec.ISCSITarget {
	c := target(iqn, 1)
	c.CHAP = &nodespec.CHAP{User: "csi", Secret: right, MutualSecret: proof}
	return c
}

// What to do about an authentication that fails, and about an initiator that does not run, is in
// the hint.
func TestHints(t *testing.T) {
	f := newFixture(t, withCHAP())
	f.must(f.add(here))
	hint := func(err error, kind error, text, want string) {
		t.Helper()
		if wants(t, "login", err, kind, text); !strings.Contains(hosterr.HintOf(err), want) {
			t.Errorf("%v: hint %q, want %q in it", err, hosterr.HintOf(err), want)
		}
	}
	hint(f.connect(here, iqn), hosterr.ErrPermissionDenied, "authentication failure", "requires CHAP")
	f.must(f.mutual(another))
	hint(f.chap(iscsi.MUTUAL_CHAP, "csi", right), hosterr.ErrPermissionDenied, "", "SetMutualChapSecret")
	if f.sessions() != 0 {
		t.Error("a refused login left a session")
	}
	f = newFixtureOn(t, nodespec.Config{})
	hint(f.add(here), win32.ISDSC_SERVICE_NOT_RUNNING, "not running", "StartService")
	_, err := iscsiapi.On(f.Node.Node).Sessions()
	hint(err, win32.ISDSC_SERVICE_NOT_RUNNING, "not running", "StartService")
}

func TestCredentialsWithoutCHAPAreNotPassed(t *testing.T) {
	f := newFixture(t, target(iqn, 1))
	f.must(f.add(here))
	seen := &loginWatch{API: f.Node.API}
	f.Node.API = seen
	f.must(f.chap(iscsi.NONE, "csi", right))
	if seen.login.AuthType != win32.ISCSI_NO_AUTH_TYPE || seen.login.User != nil || seen.login.Password != nil {
		t.Errorf("a login without authentication passed %+v", seen.login)
	}
	f.must(f.disconnect(here, iqn))
	f.must(f.Windows.SetISCSITarget(withCHAP()))
	wants(t, "without a user", f.chap(iscsi.ONE_WAY_CHAP, "", right), hosterr.ErrPermissionDenied)
	if seen.login.User != nil || seen.login.Password == nil {
		t.Errorf("a login without a user passed %+v", seen.login)
	}
}

type loginWatch struct {
	win32.API
	login win32.ISCSILogin
}

func (l *loginWatch) LoginIScsiTarget(target string, p win32.ISCSIPortal, login win32.ISCSILogin) (win32.ISCSISessionID, error) {
	l.login = login
	return l.API.LoginIScsiTarget(target, p, login)
}

func TestConnectRefusedByTarget(t *testing.T) {
	refusing, gone := target(iqn, 1), target("iqn.2003-01.org.example:gone", 1, "10.0.0.7")
	refusing.Refuses = true
	f := newFixture(t, refusing, gone)
	f.must(f.add(here))
	wants(t, "refused", f.connect(here, iqn), hosterr.ErrPermissionDenied, "does not allow")
	wants(t, "a portal without a server", f.add(&iscsi.TargetPortal{TargetAddress: "10.9.9.9"}), hosterr.ErrUnavailable, "could not connect", "10.9.9.9:3260")
	p := &iscsi.TargetPortal{TargetAddress: "10.0.0.7"}
	f.must(f.add(p))
	gone.Unreachable = true
	f.must(f.Windows.SetISCSITarget(gone))
	wants(t, "a portal that went away", f.connect(p, gone.IQN), hosterr.ErrUnavailable, "could not connect")
	_, err := f.discover(p)
	wants(t, "discovery there", err, hosterr.ErrUnavailable, "could not connect")
	_, err = f.discover(&iscsi.TargetPortal{TargetAddress: "10.0.0.8"})
	wants(t, "discovery at a portal that is not registered", err, hosterr.ErrNotFound, "not registered", "not found")
	wants(t, "disconnecting an unknown target", f.disconnect(here, "iqn.2003-01.org.example:nosuch"), hosterr.ErrNotFound, "not found")
	wants(t, "a target of another portal", f.connect(here, gone.IQN), hosterr.ErrNotFound)
}

// A target in use is asked again, also if each attempt takes long.
func TestDisconnectOfBusyTarget(t *testing.T) {
	for _, slow := range []time.Duration{0, 5 * time.Second} {
		f := connected(t, 1)
		f.slow = slow
		h, err := f.Windows.CreateFile(`\\.\PhysicalDrive1`, win32.GENERIC_READ, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
		f.must(err)
		begun := f.Clock.Now()
		err = f.disconnect(here, iqn)
		wants(t, "disconnect", err, hosterr.ErrFailedPrecondition, "in use")
		n := f.count("LogoutIScsiTarget")
		took := f.Clock.Now().Sub(begun) - time.Duration(n)*slow
		if !strings.Contains(hosterr.HintOf(err), "unmount") || n < 5 || took < 4*time.Second || took > 5*time.Second {
			t.Errorf("disconnect: hint %q, %d attempts with pauses of %v; want a hint, and attempts for four seconds", hosterr.HintOf(err), n, took)
		}
		f.must(f.Windows.CloseHandle(h))
		f.must(f.disconnect(here, iqn))
	}
}

// A target is disconnected only when no volume on its disks is mounted in a folder, whether
// or not a program uses the volume. Nothing is changed before: persistent logins stay.
func TestDisconnectOfMountedTarget(t *testing.T) {
	f := connected(t, 2)
	id := f.volume(2)
	f.must(f.format(id))
	f.must(winfs.MkdirAll(t.Context(), f.Node.Node, folder))
	f.must(f.mount(id))

	wants(t, "disconnect", f.disconnect(here, iqn), hosterr.ErrFailedPrecondition, "disk 2 is mounted at", folder)
	if err := f.disconnect(here, iqn); !strings.Contains(hosterr.HintOf(err), "unmount") {
		t.Errorf("the hint is %q", hosterr.HintOf(err))
	}
	if f.count("LogoutIScsiTarget")+f.count("RemoveIScsiPersistentTarget") > 0 || len(f.disks(iqn)) != 2 {
		t.Errorf("%d logouts, %d persistent logins removed, disks %v", f.count("LogoutIScsiTarget"), f.count("RemoveIScsiPersistentTarget"), f.disks(iqn))
	}
	f.must(f.unmount(id))
	f.must(f.disconnect(here, iqn))
}

// A request that mounts or formats a volume and one that disconnects its target run one after
// the other: the target stays, or the volume is not mounted.
func TestDisconnectWaitsForWorkOnItsDisks(t *testing.T) {
	for name, work := range map[string]struct {
		call string // of the work, during which the target is to be disconnected
		do   func(f *fixture, id string) error
		want error // of DisconnectTarget
	}{
		"mount":  {"SetMountPoint", (*fixture).mount, hosterr.ErrFailedPrecondition},
		"format": {"Format", (*fixture).format, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, id := withVolume(t)
				f.must(winfs.MkdirAll(t.Context(), f.Node.Node, folder))
				if name == "mount" {
					f.must(f.format(id))
				}
				var disconnected chan error
				f.Observe(func(c *win32.Call) error {
					if c.Name == work.call && disconnected == nil {
						disconnected = make(chan error, 1)
						go func() { disconnected <- f.disconnect(here, iqn) }()
						synctest.Wait() // until it waits, or ends
					}
					return c.Do()
				})
				err := work.do(f, id)
				if disconnected == nil {
					t.Fatalf("%s was not called: %v", work.call, err)
				}
				if got := <-disconnected; !errors.Is(got, work.want) || err != nil {
					t.Errorf("%s: %v; disconnect: %v, want %v", name, err, got, work.want)
				}
				f.Observe(nil)
			})
		})
	}
}

// A call that hangs on a disk of the target does not hang a request to disconnect it, which says
// so and can be repeated.
func TestDisconnectDoesNotWaitForCallsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := connected(t, 2)
		release := make(chan struct{})
		f.Observe(func(c *win32.Call) error {
			if c.Name == "DeviceIoControl" {
				<-release
			}
			return c.Do()
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = f.disk.GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{DiskNumber: 2})
		}()
		synctest.Wait()
		started := time.Now()
		err := f.disconnect(here, iqn)
		wants(t, "disconnect", err, hosterr.ErrFailedPrecondition, "a call uses disk 2 of the target, and has not ended for 10s")
		if took := time.Since(started); took != 10*time.Second || !strings.Contains(hosterr.HintOf(err), "csi-proxyctl calls") {
			t.Errorf("after %v, hint %q; want 10s, and csi-proxyctl calls", took, hosterr.HintOf(err))
		}
		close(release)
		<-ended
		f.Observe(nil)
		f.must(f.disconnect(here, iqn))
	})
}

// A volume that was unmounted while its disk was away does not keep the target connected,
// although the mount manager still has its folder.
func TestDisconnectOfTargetUnmountedWhileAway(t *testing.T) {
	f, id := withVolume(t)
	f.must(winfs.MkdirAll(t.Context(), f.Node.Node, folder))
	f.must(f.mount(id))
	sessions, err := f.Windows.GetIScsiSessionList()
	f.must(err)
	f.must(f.Windows.LogoutIScsiTarget(sessions[0].ID)) // by another program
	f.must(f.unmount(id))

	f.must(f.connect(here, iqn))
	if names, err := f.Windows.VolumePathNames(id); err != nil || len(names) == 0 {
		t.Fatalf("the mount manager has %q, %v; want the folder", names, err)
	}
	f.must(f.disconnect(here, iqn))
}

// A folder that moved with a directory above it keeps the target connected. What is in the place
// of that directory is not followed out of the working directories, and no server is contacted.
func TestDisconnectOfTargetWhoseFolderMoved(t *testing.T) {
	const pod = `C:\var\lib\kubelet\pods\8d9f`
	for name, replace := range map[string]func(f *fixture){
		"nothing": func(*fixture) {},
		"a link to a share": func(f *fixture) {
			f.must(winfs.SymlinkOf(t.Context(), f.Node.Node, `\\attacker\share`, pod, true))
		},
		"a link to another directory": func(f *fixture) {
			f.must(winfs.MkdirAll(t.Context(), f.Node.Node, `C:\elsewhere\mount`))
			f.must(winfs.SymlinkOf(t.Context(), f.Node.Node, `C:\elsewhere`, pod, true))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, id := withVolume(t)
			f.must(winfs.MkdirAll(t.Context(), f.Node.Node, folder))
			f.must(f.mount(id))
			f.must(f.Windows.RenameFile(pod, `C:\var\lib\kubelet\pods\other`))
			replace(f)
			f.Node.WorkingDirs = []string{`C:\var\lib\kubelet`}
			f.Observe(func(c *win32.Call) error {
				if strings.Contains(strings.ToLower(c.Path), "attacker") {
					t.Errorf("%s opens %s", c.Name, c.Path)
				}
				return c.Do()
			})
			if err := f.disconnect(here, iqn); !errors.Is(err, hosterr.ErrFailedPrecondition) || !strings.Contains(err.Error(), folder) {
				t.Errorf("disconnect = %v, want ErrFailedPrecondition with the folder", err)
			}
		})
	}
}

// The session of a disk that the node itself needs stays, although no volume of it is mounted
// in a folder. Its volume has a drive letter, which alone is no reason.
func TestDisconnectOfNeededDisk(t *testing.T) {
	f, _ := withVolume(t)
	ids, err := f.Windows.VolumeNames()
	f.must(err)
	f.must(f.Windows.SetMountPoint(`K:\`, ids[len(ids)-1]))
	f.Node.WorkingDirs = append(f.Node.WorkingDirs, `K:\kubelet`)
	wants(t, "disconnect", f.disconnect(here, iqn), hosterr.ErrFailedPrecondition, `disk 1 holds the directory K:\kubelet`)
	if f.count("LogoutIScsiTarget")+f.count("RemoveIScsiPersistentTarget") > 0 {
		t.Errorf("%d logouts, %d persistent logins removed", f.count("LogoutIScsiTarget"), f.count("RemoveIScsiPersistentTarget"))
	}
	f.Fail("WindowsDirectory", 0, win32.ERROR_CRC)
	f.Node.WorkingDirs = f.Node.WorkingDirs[:len(f.Node.WorkingDirs)-1]
	wants(t, "disconnect", f.disconnect(here, iqn), hosterr.ErrFailedPrecondition, "cannot find out which disks the node needs")
	f.Observe(nil)
	f.must(f.disconnect(here, iqn))
}

// A disk that starts other machines can be disconnected, and so can one that does not respond.
func TestDisconnectOfDisksThatAreNotNeeded(t *testing.T) {
	for _, dead := range []bool{false, true} {
		f, _ := withVolume(t)
		d, err := storage.OpenDisk(t.Context(), f.Node.Node, 1, storage.ReadWrite)
		f.must(err)
		l, err := d.Layout(t.Context())
		f.must(err)
		l.Partitions[len(l.Partitions)-1].Type = win32.PARTITION_SYSTEM_GUID
		f.must(d.SetLayout(t.Context(), l))
		d.Close()
		f.Observe(func(c *win32.Call) error {
			if dead && c.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX {
				return win32.ERROR_CRC
			}
			return c.Do()
		})
		f.must(f.disconnect(here, iqn))
		if said := strings.Contains(f.log.String(), "Cannot check whether the node needs a disk"); said != dead {
			t.Errorf("dead %t, logged %t", dead, said)
		}
	}
}

// An active partition of a dynamic disk starts other machines, but is also a part of a store
// of several disks.
func TestDisconnectOfAnActiveDynamicDisk(t *testing.T) {
	for _, c := range []struct {
		kind   uint8
		active bool
		want   string
	}{
		{0x42, false, "disk 1 has a dynamic-disk partition"},
		{0x42, true, "disk 1 has a dynamic-disk partition"},
		{0x07, true, ""},
	} {
		f, _ := withVolume(t)
		f.Observe(func(call *win32.Call) error {
			err := call.Do()
			if call.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX && err == nil {
				copy(call.Out, win32.Layout{Style: win32.PARTITION_STYLE_MBR, Partitions: []win32.Partition{
					{Style: win32.PARTITION_STYLE_MBR, Number: 1, Offset: 1 << 20, Length: 1 << 30, MBRType: c.kind, Active: c.active},
				}}.Encode())
			}
			return err
		})
		if c.want == "" {
			f.must(f.disconnect(here, iqn))
			continue
		}
		wants(t, "disconnect", f.disconnect(here, iqn), hosterr.ErrFailedPrecondition, c.want)
	}
}

// A session that does not tell its disks can be ended, with a line in the log.
func TestDisconnectWithoutKnownDisks(t *testing.T) {
	f := connected(t, 1)
	f.Fail("GetDevicesForIScsiSession", 0, win32.ISDSC_CONNECTION_FAILED)
	f.must(f.disconnect(here, iqn))
	if !strings.Contains(f.log.String(), "Cannot check whether disks of an iSCSI session are mounted") {
		t.Error("the log does not say it")
	}
}

// A target that is away leaves a session without a connection, which Windows connects again
// by itself. A driver's retry waits for it, whether the portal is an address or a name.
func TestSessionWithoutConnection(t *testing.T) {
	f := connected(t, 1)
	gone := target(iqn, 1)
	gone.Unreachable = true
	f.must(f.Windows.SetISCSITarget(gone))
	for _, p := range []*iscsi.TargetPortal{here, {TargetAddress: "storage.example.com"}} {
		wants(t, "connect while the target is away", f.connect(p, iqn), hosterr.ErrUnavailable, "reconnecting")
	}
	f.must(f.Windows.SetISCSITarget(target(iqn, 1)))
	f.must(f.connect(here, iqn))
	if n := f.count("LoginIScsiTarget"); n != 1 {
		t.Errorf("%d logins, want one", n)
	}
}

// Another program does the same just before this one, or undoes it.
func TestOtherProgramIsFaster(t *testing.T) {
	f := newFixture(t, target(iqn, 1))
	faster := map[string]error{
		"AddIScsiSendTargetPortal": win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS, "IScsiTargetDiscovery": win32.ISDSC_TARGET_NOT_FOUND,
		"LoginIScsiTarget": win32.ISDSC_TARGET_ALREADY_LOGGED_IN, "RemoveIScsiSendTargetPortal": win32.ISDSC_PORTAL_NOT_FOUND,
	}
	f.Observe(func(c *win32.Call) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		err := faster[c.Name]
		delete(faster, c.Name)
		if err == nil || c.Name != "LoginIScsiTarget" {
			err = errors.Join(c.Do(), err)
		}
		return err
	})
	f.must(f.add(here))
	if got, err := f.discover(here); err != nil || len(got) != 0 {
		t.Errorf("discovered %q, %v, want that the target is gone", got, err)
	}
	f.must(f.connect(here, iqn)) // after the session of the other program has ended
	if f.sessions() != 1 {
		t.Errorf("%d sessions, want one", f.sessions())
	}
	_, err := f.iscsi.RemoveTargetPortal(t.Context(), &iscsi.RemoveTargetPortalRequest{TargetPortal: here})
	f.must(err)
	if len(faster) > 0 {
		t.Errorf("not called: %v", faster)
	}
}

// byAddress is a Windows whose sessions have addresses where a portal has a name, and whose devices may
// have no number yet.
type byAddress struct{ win32.API }

func (b byAddress) GetIScsiSessionList() ([]win32.ISCSISession, error) {
	list, err := b.API.GetIScsiSessionList()
	for _, s := range list {
		for i := range s.Connections {
			s.Connections[i].TargetAddress = address
		}
	}
	return list, err
}

func (b byAddress) GetDevicesForIScsiSession(id win32.ISCSISessionID) ([]win32.ISCSIDevice, error) {
	list, err := b.API.GetDevicesForIScsiSession(id)
	for _, d := range list {
		d.Number.DeviceNumber = ^uint32(0)
		list = append(list, d)
	}
	return list, err
}

// A session cannot be compared with a portal that has a name, and is that of the portal.
func TestPortalWithAName(t *testing.T) {
	const name = "storage.example.com"
	f := newFixture(t, target(iqn, 1, name))
	f.Node.API = byAddress{f.Node.API}
	p := &iscsi.TargetPortal{TargetAddress: name}
	f.must(f.add(p))
	f.must(f.connect(p, iqn))
	f.must(f.connect(p, iqn))
	if got := f.disks(iqn); !slices.Equal(got, []string{"1"}) || f.sessions() != 1 {
		t.Errorf("disks %q in %d sessions, want one each", got, f.sessions())
	}
}

// A format that was cut off keeps its disk open, so that no other one gets its number. It does not keep
// the target connected.
func TestDisconnectAfterAFormatWasCutOff(t *testing.T) {
	f := newFixtureOn(t, nodespec.Config{
		ISCSI:          nodespec.ISCSI{Portals: []nodespec.ISCSIPortal{{Address: address}}, Targets: []nodespec.ISCSITarget{target(iqn, 1)}},
		Services:       []nodespec.Service{{Name: "MSiSCSI", State: "running"}},
		FormatDuration: nodespec.Duration(time.Minute),
		World:          behavior.In("", behavior.Windows{FormatOrder: behavior.FormatHalf, FormatKnows: behavior.FormatAtOnce}),
	})
	f.must(f.add(here))
	f.must(f.connect(here, iqn))
	id := f.volume(1)
	f.During = func() {
		f.During = nil
		f.Clock.Advance(-time.Minute) // the format is in its middle
		f.must(f.Windows.EndFormats())
	}
	if err := f.format(id); err == nil {
		t.Fatal("the format was not cut off")
	}
	f.must(f.disconnect(here, iqn))
}

// On a node with several initiators, one that fails does not make the operation fail.
func TestPartialSuccess(t *testing.T) {
	f := newFixture(t, target(iqn, 1))
	f.Observe(func(c *win32.Call) error {
		if err := c.Do(); err != nil {
			return err
		}
		if c.Name == "AddIScsiSendTargetPortal" || c.Name == "RefreshIScsiSendTargetPortal" {
			return win32.ISDSC_OPERATION_NOT_ALL_SUCCESS
		}
		return nil
	})
	f.must(f.add(here))
	if got, err := f.discover(here); err != nil || len(got) != 1 {
		t.Errorf("discovered %q, %v", got, err)
	}
	if n := strings.Count(f.log.String(), "Not every iSCSI initiator"); n != 2 {
		t.Errorf("the log says it %d times, want twice", n)
	}
}

// The initiator reports a session as busy for a short time.
func TestBusyInitiatorIsRetried(t *testing.T) {
	f := newFixture(t, target(iqn, 1))
	f.must(f.add(here))
	busy := map[string]int{"LoginIScsiTarget": 2, "GetDevicesForIScsiSession": 3, "LogoutIScsiTarget": 2}
	f.Observe(func(c *win32.Call) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if busy[c.Name]--; busy[c.Name] >= 0 {
			return win32.ISDSC_SESSION_BUSY
		}
		return c.Do()
	})
	f.must(f.connect(here, iqn))
	if got := f.disks(iqn); len(got) != 1 {
		t.Errorf("disks = %q", got)
	}
	f.must(f.disconnect(here, iqn))
	busy["GetDevicesForIScsiSession"] = 100
	wants(t, "busy for good", f.connect(here, iqn), hosterr.ErrUnavailable, "busy")
}

// A session may have ended when its disks are listed, or does not report them.
func TestSessions(t *testing.T) {
	const ends, away = "iqn.2003-01.org.example:ends", "iqn.2003-01.org.example:away"
	f := newFixture(t, target(iqn, 2), target(ends, 1), target(away, 1))
	host := iscsiapi.On(f.Node.Node)
	f.must(f.add(here))
	for _, name := range []string{iqn, ends, away} {
		f.must(f.connect(here, name))
	}
	answers := []error{nil, win32.ISDSC_INVALID_SESSION_ID, win32.ISDSC_CONNECTION_FAILED}
	f.Observe(func(c *win32.Call) error {
		if c.Name == "GetDevicesForIScsiSession" {
			err := answers[0]
			answers = answers[1:]
			if err != nil {
				return err
			}
		}
		return c.Do()
	})
	list, err := host.Sessions()
	f.must(err)
	if len(list) != 3 {
		t.Fatalf("sessions %+v, want three", list)
	}
	for n, want := range []struct {
		iqn   string
		disks int
		err   error
	}{{iqn, 2, nil}, {ends, 0, hosterr.ErrNotFound}, {away, 0, hosterr.ErrUnavailable}} {
		s := list[n]
		disks, err := host.DisksOf(s)
		if s.IQN != want.iqn || len(s.Portals) != 1 || s.Portals[0].String() != address+":3260" || len(disks) != want.disks || !errors.Is(err, want.err) {
			t.Errorf("session %+v has disks %v, %v; want %+v", s, disks, err, want)
		}
	}
}

func TestConnectLimitsWaitForDisks(t *testing.T) {
	late := target(iqn, 1)
	late.ArrivalDelay = nodespec.Duration(time.Hour)
	f := newFixture(t, late, target("iqn.2003-01.org.example:empty", 0))
	f.must(f.add(here))
	for _, name := range []string{iqn, "iqn.2003-01.org.example:empty"} {
		begun := f.Clock.Now()
		f.must(f.connect(here, name))
		if took := f.Clock.Now().Sub(begun); took > 11*time.Second {
			t.Errorf("%s: connect took %v", name, took)
		}
	}
	if !strings.Contains(f.log.String(), "disks have not all arrived") {
		t.Error("the log does not say that disks are missing")
	}
}

// twoSessions is a node with two sessions for each target. CSI Proxy made only one of
// them.
type twoSessions struct {
	win32.API
	loggedOut []win32.ISCSISessionID
}

var second = win32.ISCSISessionID{AdapterUnique: 2, AdapterSpecific: 2}

func (s *twoSessions) GetIScsiSessionList() ([]win32.ISCSISession, error) {
	list, err := s.API.GetIScsiSessionList()
	for _, first := range list {
		other := first
		other.ID = second
		list = append(list, other)
	}
	return list, err
}

func (s *twoSessions) LogoutIScsiTarget(id win32.ISCSISessionID) error {
	s.loggedOut = append(s.loggedOut, id)
	if id == second {
		return nil
	}
	return s.API.LogoutIScsiTarget(id)
}

func TestDisconnectEndsAllSessions(t *testing.T) {
	f := connected(t, 1)
	node := &twoSessions{API: f.Node.API}
	f.Node.API = node
	f.must(f.disconnect(here, iqn))
	if len(node.loggedOut) != 2 || node.loggedOut[0] == node.loggedOut[1] || f.sessions() != 0 {
		t.Errorf("logged out of %v, %d sessions are left; want both ended", node.loggedOut, f.sessions())
	}
}

func TestDisconnectRemovesPersistentLogins(t *testing.T) {
	c := target(iqn, 1)
	c.Persistent = true
	f := newFixture(t, c)
	f.must(f.add(here))
	if got := f.disks(iqn); !slices.Equal(got, []string{"1"}) {
		t.Fatalf("disks = %q, want that Windows logged in by itself", got)
	}
	f.must(f.disconnect(here, iqn))
	f.must(f.Windows.Reboot())
	f.must(f.Windows.StartService("MSiSCSI"))
	f.must(f.add(here))
	if got := f.disks(iqn); len(got) != 0 {
		t.Errorf("disks after a reboot: %q, want that the login was forgotten", got)
	}
}

// No secret appears in printed values: a driver in process prints them. TestSecretsAreNotWritten of
// the daemon has logs, traces of calls, errors and state files.
func TestSecretsAreNotPrinted(t *testing.T) {
	f := newFixture(t, withCHAP())
	f.must(f.add(here))
	f.must(f.mutual(proof))
	f.must(f.chap(iscsi.MUTUAL_CHAP, "csi", right))
	connect := iscsi.ConnectTargetRequest{TargetPortal: here, IQN: iqn, AuthType: iscsi.ONE_WAY_CHAP, ChapUsername: "csi", ChapSecret: right}
	set := iscsi.SetMutualChapSecretRequest{MutualChapSecret: proof}
	password := win32.NewSecret(right)
	info, err := f.Windows.Show()
	f.must(err)
	var written bytes.Buffer
	for _, v := range []any{connect, &connect, set, &set, []any{connect, &set}, struct{ In *iscsi.ConnectTargetRequest }{&connect},
		password, win32.ISCSILogin{Password: &password}, withCHAP(), nodespec.Config{ISCSI: nodespec.ISCSI{Targets: []nodespec.ISCSITarget{withCHAP()}}}.ISCSI.Targets[0].CHAP, info} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&written, verb+"\n", v)
		}
	}
	for _, v := range []any{connect, &connect, set, &set, password, win32.ISCSILogin{Password: &password}, info} {
		text, err := json.Marshal(v)
		f.must(err)
		written.Write(text)
		slog.New(slog.NewTextHandler(&written, nil)).Info("request", "in", v)
		slog.New(slog.NewJSONHandler(&written, nil)).Info("request", "in", v)
	}
	f.mu.Lock()
	written.Write(f.log.Bytes())
	f.mu.Unlock()
	if written.Len() < 5000 {
		t.Fatalf("collected only %d bytes of output", written.Len())
	}
	for _, secret := range []string{right, proof, fmt.Sprintf("%x", right), fmt.Sprintf("%x", proof)} {
		if at := bytes.Index(written.Bytes(), []byte(secret)); at >= 0 {
			t.Errorf("the output contains %q: …%s…", secret, written.Bytes()[max(0, at-80):min(written.Len(), at+80)])
		}
	}
}

func TestCallerDeadline(t *testing.T) {
	f := newFixture(t, target(iqn, 1))
	f.must(f.add(here))
	hold := make(chan struct{})
	entered := make(chan struct{})
	f.Observe(func(c *win32.Call) error {
		if c.Name == "LoginIScsiTarget" {
			close(entered)
			<-hold
		}
		return c.Do()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := f.iscsi.ConnectTarget(ctx, &iscsi.ConnectTargetRequest{TargetPortal: here, IQN: iqn}); !errors.Is(err, context.Canceled) {
		t.Errorf("ConnectTarget = %v, want context.Canceled", err)
	}
	// The retry waits for the login in progress, and makes no second one.
	done := make(chan error, 1)
	go func() { done <- f.connect(here, iqn) }()
	close(hold)
	if err := <-done; err != nil || f.count("LoginIScsiTarget") != 1 {
		t.Errorf("retry = %v after %d logins, want one", err, f.count("LoginIScsiTarget"))
	}
}
