package driver

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// rawVolume attaches a disk with a volume that has no file system.
func rawVolume(t *testing.T, h *host) string {
	t.Helper()
	before, err := h.model.VolumeNames()
	if err != nil {
		t.Fatal(err)
	}
	no := false // how disks arrive is not what these tests are about
	_, err = h.model.Attach(nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}, Offline: &no, ReadOnly: &no})
	if err := h.changed(err); err != nil {
		t.Fatal(err)
	}
	after, err := h.bare.VolumeNames()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range after {
		if !slices.Contains(before, v) {
			return v
		}
	}
	t.Fatalf("Windows lists %q, but no new volume", after)
	return ""
}

// The events of FormatEx, in a child process, become one result. (Which one, package fmifs tests.)
func TestFormatEvents(t *testing.T) {
	h := newHost(t, online())
	finished := func(success byte, result uint32) Event {
		return Event{EventFinished, binary.LittleEndian.AppendUint32([]byte{success, 0, 0, 0}, result)}
	}
	done := Event{EventProgress, []byte{100, 0, 0, 0}}
	for _, c := range []struct {
		name   string
		events []Event
		want   win32.Errno // 0 is success
	}{
		{"progress and success", []Event{{EventProgress, []byte{0, 0, 0, 0}}, done, finished(1, 0)}, 0},
		{"a long packet", []Event{{14, make([]byte, 2000)}, finished(1, 0)}, 0},
		{"write protected", []Event{{EventWriteProtected, nil}, finished(0, 0)}, win32.ERROR_WRITE_PROTECT},
		{"an HRESULT", []Event{finished(0, 0x80070000|uint32(win32.ERROR_DISK_FULL))}, win32.ERROR_DISK_FULL},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := rawVolume(t, h)
			h.server.SetFormatEvents(func(err error) []Event {
				if err != nil {
					t.Errorf("the model's format: %v", err)
				}
				return c.events
			})
			err := h.bare.Format(v, win32.FormatOptions{})
			if c.want == 0 && err != nil || c.want != 0 && !win32.IsCode(err, c.want) {
				t.Errorf("Format: %v, want %v", err, c.want)
			}
		})
	}
}

// The size of clusters reaches FormatEx.
func TestClusterSize(t *testing.T) {
	h := newHost(t, online())
	const want = 8192
	v := rawVolume(t, h)
	if err := h.bare.Format(v, win32.FormatOptions{ClusterSize: want}); err != nil {
		t.Fatal(err)
	}
	dev, err := h.bare.CreateFile(v[:len(v)-1], win32.GENERIC_READ, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer h.bare.CloseHandle(dev)
	out := make([]byte, win32.SizeofNTFSVolumeData)
	n, err := h.bare.DeviceIoControl(dev, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, out)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := win32.DecodeNTFSVolumeData(out[:n]); err != nil || d.BytesPerCluster != want {
		t.Errorf("clusters of %d bytes, %v, want %d", d.BytesPerCluster, err, want)
	}
}

// online is a node whose new volumes can be formatted at once.
func online() nodespec.Config {
	config := systemOnly()
	config.Automount = nodespec.AutomountEnabled
	return config
}
