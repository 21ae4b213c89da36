package storage

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The record of the next logical drive lies behind a drive in an extended partition.
func TestSpaceBehindALogicalDrive(t *testing.T) {
	entry := func(kind byte, number uint32, offset, length uint64) win32.Partition {
		return win32.Partition{Style: win32.PARTITION_STYLE_MBR, Offset: offset, Length: length, Number: number, MBRType: kind}
	}
	const extended = 10 * gib
	first, second := entry(7, 2, extended+mib, gib), entry(7, 3, extended+mib+gib+mib, gib)
	primary := entry(7, 1, mib, gib)
	l := win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: 77, Partitions: []win32.Partition{primary, entry(0x0f, 0, extended, 20*gib), first, second}}
	for _, p := range []win32.Partition{first, second} {
		if got := MaxLength(l, p, 100*gib, 512); !IsLogical(l, p) || got != p.Length {
			t.Errorf("partition %d is logical: %t, and may have %d bytes, want %d", p.Number, IsLogical(l, p), got, p.Length)
		}
	}
	if got := MaxLength(l, primary, 100*gib, 512); IsLogical(l, primary) || got != extended-mib {
		t.Errorf("the primary partition is logical: %t, and may have %d bytes, want %d", IsLogical(l, primary), got, extended-mib)
	}
}

// grown returns a disk with one partition of 10 GiB and free space behind it.
func grown(t *testing.T, size uint64) (Look, win32.Partition) {
	t.Helper()
	l, at, err := AddPartition(emptyGPT(size, 512), size, 512, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := At(l, at)
	p.Length = 10 * gib
	l.Partitions[len(l.Partitions)-1] = p
	k := raw(size)
	k.Table = l
	return k, p
}

// A growth in part looks at its own new end, and clearing the space behind the partition clears
// what it finds.
func TestGrowthInPart(t *testing.T) {
	k, p := grown(t, 1000*gib)
	from := p.Offset + p.Length
	for name, at := range map[string]uint64{
		"at 2 GiB":                      from + 2*gib,
		"in the last MiB of the growth": p.Offset + 26*gib - 64<<10,
	} {
		d := holding(at, "XFSB")
		if _, err := d.disk().Vacant(t.Context(), k.Growth(p, 26*gib)); err == nil {
			t.Errorf("content %s of it: the partition may grow by 16 GiB", name)
		}
		if n, err := d.disk().Clear(t.Context(), k.Behind(p)); err != nil || n == 0 {
			t.Errorf("content %s: cleared %d bytes, %v", name, n, err)
		}
	}
	if _, err := holding(from+40*gib, "XFSB").disk().Vacant(t.Context(), k.Growth(p, 11*gib)); err != nil {
		t.Errorf("content behind a growth by 1 GiB: %v", err)
	}
}

// All unknown content is listed, also beside that of a partition.
func TestUnknownContentIsListedTwice(t *testing.T) {
	k, p := grown(t, 100*gib)
	d := &deviceOf{text: map[uint64]string{p.Offset + 5000: "noise", p.Offset + p.Length + 7000: "other"}}
	all, err := d.disk().Contents(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	behind := false
	for _, f := range all {
		behind = behind || f.Kind == (Found{At: p.Offset + p.Length + 7000}).Name()
	}
	if !behind {
		t.Errorf("listed %+v, want the content behind the partition as well", all)
	}
}
