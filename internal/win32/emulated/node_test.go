package emulated

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// TestConcurrentCalls runs several drivers while disks are attached and detached.
// Their calls may fail with any error that Windows would return then, and the
// node stays valid.
func TestConcurrentCalls(t *testing.T) {
	dir := t.TempDir()
	n := start(t, nodespec.Config{StateDir: dir, FormatDuration: nodespec.Duration(100 * time.Microsecond), Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}},
		Directories: []string{`C:\mnt\0`, `C:\mnt\1`, `C:\mnt\2`, `C:\mnt\3`}})
	n.Store.CompactAt = 256 * kib
	// The errors of a call whose disk or volume is removed during the call.
	expected := func(err error) bool {
		return err == nil || win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DEVICE_NOT_CONNECTED,
			win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_ACCESS_DENIED, win32.ERROR_UNRECOGNIZED_VOLUME, win32.ERROR_WRITE_PROTECT,
			win32.ERROR_DIR_NOT_EMPTY, win32.ERROR_NOT_A_REPARSE_POINT, win32.ERROR_NOT_READY, win32.ERROR_INVALID_PARAMETER)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			id := fmt.Sprintf("lun-%d", worker)
			number := uint32(10 + worker)
			mount := fmt.Sprintf(`C:\mnt\%d\`, worker)
			for range 150 {
				var err error
				path := fmt.Sprintf(`\\.\PhysicalDrive%d`, 10+r.IntN(4))
				switch r.IntN(9) {
				case 0:
					n.Attach(nodespec.Disk{ID: id, Number: &number, Size: 64 * mib})
				case 1:
					n.Detach(number)
				case 2:
					n.Grow(number, uint64(64+r.IntN(64))*mib)
				case 3, 4:
					var h win32.Handle
					if h, err = n.CreateFile(path, readWrite, shareBoth, win32.OPEN_EXISTING, 0); err != nil {
						break
					}
					in := win32.CreateDisk{DiskID: guid(byte(worker))}.Encode()
					if _, err = n.DeviceIoControl(h, win32.IOCTL_DISK_CREATE_DISK, in, nil); err == nil {
						_, err = n.DeviceIoControl(h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, gpt(data(byte(worker), mib, 32*mib)).Encode(), nil)
					}
					err = errors.Join(err, n.CloseHandle(h))
				default:
					var names []string
					if names, err = n.VolumeNames(); err != nil || len(names) == 0 {
						break
					}
					vol := names[r.IntN(len(names))]
					if vol == volume.NameOf(n.systemVolume()) {
						break
					}
					switch r.IntN(4) {
					case 0:
						err = n.Format(vol, quick)
					case 1:
						_, _, _, err = n.FreeSpace(vol)
					case 2:
						err = n.SetMountPoint(mount, vol)
					case 3:
						err = n.DeleteMountPoint(mount)
					}
				}
				if !expected(err) {
					t.Errorf("worker %d: %v", worker, err)
				}
			}
		})
	}
	wg.Wait()
	checkNode(t, n)
	state := describe(t, n)
	ok(t, n.Close())
	if got := describe(t, start(t, nodespec.Config{StateDir: dir})); got != state {
		t.Errorf("opened again it is\n%s\nwas\n%s", got, state)
	}
}

// systemVolume returns C:.
func (n *Node) systemVolume() win32.GUID {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.Letters['C']
}

func TestOpenRefusals(t *testing.T) {
	same := uint32(4)
	for name, c := range map[string]nodespec.Config{
		"SAN policy":               {Windows: nodespec.Windows{SANPolicy: "offline"}},
		"world":                    {World: "nice"},
		"negative delay":           {FormatDuration: -1},
		"disk":                     {Disks: []nodespec.Disk{{Bus: "usb"}}},
		"one number twice":         {Disks: []nodespec.Disk{{Number: &same}, {Number: &same}}},
		"span of one":              {SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: 0, Length: mib}}}}},
		"span of what is not":      {Disks: []nodespec.Disk{{}}, SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: 0, Length: mib}, {Disk: 7, Offset: 0, Length: mib}}}}},
		"span on one disk":         {Disks: []nodespec.Disk{{}}, SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: 0, Length: mib}, {Disk: 0, Offset: mib, Length: mib}}}}},
		"span beyond":              {Disks: []nodespec.Disk{{Size: gib}, {}}, SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: gib, Length: mib}, {Disk: 1, Offset: 0, Length: mib}}}}},
		"span over a partition":    {Disks: []nodespec.Disk{{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}}, {}}, SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: 20 * mib, Length: mib}, {Disk: 1, Offset: 0, Length: mib}}}}},
		"relative directory":       {Directories: []string{"var"}},
		"directory on no volume":   {Directories: []string{`Q:\x`}},
		"directory without a name": {Directories: []string{`C:\a\b|c`}},
		"state directory":          {StateDir: "/dev/null/x"},
	} {
		n, err := Open(c, kernel.Machine{})
		if err == nil {
			t.Errorf("%s: Open succeeded", name)
			n.Close()
		}
	}
}
