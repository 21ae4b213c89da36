package volume_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// restart makes the fixture's services those of a process that has just started.
func (f *fixture) restart() {
	f.t.Helper()
	old := f.Node.Node
	f.Node.Node = node.New(old.API)
	f.Node.Node.Clock, f.Node.Node.Log, f.Node.Node.UsersModify = old.Clock, old.Log, old.UsersModify
	var err error
	if f.disk, err = disk.New(diskapi.On(f.Node.Node)); err != nil {
		f.t.Fatal(err)
	}
	if f.volume, err = volume.New(volumeapi.On(f.Node.Node)); err != nil {
		f.t.Fatal(err)
	}
}

// serial is that of the disk whose format is cut off.
const serial = "cutoff-1"

// beginFormat begins a format of disk 1, which has one partition, and cuts it off with cut. It
// returns the error of FormatVolume.
func beginFormat(t *testing.T, order string, wmi bool, cut func(*fixture) error) (*fixture, string, error) {
	t.Helper()
	return beginFormatOf(t, data(gib, ""), order, wmi, func(*fixture) {}, cut)
}

// beginFormatOf is beginFormat of another disk, after prepare.
func beginFormatOf(t *testing.T, d nodespec.Disk, order string, wmi bool, prepare func(*fixture), cut func(*fixture) error) (*fixture, string, error) {
	t.Helper()
	cfg := nodespec.Config{FormatDuration: nodespec.Duration(time.Minute), World: behavior.In("", behavior.Windows{FormatOrder: order, FormatKnows: behavior.FormatAtOnce, DiskNumbers: nodespec.DiskNumbersKept})}
	if !wmi {
		cfg.World = behavior.In(cfg.World, behavior.Windows{FormatKnows: behavior.FormatNever})
	}
	d.ID, d.Serial = "cut", serial
	f := newFixture(t, cfg, d)
	id := f.id(1)
	prepare(f)
	f.During = func() {
		f.During = nil
		f.Clock.Advance(-time.Minute) // the format is in its middle
		if err := cut(f); err != nil {
			t.Error(err)
		}
	}
	err := f.format(id)
	if f.During != nil {
		t.Fatalf("no format began: %v", err)
	}
	return f, id, err
}

func formatOrders() []string {
	return []string{behavior.FormatBootFirst, behavior.FormatHalf, behavior.FormatBackupFirst, behavior.FormatBootLast, behavior.FormatAtEnd}
}

// processDies ends the process of csi-proxy, and starts another one.
func processDies(f *fixture) error {
	defer f.restart()
	return f.Windows.EndProcess()
}

