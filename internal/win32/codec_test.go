package win32

import (
	"bytes"
	"errors"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// codec is a Decode function in the form that the tests here need.
type codec struct {
	decode func(b []byte) (any, error)
	encode func(v any) []byte
	sample any  // has a different value in every field
	least  int  // the length of the shortest valid sample; 0: all of it
	plain  bool // a structure of fixed size, without lengths and offsets, which no input makes false
	// names returns the strings that decode read; b must contain them.
	names func(v any) []string
	wide  bool // names are UTF-16
}

// of returns a codec of the typed functions.
func of[T any](decode func([]byte) (T, error), encode func(T) []byte, sample T) codec {
	return codec{
		decode: func(b []byte) (any, error) { return decode(b) },
		encode: func(v any) []byte { return encode(v.(T)) },
		sample: sample,
	}
}

func (c codec) atLeast(n int) codec { c.least = n; return c }

// plainOf is of for a structure of fixed size.
func plainOf[T any](decode func([]byte) (T, error), encode func(T) []byte, sample T) codec {
	c := of(decode, encode, sample)
	c.plain = true
	return c
}

func named[T any](c codec, wide bool, names func(T) []string) codec {
	c.wide = wide
	c.names = func(v any) []string { return names(v.(T)) }
	return c
}

// codecs are all Decode functions of this package, by name; TestDecodersHaveTests
// fails if one is missing.
var codecs = map[string]codec{
	"DecodeDeviceNumber": plainOf(DecodeDeviceNumber, DeviceNumber.Encode, DeviceNumber{7, 2, 3}),
	"DecodeDACL": of(DecodeDACL, EncodeDACL, []ACE{
		{OBJECT_INHERIT_ACE, FILE_ALL_ACCESS, SID{5, []uint32{32, 544}}},
		{CONTAINER_INHERIT_ACE, WRITE_DAC, SID{1, []uint32{7}}},
	}),
	"DecodePropertyQuery": plainOf(DecodePropertyQuery, PropertyQuery.Encode,
		PropertyQuery{StorageDeviceLocationProperty, 1}),
	"DecodeDeviceDescriptor": named(of(DecodeDeviceDescriptor, DeviceDescriptor.Encode,
		DeviceDescriptor{true, BusTypeISCSI, "Vendor  ", "Product", "1.0 ", "serial-1"}).atLeast(36),
		false, func(d DeviceDescriptor) []string {
			return []string{d.Vendor, d.Product, d.Revision, d.SerialNumber}
		}),
	"DecodeIdentifiers": named(of(DecodeIdentifiers, EncodeIdentifiers, []Identifier{
		{StorageIdCodeSetAscii, StorageIdTypeVendorId, StorageIdAssocPort, []byte("Google  disk-1")},
		{StorageIdCodeSetBinary, StorageIdTypeFCPHName, StorageIdAssocDevice, []byte{0x60, 0, 0, 1}},
	}), false, func(ids []Identifier) (names []string) {
		for _, id := range ids {
			names = append(names, string(id.ID))
		}
		return names
	}),
	"DecodeLocation": named(of(DecodeLocation, EncodeLocation, "PCI Slot 3 : Adapter 0 : Port 0 : Target 1 : LUN 2").atLeast(37),
		false, func(s string) []string { return []string{s} }),
	"DecodeSCSIAddress": plainOf(DecodeSCSIAddress, SCSIAddress.Encode, SCSIAddress{1, 2, 3, 4}),
	"DecodeLength":      plainOf(DecodeLength, EncodeLength, uint64(0x1122334455667788)),
	"DecodeGeometry":    plainOf(DecodeGeometry, Geometry.Encode, Geometry{4096, 0x1122334455667788}).atLeast(32),
	"DecodeCreateDisk": plainOf(DecodeCreateDisk, CreateDisk.Encode,
		CreateDisk{DiskID: pGUID}),
	"DecodeLayout": named(of(DecodeLayout, Layout.Encode, sampleLayout), true, func(l Layout) (names []string) {
		for _, p := range l.Partitions {
			names = append(names, p.Name)
		}
		return names
	}),
	"DecodeGrowPartition":  plainOf(DecodeGrowPartition, GrowPartition.Encode, GrowPartition{2, -0x1122334455667788}),
	"DecodeDiskAttributes": plainOf(DecodeDiskAttributes, EncodeDiskAttributes, uint64(0x1122334455667788)),
	"DecodeSetDiskAttributes": plainOf(DecodeSetDiskAttributes, SetDiskAttributes.Encode,
		SetDiskAttributes{true, DISK_ATTRIBUTE_OFFLINE, DISK_ATTRIBUTE_OFFLINE | DISK_ATTRIBUTE_READ_ONLY}),
	"DecodeExtents": of(DecodeExtents, EncodeExtents, []Extent{{1, 0x1122334455667788, 2}, {3, 4, 0x2233445566778899}}),
	"DecodeNTFSVolumeData": plainOf(DecodeNTFSVolumeData, NTFSVolumeData.Encode,
		NTFSVolumeData{0x1122334455667788, 0x2233445566778899, 0x33445566778899AA, 512, 4096}),
	"DecodeSectors": plainOf(DecodeSectors, EncodeSectors, int64(-0x1122334455667788)),
	"DecodeReparse": named(of(DecodeReparse, Reparse.Encode,
		Reparse{IO_REPARSE_TAG_SYMLINK, `..\target`, "print", true}), true, func(r Reparse) []string {
		return []string{r.Substitute, r.Print}
	}),
	"DecodeDirectory": named(of(DecodeDirectory, encodeDirectory, []DirEntry{
		{"file.txt", FILE_ATTRIBUTE_ARCHIVE, 0, 0x1122334455667788},
		{"link \U0001F517", FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT, IO_REPARSE_TAG_MOUNT_POINT, 0},
	}), true, func(es []DirEntry) (names []string) {
		for _, e := range es {
			names = append(names, e.Name)
		}
		return names
	}),
	"DecodeFileStandard": plainOf(DecodeFileStandard, FileStandard.Encode,
		FileStandard{EndOfFile: 5, Links: 1, DeletePending: true, Directory: true}),
	"DecodeAttributeTag": plainOf(DecodeAttributeTag, AttributeTag.Encode,
		AttributeTag{FILE_ATTRIBUTE_REPARSE_POINT, IO_REPARSE_TAG_SYMLINK}),
}

var sampleLayout = Layout{
	Style: PARTITION_STYLE_GPT, DiskID: pGUID, UsableOffset: 17408, UsableLength: 0x1122334455667788, MaxPartitions: 128,
	Partitions: []Partition{
		{Style: PARTITION_STYLE_GPT, Offset: 17408, Length: 16759808, Number: 1, Rewrite: true,
			Type: PARTITION_MSFT_RESERVED_GUID, ID: PARTITION_SPACES_GUID, Name: "Microsoft reserved partition"},
		{Style: PARTITION_STYLE_GPT, Offset: 16 << 20, Length: 0x2233445566778899, Number: 2,
			Type: PARTITION_BASIC_DATA_GUID, ID: PARTITION_LDM_DATA_GUID,
			Attributes: GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER, Name: strings.Repeat("n", 36)},
	},
}

func encodeDirectory(es []DirEntry) []byte {
	var b []byte
	at := -1
	for _, e := range es {
		b, at = AppendDirEntry(b, at, e)
	}
	return b
}

// Every Decode function needs an entry in codecs, and a fuzz target unless it is plain.
func TestDecodersHaveTests(t *testing.T) {
	names := exported[*types.Func](t, "Decode")
	if len(names) != len(codecs) {
		t.Errorf("the package has %d Decode functions, the table %d", len(names), len(codecs))
	}
	for _, name := range names {
		if _, ok := codecs[name]; !ok {
			t.Errorf("%s is not in the table of codecs", name)
		}
	}
	source, err := os.ReadFile("fuzz_test.go")
	if err != nil {
		t.Fatal(err)
	}
	targets := append(slices.DeleteFunc(names, func(name string) bool { return codecs[name].plain }), "GUID", "UTF16")
	for _, name := range targets {
		if !bytes.Contains(source, []byte("func Fuzz"+name+"(")) {
			t.Errorf("there is no target Fuzz%s", name)
		}
		dir := filepath.Join("testdata", "fuzz", "Fuzz"+name)
		if seeds, err := os.ReadDir(dir); err != nil || len(seeds) == 0 {
			t.Errorf("%s holds no seed (%v)", dir, err)
		}
	}
	seeds, err := filepath.Glob(filepath.Join("testdata", "fuzz", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(targets) + 1; len(seeds) != want { // and the target of firmware_test.go
		t.Errorf("%d seed folders for %d fuzz targets", len(seeds), want)
	}
}

// Decoding an encoded structure gives every field its value.
func TestEncodeDecode(t *testing.T) {
	for name, c := range codecs {
		got, err := c.decode(c.encode(c.sample))
		if err != nil || !reflect.DeepEqual(got, c.sample) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.sample)
		}
	}
	// The other arms of unions, and values at their limits.
	for _, l := range []Layout{
		{Style: PARTITION_STYLE_RAW},
		{Style: PARTITION_STYLE_MBR, Signature: p32, Partitions: []Partition{
			{Style: PARTITION_STYLE_MBR, Offset: 1, Length: 2, Number: 3, MBRType: 7, Active: true, Hidden: 9},
			{Style: PARTITION_STYLE_MBR, Recognized: true, Rewrite: true},
			{Style: PARTITION_STYLE_RAW},
		}},
	} {
		if got, err := DecodeLayout(l.Encode()); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("DecodeLayout: got %+v, %v; want %+v", got, err, l)
		}
	}
	for _, r := range []Reparse{
		{Tag: IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\Volume{0}\`},
		{Tag: IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\C:\dir`, Print: `C:\dir`},
		{Tag: IO_REPARSE_TAG_SYMLINK, Substitute: `\??\C:\dir`},
		{Tag: 0x80000013}, // deduplication: DecodeReparse reads only the tag
	} {
		if got, err := DecodeReparse(r.Encode()); err != nil || got != r {
			t.Errorf("DecodeReparse: got %+v, %v; want %+v", got, err, r)
		}
	}
	if size, err := DescriptorSize(EncodeLocation("four")); err != nil || size != 41 {
		t.Errorf("DescriptorSize = %d, %v; want 41", size, err)
	}
}

