package api

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Windows gives an extended partition no number: it is not the partition to clear, nor the one
// behind which to clear.
func TestClearingOfAPartitionBesideAnExtendedOne(t *testing.T) {
	d, _ := identified(t, func(c *win32.Call) error { return c.Do() })
	disk, err := storage.OpenDisk(t.Context(), d.host.Node, 1, storage.Read)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	const mib = 1 << 20
	entry := func(kind byte, number uint32, offset, length uint64) win32.Partition {
		return win32.Partition{Style: win32.PARTITION_STYLE_MBR, Offset: offset, Length: length, Number: number, MBRType: kind}
	}
	l := win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: 77, Partitions: []win32.Partition{
		entry(7, 1, mib, 100*mib), entry(0x0f, 0, 101*mib, 500*mib), entry(7, 2, 102*mib, 100*mib)}}
	whole, err := disk.NewLook(t.Context(), 1, l)
	if err != nil {
		t.Fatal(err)
	}
	w := &clearing{Clearing: Clearing{Partition: 2}, api: d, disk: disk}
	if k, err := w.lookAt(1, l); err != nil || !k.Same(whole.In(storage.Area{Offset: 102 * mib, Length: 100 * mib})) {
		t.Errorf("partition 2: %+v, %v", k, err)
	}
	w.Clearing = Clearing{Behind: 2}
	if _, err := w.lookAt(1, l); err == nil {
		t.Error("the space behind a logical drive may be cleared")
	}
}
