package volume_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// slots is a node with the default policy of Windows Server, on whose slots disks come and go.
type slots struct {
	*fixture
	log bytes.Buffer
}

func newSlots(t *testing.T, writable string) *slots {
	s := &slots{}
	s.fixture = newFixture(t, nodespec.Config{
		Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		World: behavior.In("", behavior.Windows{
			SANPolicy: nodespec.SANOfflineShared, Attach: nodespec.AttachSeen, Automount: nodespec.AutomountEnabled,
			OfflineReads: behavior.OfflineReadsRefused, IsWritable: writable,
		}),
	})
	return s
}

// put attaches a disk with a volume to a slot.
func (s *slots) put(slot uint8, id string, protected bool) uint32 {
	s.t.Helper()
	d := data(gib, "NTFS")
	d.WriteProtected = protected
	return s.putDisk(slot, id, d)
}

func (s *slots) putDisk(slot uint8, id string, d nodespec.Disk) uint32 {
	s.t.Helper()
	d.ID, d.Serial, d.Bus, d.Address = id, id, "scsi", &nodespec.Address{Target: slot}
	n, err := s.Windows.Attach(d)
	if err == nil {
		err = s.Windows.AwaitDisk(n)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *slots) take(number uint32) {
	s.t.Helper()
	if err := s.Windows.Detach(number); err != nil {
		s.t.Fatal(err)
	}
}

func (s *slots) is(number uint32, online, readOnly bool) {
	s.t.Helper()
	got, err := s.disk.GetDiskState(s.t.Context(), &disk.GetDiskStateRequest{DiskNumber: number})
	if err != nil {
		s.t.Fatal(err)
	}
	if got.IsOnline != online || s.readOnly(number) != readOnly {
		s.t.Errorf("disk %d: online %t and read-only %t, want %t and %t", number, got.IsOnline, s.readOnly(number), online, readOnly)
	}
}

// use takes a disk online and mounts its volume.
func (s *slots) use(number uint32, target string) {
	s.t.Helper()
	if err := s.setState(number, true); err != nil {
		s.t.Fatal(err)
	}
	s.mkdir(target)
	if err := s.mount(s.id(number), target); err != nil {
		s.t.Fatal(err)
	}
}

// The existing proxy took disks online and left them read-only, and Windows remembers that for
// the slot. After the upgrade, the next disk in such a slot can be written, and a disk that a
// pod has mounted is not touched.
func TestSlotThatTheExistingProxyUsed(t *testing.T) {
	for _, writable := range writables {
		t.Run(writable, func(t *testing.T) {
			s := newSlots(t, writable)
			s.Node.KeepReadOnly = true // as the existing proxy
			before, mounted := s.put(1, "before", false), s.put(2, "mounted", false)
			for _, n := range []uint32{before, mounted} {
				s.is(n, false, true)
				s.use(n, kubelet+`\`+string(rune('a'+n)))
				s.is(n, true, true)
			}
			if err := s.unmount(s.id(before), kubelet+`\`+string(rune('a'+before))); err != nil {
				t.Fatal(err)
			}
			s.take(before)

			s.Node.KeepReadOnly = false // the upgrade
			next := s.put(1, "next", false)
			s.is(next, true, true)
			s.use(next, kubelet+`\next`)
			s.is(next, true, false)
			s.mkdir(kubelet + `\next\written`)
			s.unchanged(func() {
				if err := s.setState(mounted, true); err != nil {
					t.Error(err)
				}
			})
			s.is(mounted, true, true)
			for _, text := range []string{"A disk is online and read-only, and stays so", `serial=next flag="-read-only-disks=writable"`} {
				if !strings.Contains(s.log.String(), text) {
					t.Errorf("the log does not have %q:\n%s", text, &s.log)
				}
			}
			if err := s.Windows.Reboot(); err != nil {
				t.Fatal(err)
			}
			for id, readOnly := range map[string]bool{"next": false, "mounted": true} {
				s.is(s.numbered(id), true, readOnly)
			}
		})
	}
}

// numbered returns the number of the disk with this serial number.
func (s *slots) numbered(serial string) uint32 {
	s.t.Helper()
	out, err := s.disk.ListDiskIDs(s.t.Context(), &disk.ListDiskIDsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for n, ids := range out.DiskIDs {
		if ids.SerialNumber == serial {
			return n
		}
	}
	s.t.Fatalf("no disk %q", serial)
	return 0
}

// Azure attaches disks to one LUN one after the other. What a read-only disk was stays its own.
func TestReadOnlyDiskThenAnotherInItsSlot(t *testing.T) {
	for _, writable := range writables {
		t.Run(writable, func(t *testing.T) {
			s := newSlots(t, writable)
			many := s.put(1, "many", true)
			s.use(many, kubelet+`\many`)
			if !strings.Contains(s.log.String(), "whose medium cannot be written") {
				t.Errorf("log:\n%s", &s.log)
			}
			s.unchanged(func() {
				if err := s.setState(many, true); err != nil {
					t.Error(err)
				}
			})
			if out, err := s.disk.GetDiskReadOnly(t.Context(), &disk.GetDiskReadOnlyRequest{DiskNumber: many}); err != nil || !out.IsReadOnly {
				t.Errorf("GetDiskReadOnly of a protected medium: %+v, %v", out, err)
			}
			if err := s.unmount(s.id(many), kubelet+`\many`); err != nil {
				t.Fatal(err)
			}
			s.take(many)

			one := s.put(1, "one", false)
			s.is(one, true, false)
			s.use(one, kubelet+`\one`)
			s.mkdir(kubelet + `\one\written`)
		})
	}
}

// What stays read-only although it is online: a disk that is in use, one that SetDiskReadOnly
// made read-only, all of them with -read-only-disks=keep, and one that the node needs.
func TestOnlineReadOnlyDiskThatStaysSo(t *testing.T) {
	set := func(s *slots, n uint32, readOnly bool) {
		s.t.Helper()
		if _, err := s.disk.SetDiskReadOnly(s.t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: n, IsReadOnly: readOnly}); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		why  string
		make func(s *slots, n uint32) (undo func())
	}{
		"in use": {"it is in use", func(s *slots, n uint32) func() {
			h, err := s.Windows.CreateFile(strings.TrimSuffix(s.id(n), `\`), win32.GENERIC_READ, 3, win32.OPEN_EXISTING, 0)
			if err != nil {
				s.t.Fatal(err)
			}
			return func() { s.Windows.CloseHandle(h) }
		}},
		"mounted": {"mounted at", func(s *slots, n uint32) func() {
			target := kubelet + `\m`
			s.mkdir(target)
			s.Node.KeepReadOnly = true
			if err := s.mount(s.id(n), target); err != nil {
				s.t.Fatal(err)
			}
			s.Node.KeepReadOnly = false
			return func() {
				if err := s.unmount(s.id(n), target); err != nil {
					s.t.Fatal(err)
				}
			}
		}},
		"by SetDiskReadOnly": {"SetDiskReadOnly", func(s *slots, n uint32) func() {
			set(s, n, true)
			return func() { set(s, n, false) }
		}},
		"by the flag": {"-read-only-disks=keep", func(s *slots, n uint32) func() {
			s.Node.KeepReadOnly = true
			return func() { s.Node.KeepReadOnly = false }
		}},
		"needed": {"holds the directory", func(s *slots, n uint32) func() {
			target := kubelet + `\n`
			s.mkdir(target)
			s.Node.KeepReadOnly = true
			if err := s.mount(s.id(n), target); err != nil {
				s.t.Fatal(err)
			}
			s.Node.KeepReadOnly, s.Node.ProtectedDirs = false, []string{target}
			return func() {
				s.Node.ProtectedDirs = nil
				if err := s.unmount(s.id(n), target); err != nil {
					s.t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlots(t, behavior.WritableMedium)
			s.Node.KeepReadOnly = true
			n := s.put(1, "one", false)
			if err := s.setState(n, true); err != nil {
				t.Fatal(err)
			}
			s.Node.KeepReadOnly = false
			undo := c.make(s, n)
			if err := s.setState(n, true); err != nil {
				t.Fatal(err)
			}
			s.is(n, true, true)
			if !strings.Contains(s.log.String(), c.why) {
				t.Errorf("the log does not say %q:\n%s", c.why, &s.log)
			}
			undo()
			if err := s.setState(n, true); err != nil {
				t.Fatal(err)
			}
			s.is(n, true, false)
		})
	}
}

// A disk that SetDiskReadOnly made read-only stays so when it goes offline and online, and
// another one that gets its number does not.
func TestReadOnlyByRequest(t *testing.T) {
	// Azure's disks have no serial numbers, and are all of one product.
	azure := func(identifiers func(id string) []nodespec.Identifier) func(*slots, uint8, string, bool) uint32 {
		return func(s *slots, slot uint8, id string, _ bool) uint32 {
			d := data(gib, "NTFS")
			d.ID, d.Bus, d.Vendor, d.Product, d.Address, d.Identifiers = id, "sas", "Msft    ", "Virtual Disk    ", &nodespec.Address{Target: slot}, identifiers(id)
			n, err := s.Windows.Attach(d)
			if err == nil {
				err = s.Windows.AwaitDisk(n)
			}
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		}
	}
	for name, put := range map[string]func(*slots, uint8, string, bool) uint32{
		"serial numbers": (*slots).put,
		"page 83h": azure(func(id string) []nodespec.Identifier {
			return []nodespec.Identifier{{Type: 3, CodeSet: "binary", Hex: hex.EncodeToString([]byte("node" + id))}}
		}),
		"tables": azure(func(string) []nodespec.Identifier { return nil }),
	} {
		t.Run(name, func(t *testing.T) { readOnlyByRequest(t, put) })
	}
}

func readOnlyByRequest(t *testing.T, put func(s *slots, slot uint8, id string, protected bool) uint32) {
	s := newSlots(t, behavior.WritableMedium)
	n := put(s, 1, "one", false)
	if _, err := s.disk.SetDiskReadOnly(t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: n, IsReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.setState(n, true); err != nil {
			t.Fatal(err)
		}
		s.is(n, true, true)
		if err := s.setState(n, false); err != nil {
			t.Fatal(err)
		}
	}
	s.take(n)
	if again := put(s, 1, "two", false); again != n {
		t.Fatalf("disk %d, want %d", again, n)
	}
	if err := s.setState(n, true); err != nil {
		t.Fatal(err)
	}
	s.is(n, true, false)
}

// Windows remembers for a slot what was asked for, and nothing that passes: what a look at an
// offline disk, its end, or disk clear sets.
func TestWhatWindowsRemembers(t *testing.T) {
	type set struct {
		attributes uint64
		persist    bool
	}
	const offline, readOnly = win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_READ_ONLY
	clearing := func(c diskapi.Clearing) func(*slots, uint32) error {
		return func(s *slots, n uint32) error {
			_, err := diskapi.On(s.Node.Node).ClearDisk(n, c)
			return err
		}
	}
	for name, c := range map[string]struct {
		do    func(s *slots, n uint32) error
		fails bool
		want  []set
	}{
		"SetDiskState online": {func(s *slots, n uint32) error { return s.setState(n, true) }, false, []set{{0, true}}},
		"SetDiskState offline": {func(s *slots, n uint32) error {
			if err := s.setState(n, true); err != nil {
				return err
			}
			return s.setState(n, false)
		}, false, []set{{0, true}, {offline, true}}},
		"SetDiskReadOnly": {func(s *slots, n uint32) error {
			_, err := s.disk.SetDiskReadOnly(s.t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: n})
			return err
		}, false, []set{{0, true}}},
		"a look that refuses": {func(s *slots, n uint32) error {
			s.take(n)
			n = s.putDisk(2, "other", nodespec.Disk{Size: gib, Bytes: []nodespec.Bytes{{At: 0, Data: []byte("XFSB")}}})
			_, err := s.disk.PartitionDisk(s.t.Context(), &disk.PartitionDiskRequest{DiskNumber: n})
			return err
		}, true, []set{{readOnly, false}, {offline | readOnly, false}}},
		"a dry run of disk clear": {clearing(diskapi.Clearing{DryRun: true}), false, []set{{readOnly, false}, {offline | readOnly, false}}},
		"disk clear":              {clearing(diskapi.Clearing{Identity: "one"}), false, []set{{readOnly, false}, {0, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlots(t, behavior.WritableMedium)
			n := s.put(1, "one", false)
			var got []set
			s.Observe(func(c *win32.Call) error {
				if c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES {
					a, err := win32.DecodeSetDiskAttributes(c.In)
					if err != nil {
						t.Error(err)
					}
					got = append(got, set{a.Attributes, a.Persist})
				}
				return c.Do()
			})
			if err := c.do(s, n); (err != nil) != c.fails {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("attributes and whether they persist: %v, want %v", got, c.want)
			}
		})
	}
}

// A disk that SetDiskState takes offline for a moment, to make it writable, is online again whatever
// fails then, also if the caller is gone.
func TestDiskThatCannotBecomeWritableIsOnlineAgain(t *testing.T) {
	for name, fails := range map[string]func(c *win32.Call, gone func()) error{
		"what it is used for": func(c *win32.Call, _ func()) error {
			if c.Name == "RegistryText" {
				return win32.ERROR_ACCESS_DENIED
			}
			return c.Do()
		},
		"the attributes": func(c *win32.Call, _ func()) error {
			if a, err := win32.DecodeSetDiskAttributes(c.In); c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES && err == nil && a.Mask&win32.DISK_ATTRIBUTE_READ_ONLY != 0 {
				return win32.ERROR_IO_DEVICE
			}
			return c.Do()
		},
		"its caller": func(c *win32.Call, gone func()) error {
			gone()
			if c.Code == win32.IOCTL_DISK_GET_DISK_ATTRIBUTES {
				return win32.ERROR_NOT_READY // asked again
			}
			return c.Do()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlots(t, behavior.WritableMedium)
			s.Node.KeepReadOnly = true
			n := s.put(1, "one", false)
			if err := s.setState(n, true); err != nil {
				t.Fatal(err)
			}
			s.Node.KeepReadOnly = false
			ctx, gone := context.WithCancel(t.Context())
			var offline, ended atomic.Bool
			s.Observe(func(c *win32.Call) error {
				if offline.Load() && !ended.Load() {
					return fails(c, gone)
				}
				err := c.Do()
				if a, failed := win32.DecodeSetDiskAttributes(c.In); c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES && failed == nil && a.Attributes == win32.DISK_ATTRIBUTE_OFFLINE {
					offline.Store(true)
				}
				return err
			})
			_, err := s.disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: n, IsOnline: true})
			if !offline.Load() || err == nil {
				t.Errorf("SetDiskState = %v, and the disk was offline %t; want an error after that", err, offline.Load())
			}
			ended.Store(true)
			s.is(n, true, true)
			if err := s.setState(n, true); err != nil {
				t.Fatal(err)
			}
			s.is(n, true, false)
		})
	}
}
