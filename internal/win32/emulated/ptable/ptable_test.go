package ptable_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
)

const mib = 1 << 20

// media is a disk in memory that stores only its two ends.
type media struct {
	disk ptable.Disk
	b    map[uint64][]byte // by sector
}

func newMedia(size uint64, sector uint32) *media {
	return &media{ptable.Disk{Size: size, Sector: sector}, map[uint64][]byte{}}
}

func (m *media) ReadAt(p []byte, off int64) (int, error) {
	s := uint64(m.disk.Sector)
	if off < 0 || uint64(off)+uint64(len(p)) > m.disk.Size {
		return 0, io.EOF
	}
	for i := range p {
		at := uint64(off) + uint64(i)
		p[i] = 0
		if sector := m.b[at/s]; sector != nil {
			p[i] = sector[at%s]
		}
	}
	return len(p), nil
}

func (m *media) write(t testing.TB, ws []ptable.Write) {
	t.Helper()
	s := uint64(m.disk.Sector)
	for _, w := range ws {
		if w.Offset%s != 0 || uint64(len(w.Data))%s != 0 || w.Offset+uint64(len(w.Data)) > m.disk.Size {
			t.Fatalf("write of %d bytes at %d to a disk of %d", len(w.Data), w.Offset, m.disk.Size)
		}
		for i := uint64(0); i < uint64(len(w.Data)); i += s {
			m.b[(w.Offset+i)/s] = bytes.Clone(w.Data[i : i+s])
		}
	}
}

func id(n byte) win32.GUID { return win32.GUID{Data1: uint32(n), Data4: [8]byte{7: n}} }

func basic(n byte, off, length uint64) win32.Partition {
	return win32.Partition{
		Style: win32.PARTITION_STYLE_GPT, Number: uint32(n), Offset: off, Length: length,
		Type: win32.PARTITION_BASIC_DATA_GUID, ID: id(n), Attributes: 1 << 63, Name: "données 💾 \xed\xa0\xbd", // with half of a surrogate pair
	}
}

func TestReadWrittenGPT(t *testing.T) {
	for _, sector := range []uint32{512, 4096} {
		for _, entries := range []uint32{128, 256, 1024} {
			for _, size := range []uint64{16 * mib, 1 << 30, 3 << 40} {
				t.Run(fmt.Sprintf("%d entries on %d bytes in sectors of %d", entries, size, sector), func(t *testing.T) {
					m := newMedia(size, sector)
					l := win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: id(99), MaxPartitions: entries}
					if err := ptable.Refit(&l, m.disk); err != nil {
						t.Fatal(err)
					}
					end := (l.UsableOffset + l.UsableLength) / mib * mib
					l.Partitions = []win32.Partition{basic(1, 4*mib, end-4*mib), basic(2, mib, 2*mib)}
					if !ptable.Fits(l, m.disk) {
						t.Fatal("the table does not fit the disk")
					}
					m.write(t, ptable.Encode(l, m.disk, nil))
					got, err := ptable.Read(m, m.disk)
					if err != nil || !reflect.DeepEqual(got, l) {
						t.Errorf("Read = %+v, %v\nwant %+v", got, err, l)
					}
					if n := ptable.Normal(l, m.disk); !reflect.DeepEqual(n, l) {
						t.Errorf("Normal = %+v\nwant %+v", n, l)
					}
					for _, r := range ptable.Wipe(m.disk) {
						for at := r[0]; at < r[0]+r[1]; at += uint64(sector) {
							delete(m.b, at/uint64(sector))
						}
					}
					if got, err := ptable.Read(m, m.disk); err != nil || got.Style != win32.PARTITION_STYLE_RAW {
						t.Errorf("Read after Wipe = %+v, %v, want raw", got, err)
					}
				})
			}
		}
	}
}