// Input that is too short fails with ErrLayout, wherever it is cut.
func TestDecodeTruncated(t *testing.T) {
	for name, c := range codecs {
		whole := c.encode(c.sample)
		least := c.least
		if least == 0 {
			least = len(whole)
		}
		for n := range whole {
			// A copy, so that reading beyond n is reading out of bounds.
			b := append([]byte(nil), whole[:n]...)
			v, err := c.decode(b[:n:n])
			switch {
			case n < least && !errors.Is(err, ErrLayout):
				t.Errorf("%s of the first %d of %d bytes: got %+v, %v; want ErrLayout", name, n, len(whole), v, err)
			case n >= least && err != nil:
				t.Errorf("%s of the first %d of %d bytes: %v", name, n, len(whole), err)
			}
		}
	}
	for n := range 8 {
		if _, err := DescriptorSize(make([]byte, n)); !errors.Is(err, ErrLayout) {
			t.Errorf("DescriptorSize of %d bytes: %v, want ErrLayout", n, err)
		}
	}
}

// Lengths and offsets that point outside the input are refused or mean "none".
func TestDecodeFalseClaims(t *testing.T) {
	change := func(b []byte, at int, v uint32) []byte {
		b = append([]byte(nil), b...)
		le.PutUint32(b[at:], v)
		return b
	}
	refused := []struct {
		name   string
		decode func([]byte) (any, error)
		b      []byte
	}{
		{"more partitions than bytes", codecs["DecodeLayout"].decode, change(sampleLayout.Encode(), 4, 3)},
		{"partitions beyond 32 bits of bytes", codecs["DecodeLayout"].decode, change(sampleLayout.Encode(), 4, 0xFFFFFFFF)},
		{"unknown partition style of a disk", codecs["DecodeLayout"].decode, change(sampleLayout.Encode(), 0, 3)},
		{"unknown partition style of a partition", codecs["DecodeLayout"].decode, change(sampleLayout.Encode(), SizeofLayout, 3)},
		{"more extents than bytes", codecs["DecodeExtents"].decode, change(EncodeExtents(make([]Extent, 1)), 0, 2)},
		{"extents beyond 32 bits of bytes", codecs["DecodeExtents"].decode, change(EncodeExtents(make([]Extent, 1)), 0, 0xFFFFFFFF)},
		{"an identifier longer than the buffer", codecs["DecodeIdentifiers"].decode,
			change(EncodeIdentifiers([]Identifier{{ID: []byte("1234")}}), 12+8, 5)},
		{"next identifier outside", codecs["DecodeIdentifiers"].decode,
			change(change(EncodeIdentifiers([]Identifier{{ID: []byte("1234")}}), 12+8, 4|100<<16), 8, 2)},
		{"more identifiers than there are", codecs["DecodeIdentifiers"].decode,
			change(change(EncodeIdentifiers([]Identifier{{ID: []byte("1234")}}), 12+8, 4|20<<16), 8, 2)},
		{"location string outside", codecs["DecodeLocation"].decode, change(EncodeLocation("x"), 32, 38)},
		{"location string inside the header", codecs["DecodeLocation"].decode, change(EncodeLocation("x"), 32, 8)},
		{"reparse data longer than the buffer", codecs["DecodeReparse"].decode,
			change(Reparse{Tag: IO_REPARSE_TAG_SYMLINK}.Encode(), 4, 13)},
		{"reparse data too short for its names", codecs["DecodeReparse"].decode,
			change(Reparse{Tag: IO_REPARSE_TAG_SYMLINK}.Encode(), 4, 11)},
		{"reparse name outside", codecs["DecodeReparse"].decode,
			change(Reparse{Tag: IO_REPARSE_TAG_SYMLINK, Substitute: "ab"}.Encode(), 8, 2|4<<16)},
		{"reparse name of odd length", codecs["DecodeReparse"].decode,
			change(Reparse{Tag: IO_REPARSE_TAG_SYMLINK, Substitute: "ab"}.Encode(), 8, 0|3<<16)},
		{"file name outside", codecs["DecodeDirectory"].decode, change(encodeDirectory([]DirEntry{{Name: "ab"}}), 60, 6)},
		{"file name of odd length", codecs["DecodeDirectory"].decode, change(encodeDirectory([]DirEntry{{Name: "ab"}}), 60, 3)},
		{"file name of 4 GiB", codecs["DecodeDirectory"].decode, change(encodeDirectory([]DirEntry{{Name: "ab"}}), 60, 0xFFFFFFFE)},
		{"next file outside", codecs["DecodeDirectory"].decode, change(encodeDirectory([]DirEntry{{Name: "ab"}}), 0, 73)},
		{"next file inside this one", codecs["DecodeDirectory"].decode, change(encodeDirectory([]DirEntry{{Name: "ab"}}), 0, 8)},
		{"attributes of another version", codecs["DecodeSetDiskAttributes"].decode, change(SetDiskAttributes{}.Encode(), 0, 16)},
	}
	for _, r := range refused {
		if v, err := r.decode(r.b); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: got %+v, %v; want ErrLayout", r.name, v, err)
		}
	}

	d := DeviceDescriptor{Vendor: "v", SerialNumber: "s"}.Encode()
	for _, offset := range []uint32{0, 1, 35, uint32(len(d)), 0xFFFFFFFF} {
		got, err := DecodeDeviceDescriptor(change(d, 24, offset))
		if err != nil || got.SerialNumber != "" || got.Vendor != "v" {
			t.Errorf("serial number at %d: got %+v, %v; want only the vendor", offset, got, err)
		}
	}
	if s, err := DecodeLocation(change(EncodeLocation("x"), 32, 0)); s != "" || err != nil {
		t.Errorf("no location string: got %q, %v", s, err)
	}
	// The entries before a malformed one are returned together with the error.
	ids, err := DecodeIdentifiers(change(EncodeIdentifiers([]Identifier{{CodeSet: 1}, {CodeSet: 2}}), 12+16+8, 1))
	if len(ids) != 1 || !errors.Is(err, ErrLayout) {
		t.Errorf("a broken second identifier: got %v, %v; want the first, ErrLayout", ids, err)
	}
	// A next offset of 0 ends the list, whatever the count says.
	ids, err = DecodeIdentifiers(change(EncodeIdentifiers([]Identifier{{ID: []byte("1234")}}), 8, 1000))
	if len(ids) != 1 || err != nil {
		t.Errorf("1000 identifiers without an offset to the next: got %d, %v; want 1", len(ids), err)
	}
}

