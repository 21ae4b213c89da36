// Package journal keeps the state of an emulated node in a directory, so that
// killing the process loses no call that has returned.
//
// The state is a map from string keys ("disk/…", "volume/…", "file/…") to JSON
// values, in two files:
//
//	state.json     a snapshot of the map and the number of the journal that continues it
//	journal.<n>    one record per mutating Win32 call
//
// A record is appended before its call returns. Nothing is fsynced: this covers
// kill -9 of the process, but not a power failure of the machine.
//
// A record also has what the call writes to disk images. It goes first to the
// journal and then, by the caller, to the image. Since calls run one after the
// other, only the last record can lack its image writes; [Open] returns them, to
// be repeated.
//
//	record  = length u32, CRC-32C of length u32, CRC-32C of payload u32, payload
//	payload = op…
//	op      = 'P' key value | 'D' key | 'W' disk offset bytes | 'Z' disk offset length
//
// A process that is killed leaves at most the beginning of a record at the end of the
// journal, which [Open] cuts off: its call never returned. Anything else that is wrong,
// in the journal or the snapshot, is damage, and an error: the state is neither cut nor
// guessed.
//
// Numbers in ops are uvarints; strings and bytes follow their length. Z is a
// range of zeros: wiping a disk does not put megabytes of them into the journal.
package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Store is the state in a directory. It is not safe for concurrent use: the
// emulated node makes its calls one after the other.
type Store struct {
	dir  string
	gen  uint64 // number of the journal in use
	log  *os.File
	size int64 // bytes of valid records in log
	// CompactAt is the journal size at which [Store.CompactIfDue] writes the next
	// snapshot.
	CompactAt int64
	data      map[string][]byte
}

const (
	opPut   = 'P'
	opDel   = 'D'
	opWrite = 'W'
	opZero  = 'Z'

	// HeaderSize is the size of a record before its payload.
	HeaderSize = 12
	// maxRecord is the longest record that replay accepts.
	maxRecord = 1 << 30
	// firstCompaction is the journal size at which to write the first snapshot.
	firstCompaction = 4 << 20
	// Format is the format of the state that this package reads and writes.
	Format = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ImageWrite is a change of a disk image: Data at Offset, or Length zeros.
type ImageWrite struct {
	Disk   string // the disk's identity, not its number
	Offset uint64
	Data   []byte // nil for zeros
	Length uint64
}

// snapshot is the content of state.json.
type snapshot struct {
	Format  int             `json:"format"`
	Journal uint64          `json:"journal"`
	Sum     uint32          `json:"sum"` // CRC-32C of the number of the journal, and of Values
	Values  json.RawMessage `json:"values"`
}

func (s *snapshot) sum() uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, s.Journal), castagnoli), castagnoli, s.Values)
}

// errDamaged says what to do about a damaged state.
const errDamaged = "the state of the simulated node was changed or damaged; restore its directory, or remove it to begin with a new node"

// Open loads the state in dir, which may be empty. pending are the image writes of
// the last record; the caller repeats them before it reads the images.
func Open(dir string) (s *Store, pending []ImageWrite, err error) {
	s = &Store{dir: dir, data: map[string][]byte{}, CompactAt: firstCompaction}
	raw, err := os.ReadFile(s.snapshotPath())
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing:
	case err != nil:
		return nil, nil, err
	default:
		var snap snapshot
		if err := json.Unmarshal(raw, &snap); err != nil {
			return nil, nil, fmt.Errorf("%s: %w: %s", s.snapshotPath(), err, errDamaged)
		}
		if snap.Format != Format {
			return nil, nil, fmt.Errorf("%s: state format %d, but this program reads format %d", s.snapshotPath(), snap.Format, Format)
		}
		if got := snap.sum(); got != snap.Sum {
			return nil, nil, fmt.Errorf("%s: the checksum is %08x, want %08x: %s", s.snapshotPath(), got, snap.Sum, errDamaged)
		}
		s.gen = snap.Journal
		values := map[string]json.RawMessage{}
		if err := json.Unmarshal(snap.Values, &values); err != nil {
			return nil, nil, fmt.Errorf("%s: %w: %s", s.snapshotPath(), err, errDamaged)
		}
		for k, v := range values {
			s.data[k] = v
		}
	}
	if err := s.checkFiles(!missing); err != nil {
		return nil, nil, err
	}
	if s.log, err = os.OpenFile(s.journalPath(s.gen), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, nil, err
	}
	log := s.log
	defer func() {
		if err != nil {
			log.Close()
		}
	}()
	journal, err := io.ReadAll(s.log)
	if err != nil {
		return nil, nil, err
	}
	good, pending, err := replay(journal, s.data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %s", s.log.Name(), err, errDamaged)
	}
	s.size = int64(good)
	// What follows the last valid record is of a call that never returned: its
	// process ended while writing it.
	if err := s.log.Truncate(s.size); err != nil {
		return nil, nil, err
	}
	return s, pending, s.removeLeftovers()
}