// How a format ends that was cut off: by whom, in which process it ran, what it has left, and
// what the next requests find.
func TestFormatThatIsCutOff(t *testing.T) {
	const (
		formatted = "formatted"       // the format went on
		finished  = "finished"        // the next FormatVolume finishes it
		refused   = "refused by name" // until the remedy
		blank     = "blank"           // it has left nothing
	)
	for _, c := range []struct {
		by   string
		wmi  bool
		cut  func(*fixture) error
		ends string
	}{
		{"the end of csi-proxy", true, func(f *fixture) error { defer f.mayStillRun(); return processDies(f) }, formatted},
		{"the end of csi-proxy", false, processDies, refused},
		{"the end of the provider of WMI", true, func(f *fixture) error { return f.Windows.EndFormats() }, finished},
		{"the end of the helper", false, func(f *fixture) error { return f.Windows.EndFormats() }, finished},
		{"the end of the node", true, func(f *fixture) error { defer f.restart(); return f.Windows.Reboot() }, refused},
		{"the end of the node", false, func(f *fixture) error { defer f.restart(); return f.Windows.Reboot() }, refused},
		{"the detaching of the disk", true, func(f *fixture) error { return f.Windows.Detach(1) }, refused},
		{"the detaching of the disk", false, func(f *fixture) error { return f.Windows.Detach(1) }, refused},
	} {
		for _, order := range formatOrders() {
			if order == behavior.FormatAtEnd && c.ends != formatted {
				c.ends = blank
			}
			way := map[bool]string{true: "WMI", false: "fmifs"}[c.wmi]
			t.Run(fmt.Sprintf("%s, %s, %s: %s", c.by, way, order, c.ends), func(t *testing.T) {
				f, id, _ := beginFormat(t, order, c.wmi, c.cut)
				if strings.Contains(c.by, "detaching") {
					f.attach(nodespec.Disk{ID: "cut"})
				}
				ok, err := f.formatted(id)
				switch {
				case c.ends == blank:
					if ok || err != nil {
						t.Errorf("formatted: %t, %v, want false", ok, err)
					}
				case c.ends == formatted:
					if !ok || err != nil {
						t.Errorf("formatted: %t, %v, want true", ok, err)
					}
				case c.ends == finished:
					if ok || err != nil {
						t.Errorf("formatted: %t, %v, want false", ok, err)
					}
					if err := f.resize(id, 0); err != nil {
						t.Errorf("resize: %v", err)
					}
				default:
					t.Logf("IsVolumeFormatted: %v", err)
					f.unchanged(func() {
						wantKind(t, err, hosterr.ErrFailedPrecondition)
						for _, err := range []error{err, f.format(id), f.resize(id, 0)} {
							if kind := hosterr.KindOf(err); kind != hosterr.ErrFailedPrecondition || !strings.Contains(hosterr.HintOf(err), "disk clear") {
								t.Errorf("%v, hint %q, want a refusal with the remedy", err, hosterr.HintOf(err))
							}
						}
					})
					id = remedy(f)
				}
				if err := f.format(id); err != nil {
					t.Fatalf("the next format: %v", err)
				}
				if ok, err := f.formatted(id); !ok || err != nil {
					t.Errorf("at the end: formatted %t, %v", ok, err)
				}
				if open := f.Windows.OpenHandles(); len(open) > 0 {
					t.Errorf("open: %q", open)
				}
			})
		}
	}
}

// mayStillRun checks what requests find while a format goes on that another process began.
func (f *fixture) mayStillRun() {
	f.t.Helper()
	id := f.id(1)
	f.unchanged(func() {
		_, formatted := f.formatted(id)
		for _, err := range []error{formatted, f.format(id), f.resize(id, 0)} {
			wantKind(f.t, err, hosterr.ErrUnavailable, "a format of it may still run")
			if hint := hosterr.HintOf(err); strings.Contains(hint, "clear") {
				f.t.Errorf("hint %q", hint)
			}
		}
	})
	f.Clock.Advance(time.Minute)
}

// remedy does what the hint of a refused format says, and returns the disk's new volume.
func remedy(f *fixture) string {
	f.t.Helper()
	if _, err := f.disk.Clear(f.t.Context(), 1, diskapi.Clearing{Identity: serial}); err != nil {
		f.t.Fatal(err)
	}
	return freshVolume(f)
}