// Bytes that Windows writes and our encoders do not: without padding, with garbage in it, with
// offsets of 0. (TestLayouts compares what the encoders write with the headers.)
func TestDecodeGolden(t *testing.T) {
	hex := func(lines ...string) []byte { return unhex(t, lines...) }
	// A directory in Windows' form: times, a short file index, an 8-byte aligned
	// second entry, and no padding after the last.
	listing := hex(
		"48000000 00000000", strings.Repeat("1122334455667788", 4), "0000000000000000 0000000000000000", "10000000 02000000 00000000", "2e00", "0000",
		"00000000 00000000", strings.Repeat("1122334455667788", 4), "0500000000000000 0010000000000000", "20040000 06000000 0c0000a0", "6100 3dd8 17dd")
	es, err := DecodeDirectory(listing)
	want := []DirEntry{
		{".", FILE_ATTRIBUTE_DIRECTORY, 0, 0},
		{"a\U0001F517", FILE_ATTRIBUTE_ARCHIVE | FILE_ATTRIBUTE_REPARSE_POINT, IO_REPARSE_TAG_SYMLINK, 5},
	}
	if err != nil || !reflect.DeepEqual(es, want) {
		t.Errorf("DecodeDirectory: got %+v, %v; want %+v", es, err, want)
	}
	d, err := DecodeDeviceDescriptor(hex(
		"28000000 31000000 00 00 00 01", "00000000 28000000 00000000 2a000000", "0a000000 00000000 00000000",
		"5000", "2030312000", "5858"))
	if want := (DeviceDescriptor{BusType: BusTypeSas, Product: "P", SerialNumber: " 01 "}); err != nil || d != want {
		t.Errorf("DecodeDeviceDescriptor: got %+v, %v; want %+v", d, err, want)
	}
	es2, err := DecodeExtents(hex("02000000 00000000",
		"01000000 00000000 0000100000000000 0000000800000000", "03000000 ffffffff 0000200000000000 0000000400000000"))
	if want := []Extent{{1, 1 << 20, 128 << 20}, {3, 2 << 20, 64 << 20}}; err != nil || !reflect.DeepEqual(es2, want) {
		t.Errorf("DecodeExtents (with garbage in the padding): got %+v, %v; want %+v", es2, err, want)
	}
}

// A name longer than a GPT entry holds must not overwrite the next field.
func TestLongPartitionName(t *testing.T) {
	l := Layout{Style: PARTITION_STYLE_GPT, Partitions: []Partition{
		{Style: PARTITION_STYLE_GPT, Name: strings.Repeat("n", 40)}, {Style: PARTITION_STYLE_GPT, Number: 2}}}
	got, err := DecodeLayout(l.Encode())
	if err != nil || len(got.Partitions) != 2 || got.Partitions[0].Name != strings.Repeat("n", 36) || got.Partitions[1] != l.Partitions[1] {
		t.Errorf("got %+v, %v; want the name cut at 36 and the second partition whole", got, err)
	}
}