// UEFI specification 5.3.2: what makes a header invalid. The backup is used then.
func TestDamagedHeaders(t *testing.T) {
	const sector = 512
	for name, damage := range map[string]func(header, table []byte){
		"signature":      func(h, _ []byte) { h[0]++ },
		"checksum":       func(h, _ []byte) { h[16]++ },
		"own place":      func(h, _ []byte) { h[24]++ },
		"size":           func(h, _ []byte) { h[13]++ },
		"a zeroed entry": func(_, b []byte) { clear(b[:128]) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMedia(64*mib, sector)
			l, err := ptable.NewGPT(m.disk, id(9))
			if err != nil {
				t.Fatal(err)
			}
			l.Partitions = []win32.Partition{basic(1, mib, mib)}
			m.write(t, ptable.Encode(l, m.disk, nil))
			damage(m.b[1], m.b[2])
			got, err := ptable.Read(m, m.disk)
			if err != nil || !reflect.DeepEqual(got, l) {
				t.Errorf("Read = %+v, %v, want the backup's %+v", got, err, l)
			}
			damage(m.b[m.disk.Size/sector-1], m.b[m.disk.Size/sector-33])
			if got, err = ptable.Read(m, m.disk); err != nil || got.Style != win32.PARTITION_STYLE_MBR || got.Partitions[0].MBRType != 0xEE {
				t.Errorf("Read = %+v, %v, want the protective MBR", got, err)
			}
		})
	}
	m := newMedia(64*mib, sector)
	l, err := ptable.NewGPT(m.disk, id(9))
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, ptable.Encode(l, m.disk, nil))
	delete(m.b, 0)
	if got, err := ptable.Read(m, m.disk); err != nil || got.Style != win32.PARTITION_STYLE_RAW {
		t.Errorf("a GPT without protective MBR reads as %+v, %v, want raw", got, err)
	}
}

func TestReadWrittenMBR(t *testing.T) {
	m := newMedia(1<<30, 512)
	l := win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: 0xCAFEF00D, Partitions: []win32.Partition{
		{Style: win32.PARTITION_STYLE_MBR, Offset: 100 * mib, Length: mib, MBRType: 0x0F},
		{Style: win32.PARTITION_STYLE_MBR},
		{Style: win32.PARTITION_STYLE_MBR, Offset: mib, Length: mib, MBRType: 0x07, Active: true},
	}}
	code := bytes.Repeat([]byte{0x90}, 512)
	for _, extra := range [][]win32.Partition{nil, make([]win32.Partition, 3)} { // more than four: unused ones are dropped
		l := l
		l.Partitions = append(append([]win32.Partition(nil), l.Partitions...), extra...)
		m.write(t, ptable.Encode(l, m.disk, code))
		if m.b[0][0] != 0x90 || m.b[0][439] != 0x90 {
			t.Error("the boot code was not kept")
		}
		got, err := ptable.Read(m, m.disk)
		if want := ptable.Normal(l, m.disk); err != nil || !reflect.DeepEqual(got, want) || len(got.Partitions) != 4 {
			t.Errorf("Read = %+v, %v\nwant %+v", got, err, want)
		}
	}
}

func TestSuperfloppies(t *testing.T) {
	for sector, kind := range map[string]uint8{"ntfs": 7, "fat32": 0x0C} {
		m := newMedia(64*mib, 512)
		writes := bootsector.MakeFAT32(64*mib, 512, 0, 1)
		if sector == "ntfs" {
			var err error
			if _, writes, err = bootsector.MakeNTFS(64*mib, 512, 0, 0, 1, ""); err != nil {
				t.Fatal(err)
			}
		}
		m.write(t, []ptable.Write{{Offset: 0, Data: writes[0].Data[:512]}})
		l, err := ptable.Read(m, m.disk)
		if err != nil || !ptable.Superfloppy(l) || l.Partitions[0].MBRType != kind || l.Partitions[0].Length != 64*mib {
			t.Errorf("%s: Read = %+v, %v", sector, l, err)
		}
	}
}