// A format that was cut off is finished only while it is certain that nothing else has been on
// the volume.
func TestFormatIsForgotten(t *testing.T) {
	target := kubelet + `\m`
	for name, happens := range map[string]func(f *fixture, id string) error{
		"the disk was detached": func(f *fixture, _ string) error {
			defer f.attach(nodespec.Disk{ID: "cut"})
			return f.Windows.Detach(1)
		},
		"another disk has its number": func(f *fixture, _ string) error {
			err := f.Windows.Detach(1)
			f.attach(nodespec.Disk{ID: "other"})
			f.attach(nodespec.Disk{ID: "cut"})
			return err
		},
		"the disk was taken offline": func(f *fixture, _ string) error {
			return errors.Join(f.setState(1, false), f.setState(1, true))
		},
		"MountVolume mounted it": func(f *fixture, id string) error {
			f.mkdir(target)
			return errors.Join(f.mount(id, target), f.unmount(id, target))
		},
		"another program mounted it": func(f *fixture, id string) error {
			f.mkdir(target)
			return f.Windows.SetMountPoint(target+`\`, id)
		},
		"the process ended": func(f *fixture, _ string) error { return processDies(f) },
	} {
		t.Run(name, func(t *testing.T) {
			f, id, err := beginFormat(t, behavior.FormatHalf, true, func(f *fixture) error { return f.Windows.EndFormats() })
			if err == nil {
				t.Fatal("the format succeeded")
			}
			if ok, err := f.formatted(id); ok || err != nil {
				t.Fatalf("formatted: %t, %v, want false", ok, err)
			}
			if err := happens(f, id); err != nil {
				t.Fatal(err)
			}
			f.unchanged(func() {
				_, err := f.formatted(id)
				wantKind(t, err, hosterr.ErrFailedPrecondition, "it contains data")
				wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "it contains data")
				wantKind(t, f.resize(id, 0), hosterr.ErrFailedPrecondition, "it contains data")
			})
			if open := f.Windows.OpenHandles(); len(open) > 0 {
				t.Errorf("open: %q", open)
			}
		})
	}
}

// A disk that stays online because its volume is in use has the format that was cut off as before.
func TestFormatIsKeptIfItsDiskStaysOnline(t *testing.T) {
	f, id, err := beginFormat(t, behavior.FormatHalf, true, func(f *fixture) error { return f.Windows.EndFormats() })
	if err == nil {
		t.Fatal("the format succeeded")
	}
	h, err := f.Windows.CreateFile(strings.TrimSuffix(id, `\`), win32.GENERIC_READ, 3, win32.OPEN_EXISTING, 0)
	if err := errors.Join(err, f.Windows.SetMountPoint(`E:\`, id)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.setState(1, false), hosterr.ErrFailedPrecondition, "it is in use")
	if err := errors.Join(f.Windows.CloseHandle(h), f.format(id)); err != nil {
		t.Errorf("the next format: %v", err)
	}
}

// A disk that was detached while its format was not finished is closed by the next Rescan.
func TestRescanForgetsFormats(t *testing.T) {
	f, _, _ := beginFormat(t, behavior.FormatHalf, true, func(f *fixture) error { return f.Windows.EndFormats() })
	if err := f.Windows.Detach(1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
}

// What a format has left proves nothing about other content, and nothing about files.
func TestBegunFormatKeepsOtherContent(t *testing.T) {
	begun := func(order string) (*fixture, string) {
		f, id, _ := beginFormat(t, order, true, func(f *fixture) error { return f.Windows.EndFormats() })
		return f, id
	}
	f, id := begun(behavior.FormatBackupFirst)
	at := int64(f.layout(1).Partitions[1].Offset)
	f.write(1, at+0x400, "\x10")     // inodes
	f.write(1, at+0x438, "\x53\xef") // ext4
	f.write(1, at+0x460, "\x40")
	f.unchanged(func() {
		_, err := f.formatted(id)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "ext4")
		wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "ext4")
	})
	f.disk.SetDiskState(t.Context(), &disk.SetDiskStateRequest{DiskNumber: 1}) // closes it

	f, id = begun(behavior.FormatHalf)
	if err := f.Windows.Format(id, win32.FormatOptions{}); err != nil {
		t.Fatal(err)
	}
	h, err := f.Windows.NtCreateFile(0, `\??\`+id[4:]+`precious`, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, 7,
		win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Windows.CloseHandle(h); err != nil {
		t.Fatal(err)
	}
	f.unchanged(func() {
		if ok, err := f.formatted(id); !ok || err != nil {
			t.Errorf("formatted: %t, %v, want true", ok, err)
		}
		wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "precious")
	})
}

// A volume whose format did not end well is not formatted while it cannot be read: it may have other
// content by now.
func TestBegunFormatKeepsWhatCannotBeRead(t *testing.T) {
	f, id, err := beginFormat(t, behavior.FormatBackupFirst, true, func(f *fixture) error { return f.Windows.EndFormats() })
	if err == nil {
		t.Fatal("the format succeeded")
	}
	f.write(1, int64(f.layout(1).Partitions[1].Offset)+0x218, "LVM2 001")
	f.Observe(func(c *win32.Call) error {
		switch c.Name {
		case "ReadAt":
			return win32.ERROR_CRC
		case "Format":
			t.Error("it is formatted")
		}
		return c.Do()
	})
	if ok, err := f.formatted(id); err == nil {
		t.Errorf("formatted: %t, want an error", ok)
	}
	if err := f.format(id); err == nil {
		t.Error("the format of what cannot be read succeeds")
	}
	f.Observe(nil)
	f.disk.SetDiskState(t.Context(), &disk.SetDiskStateRequest{DiskNumber: 1}) // closes the disk of the format
}

// What another program has written stays even if Windows says of the volume that it is damaged, as it
// does of the boot sector that a format leaves, and opens it for queries only.
func TestBegunFormatOfDamagedKeepsOtherContent(t *testing.T) {
	for _, closed := range []bool{false, true} {
		f, id, err := beginFormat(t, behavior.FormatBootFirst, true, func(f *fixture) error { return f.Windows.EndFormats() })
		if err == nil {
			t.Fatal("the format succeeded")
		}
		if closed {
			f.Node.Node.API = damagedVolume{f.Node.Node.API, strings.TrimSuffix(id, `\`)}
		}
		at := int64(f.layout(1).Partitions[1].Offset)
		f.write(1, at+0x218, "LVM2 001")
		f.unchanged(func() {
			_, err := f.formatted(id)
			wantKind(t, err, hosterr.ErrFailedPrecondition, "damaged")
			wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "damaged")
		})
		f.write(1, at+0x218, strings.Repeat("\x00", 8))
		if err := f.format(id); err != nil {
			t.Errorf("the next format: %v", err)
		}
	}
}

// damagedVolume is a node that opens a volume for queries only.
type damagedVolume struct {
	win32.API
	path string
}

func (d damagedVolume) CreateFile(path string, access, share, disposition, flags uint32) (win32.Handle, error) {
	if path == d.path && access != 0 {
		return 0, win32.ERROR_FILE_CORRUPT
	}
	return d.API.CreateFile(path, access, share, disposition, flags)
}

// A format that may overwrite content, by a rule of the node, is finished over what it has not
// overwritten yet, and not over what another program writes.
func TestBegunFormatOverContent(t *testing.T) {
	start := int64(newFixture(t, nodespec.Config{}, data(gib, "")).layout(1).Partitions[1].Offset)
	for name, rule := range map[string]func(*fixture){
		"cleaned": func(f *fixture) { f.Node.DiskContent = rules.DiskContentCleaned },
		"unknown": func(f *fixture) { f.Node.DiskContent = rules.DiskContentUnknown },
		"existing": func(f *fixture) {
			f.Node.FormatExisting = true
			f.mkdir(kubelet + `\m`)
			if err := errors.Join(f.mount(f.id(1), kubelet+`\m`), winfs.MkdirAll(f.t.Context(), f.Node.Node, kubelet+`\m\data`), f.unmount(f.id(1), kubelet+`\m`)); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		for _, order := range formatOrders() {
			t.Run(name+", "+order, func(t *testing.T) {
				d := data(gib, map[bool]string{true: "NTFS"}[name == "existing"])
				d.Bytes = []nodespec.Bytes{{At: nodespec.Size(start + 64*mib + 0x40), Data: []byte("_BHRfS_M")}} // btrfs
				f, id, err := beginFormatOf(t, d, order, true, rule, func(f *fixture) error { return f.Windows.EndFormats() })
				if err == nil {
					t.Fatal("the format succeeded")
				}
				if ok, err := f.formatted(id); ok || err != nil {
					t.Errorf("formatted: %t, %v, want false", ok, err)
				}
				if order != behavior.FormatBootFirst { // Windows says that it is damaged
					f.write(1, start+0x218, "LVM2 001")
					f.unchanged(func() {
						_, err := f.formatted(id)
						wantKind(t, err, hosterr.ErrFailedPrecondition, "LVM2")
						wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "LVM2")
					})
					f.write(1, start+0x218, strings.Repeat("\x00", 8))
				}
				if err := f.format(id); err != nil {
					t.Errorf("the next format: %v", err)
				}
				if ok, err := f.formatted(id); !ok || err != nil {
					t.Errorf("at the end: formatted %t, %v", ok, err)
				}
			})
		}
	}
}
