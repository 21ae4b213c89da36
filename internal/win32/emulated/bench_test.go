package emulated

import (
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// A call on the node should take at most tens of microseconds, so that tests of
// drivers spend their time in the driver.
func BenchmarkCalls(b *testing.B) {
	n := start(b, nodespec.Config{})
	h := openPath(b, n, `\\.\PhysicalDrive1`, readWrite)
	partition(b, n, h, data(1, 16*mib, gib))
	vol := one(b, n, 1)
	if err := n.Format(vol, quick); err != nil {
		b.Fatal(err)
	}
	out := make([]byte, 64*kib)
	calls := []struct {
		name string
		do   func(i int) error
	}{
		{"device number", func(int) error {
			return second(n.DeviceIoControl(h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, out))
		}},
		{"layout", func(int) error {
			return second(n.DeviceIoControl(h, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, out))
		}},
		{"open and close", func(int) error {
			v, err := n.CreateFile(devicePath(vol), 0, shareBoth, win32.OPEN_EXISTING, 0)
			if err != nil {
				return err
			}
			return n.CloseHandle(v)
		}},
		{"volume information", func(int) error { _, err := n.VolumeInformation(vol); return err }},
		{"free space", func(int) error { _, _, _, err := n.FreeSpace(vol); return err }},
		{"update properties", func(int) error {
			return second(n.DeviceIoControl(h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, nil))
		}},
		{"set layout (journal and image)", func(i int) error {
			in := gpt(data(1, 16*mib, gib), data(2, 2*gib+uint64(i%2)*mib, gib)).Encode()
			return second(n.DeviceIoControl(h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, in, nil))
		}},
		{"set attributes (journal)", func(i int) error {
			in := win32.SetDiskAttributes{Attributes: uint64(i % 2 * 2), Mask: 2}.Encode()
			return second(n.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil))
		}},
	}
	for _, c := range calls {
		b.Run(c.name, func(b *testing.B) {
			for i := range b.N {
				if err := c.do(i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, disks := range []int{3, 64} {
		b.Run(fmt.Sprintf("%d disks", disks), func(b *testing.B) {
			cfg := nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}}}
			for range disks - 1 {
				cfg.Disks = append(cfg.Disks, nodespec.Disk{})
			}
			for range b.N {
				n, err := Open(cfg, kernel.Machine{})
				if err != nil {
					b.Fatal(err)
				}
				if err := n.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