func TestGPTTooSmall(t *testing.T) {
	for _, c := range []struct {
		size   uint64
		sector uint32
		want   error
	}{{34 * 512, 512, ptable.ErrTooSmall}, {mib, 512, nil}, {mib, 4096, nil}} {
		if _, err := ptable.NewGPT(ptable.Disk{Size: c.size, Sector: c.sector}, id(1)); !errors.Is(err, c.want) {
			t.Errorf("NewGPT(%d bytes, sectors of %d) = %v, want %v", c.size, c.sector, err, c.want)
		}
	}
	for _, size := range []uint64{0, 512, 1023} {
		m := newMedia(size, 512)
		if l, err := ptable.Read(m, m.disk); err != nil || l.Style != win32.PARTITION_STYLE_RAW {
			t.Errorf("Read of %d bytes = %+v, %v, want raw", size, l, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	want := errors.New("bad sector")
	if _, err := ptable.Read(failing{want}, ptable.Disk{Size: mib, Sector: 512}); !errors.Is(err, want) {
		t.Errorf("Read = %v, want %v", err, want)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// For any content of a disk, partitions lie inside it, those of a GPT do not
// overlap its tables, and a table that was read can be written and read again.
func FuzzRead(f *testing.F) {
	for _, sector := range []uint32{512, 4096} {
		m := newMedia(mib, sector)
		l, err := ptable.NewGPT(m.disk, id(1))
		if err != nil {
			f.Fatal(err)
		}
		l.Partitions = []win32.Partition{basic(1, 512<<10, 64<<10), basic(2, 128<<10, 4096)}
		m.write(f, ptable.Encode(l, m.disk, nil))
		head, tail := make([]byte, 6*sector), make([]byte, 6*sector)
		m.ReadAt(head, 0)
		m.ReadAt(tail, int64(mib-len(tail)))
		f.Add(head, tail, sector == 4096)
		mbr := newMedia(mib, sector)
		mbr.write(f, ptable.Encode(win32.Layout{Style: win32.PARTITION_STYLE_MBR, Partitions: []win32.Partition{
			{Style: win32.PARTITION_STYLE_MBR, Offset: 64 << 10, Length: 64 << 10, MBRType: 7},
		}}, mbr.disk, nil))
		mbr.ReadAt(head, 0)
		f.Add(head[:sector], []byte{}, sector == 4096)
	}
	f.Fuzz(func(t *testing.T, head, tail []byte, large bool) {
		sector := uint32(512)
		if large {
			sector = 4096
		}
		d := ptable.Disk{Size: mib, Sector: sector}
		b := make([]byte, mib)
		copy(b, head)
		if len(tail) <= mib {
			copy(b[mib-len(tail):], tail)
		}
		sign(b[sector:], b, sector)
		l, err := ptable.Read(bytes.NewReader(b), d)
		if err != nil {
			t.Fatalf("Read = %v", err)
		}
		for i, p := range l.Partitions {
			if p.Offset > mib || p.Length > mib-p.Offset || ptable.InUse(p) && p.Length == 0 {
				t.Errorf("partition %d: %d bytes at %d of %d", i, p.Length, p.Offset, mib)
			}
			if l.Style == win32.PARTITION_STYLE_GPT && (p.Offset < l.UsableOffset || p.Offset+p.Length > l.UsableOffset+l.UsableLength) {
				t.Errorf("partition %d: outside the usable range", i)
			}
		}
		if !ptable.Fits(l, d) || ptable.Superfloppy(l) {
			return // other tools create tables that Windows reads but does not write
		}
		for _, w := range ptable.Encode(l, d, b[:sector]) {
			copy(b[w.Offset:], w.Data)
		}
		again, err := ptable.Read(bytes.NewReader(b), d)
		if err != nil || again.Style == win32.PARTITION_STYLE_GPT && !reflect.DeepEqual(again, ptable.Normal(l, d)) {
			t.Errorf("read %+v, %v\nafter writing %+v", again, err, l)
		}
	})
}

// sign gives a GPT header the correct checksums, so that Read uses its fields.
func sign(h, disk []byte, sector uint32) {
	le := binary.LittleEndian
	table, n := le.Uint64(h[72:])*uint64(sector), uint64(le.Uint32(h[80:]))*128
	if table < uint64(len(disk)) && n <= uint64(len(disk))-table {
		le.PutUint32(h[88:], crc32.ChecksumIEEE(disk[table:table+n]))
	}
	if size := le.Uint32(h[12:]); size >= 20 && size <= sector {
		le.PutUint32(h[16:], 0)
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:size]))
	}
}