func (s *Store) snapshotPath() string { return filepath.Join(s.dir, "state.json") }

func (s *Store) journalPath(gen uint64) string {
	return filepath.Join(s.dir, "journal."+strconv.FormatUint(gen, 10))
}

// checkFiles returns an error if a file of the state is missing: the journal of the
// snapshot, or the snapshot of a journal.
func (s *Store) checkFiles(snapshot bool) error {
	_, err := os.Stat(s.journalPath(s.gen))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	others, err := filepath.Glob(filepath.Join(s.dir, "journal.*"))
	if err != nil || len(others) == 0 && !snapshot {
		return err // a new directory
	}
	return fmt.Errorf("%s is missing: %s", s.journalPath(s.gen), errDamaged)
}

// removeLeftovers removes the files of a process that was killed while it wrote a
// snapshot: an incomplete snapshot, or a journal that is not in use.
func (s *Store) removeLeftovers() error {
	names, err := filepath.Glob(filepath.Join(s.dir, "journal.*"))
	if err != nil {
		return err
	}
	for _, name := range append(names, s.snapshotPath()+".new") {
		if name == s.journalPath(s.gen) {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// replay applies the records of a journal to data, up to one of which only the beginning
// is there. It returns the number of valid bytes and the image writes of the last record.
// The error names a damaged record.
func replay(journal []byte, data map[string][]byte) (good int, pending []ImageWrite, err error) {
	for number := 1; ; number++ {
		rest := journal[good:]
		damaged := func(what string) error { return fmt.Errorf("record %d, at byte %d: %s", number, good, what) }
		if len(rest) < HeaderSize {
			return good, pending, nil
		}
		n := uint64(binary.LittleEndian.Uint32(rest))
		if n > maxRecord || crc32.Checksum(rest[:4], castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
			return good, pending, damaged("the checksum of its length is wrong")
		}
		if n > uint64(len(rest)-HeaderSize) {
			return good, pending, nil
		}
		payload := rest[HeaderSize : HeaderSize+n]
		if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(rest[8:]) {
			return good, pending, damaged("its checksum is wrong")
		}
		writes, ok := applyRecord(payload, data)
		if !ok {
			return good, pending, damaged("it has an unknown change")
		}
		pending = writes
		good += HeaderSize + int(n)
	}
}

// applyRecord applies the ops of one record, all or none.
func applyRecord(payload []byte, data map[string][]byte) (writes []ImageWrite, ok bool) {
	var changes []change
	r := opReader{b: payload, ok: true}
	for len(r.b) > 0 && r.ok {
		op := r.b[0]
		r.b = r.b[1:]
		switch op {
		case opPut:
			key := string(r.bytes())
			value := slices.Clone(r.bytes())
			if !json.Valid(value) {
				return nil, false
			}
			changes = append(changes, change{key, value})
		case opDel:
			changes = append(changes, change{string(r.bytes()), nil})
		case opWrite:
			w := ImageWrite{Disk: string(r.bytes()), Offset: r.uvarint()}
			w.Data = slices.Clone(r.bytes())
			w.Length = uint64(len(w.Data))
			writes = append(writes, w)
		case opZero:
			writes = append(writes, ImageWrite{Disk: string(r.bytes()), Offset: r.uvarint(), Length: r.uvarint()})
		default:
			return nil, false
		}
	}
	if !r.ok {
		return nil, false
	}
	apply(changes, data)
	return writes, true
}

// change is a new value of a key.
type change struct {
	key   string
	value []byte // nil deletes
}

func apply(changes []change, data map[string][]byte) {
	for _, c := range changes {
		if c.value == nil {
			delete(data, c.key)
		} else {
			data[c.key] = c.value
		}
	}
}

// opReader reads the fields of ops. If a field does not fit, it sets ok to false and
// returns an empty value.
type opReader struct {
	b  []byte
	ok bool
}

func (r *opReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.ok, r.b = false, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *opReader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.ok, r.b = false, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// putHeader writes the header of a record.
func putHeader(record, payload []byte) {
	binary.LittleEndian.PutUint32(record, uint32(len(payload)))
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(record[:4], castagnoli))
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(payload, castagnoli))
}

// Commit appends r to the journal and changes the values. If it fails, nothing has
// changed.
func (s *Store) Commit(r *Record) error {
	if r.Empty() {
		return nil
	}
	record := r.b
	payload := record[HeaderSize:]
	if len(payload) > maxRecord {
		return fmt.Errorf("a change of %d bytes is larger than a journal record (%d)", len(payload), maxRecord)
	}
	putHeader(record, payload)
	if _, err := s.log.WriteAt(record, s.size); err != nil {
		// The part that was written would look like damage behind a shorter record.
		return errors.Join(err, s.log.Truncate(s.size))
	}
	s.size += int64(len(record))
	apply(r.changes, s.data)
	return nil
}

// Get returns the value of a key. The caller must not change it.
func (s *Store) Get(key string) (value []byte, ok bool) {
	value, ok = s.data[key]
	return value, ok
}

// Read decodes the value of a key into v.
func (s *Store) Read(key string, v any) error { return json.Unmarshal(s.data[key], v) }

// Dir returns the directory of the state.
func (s *Store) Dir() string { return s.dir }

// Size returns the length of the journal in bytes.
func (s *Store) Size() int64 { return s.size }

// CompactIfDue calls [Store.Compact] if the journal has reached CompactAt. If that
// fails, the journal goes on, and the next try is later.
func (s *Store) CompactIfDue() error {
	if s.size < s.CompactAt {
		return nil
	}
	err := s.Compact()
	if err != nil {
		s.CompactAt *= 2
	}
	return err
}

// Compact replaces snapshot and journal by a new snapshot and an empty journal. All
// image writes of the journal must be in the images already.
func (s *Store) Compact() error {
	values := make(map[string]json.RawMessage, len(s.data))
	for k, v := range s.data {
		values[k] = v
	}
	all, err := json.Marshal(values)
	if err != nil {
		return err
	}
	snap := snapshot{Format: Format, Journal: s.gen + 1, Values: all}
	snap.Sum = snap.sum()
	raw, err := json.Marshal(snap)
	if err != nil {
		return err
	}
	next, err := os.OpenFile(s.journalPath(s.gen+1), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	tmp := s.snapshotPath() + ".new"
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		next.Close()
		return err
	}
	if err := os.Rename(tmp, s.snapshotPath()); err != nil {
		next.Close()
		return err
	}
	s.log.Close()
	os.Remove(s.journalPath(s.gen)) // on failure the next load removes it
	s.log, s.size, s.gen = next, 0, s.gen+1
	s.CompactAt = max(firstCompaction, 2*int64(len(raw)))
	return nil
}

// Close closes the journal. Later commits fail.
func (s *Store) Close() error { return s.log.Close() }

// Keys returns the keys with a prefix, sorted.
func (s *Store) Keys(prefix string) []string {
	var keys []string
	for k := range maps.Keys(s.data) {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
