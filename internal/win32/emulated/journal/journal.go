// Package journal keeps the state of an emulated node in a file, so that killing the process
// loses no call that has returned.
//
// The state is a map from string keys ("disk/…", "volume/…", "file/…") to JSON values. A line of
// the file is a JSON object with the values that one call has changed; null removes a key. The
// line is appended before its call returns. Nothing is fsynced: this covers kill -9 of the
// process, but not a power failure of the machine.
//
// A process that is killed leaves at most the beginning of a line at the end of the file, which
// [Open] cuts off: its call never returned. Another line that cannot be read is damage, and an
// error: the state is neither cut nor guessed.
//
// When the file has become long, one with a single line takes its place.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Record has the values that a call changes.
type Record map[string]json.RawMessage

// Put stores v, as JSON, under key.
func (r Record) Put(key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store %q: %w", key, err)
	}
	r[key] = raw
	return nil
}

// Delete removes key, which need not exist.
func (r Record) Delete(key string) { r[key] = json.RawMessage("null") }

// Store is the state in a directory. It is not safe for concurrent use: the
// emulated node makes its calls one after the other.
type Store struct {
	dir  string
	file *os.File
	size int64 // bytes of whole lines in file
	// CompactAt is the size of the file at which [Store.CompactIfDue] replaces it.
	CompactAt int64
	data      Record
}

// firstCompaction is the size of the file at which to replace it for the first time.
const firstCompaction = 4 << 20

// errDamaged says what to do about a damaged state.
const errDamaged = "the state of the simulated node was changed or damaged; restore its directory, or remove it to begin with a new node"

// Open loads the state in dir, which may be empty. Images of disks without a journal, which is made
// before them, are an error.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, data: Record{}, CompactAt: firstCompaction}
	if old, err := filepath.Glob(s.path() + ".[0-9]*"); err != nil || len(old) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%s is of a version that this program does not read; remove the directory to begin with a new node", old))
	}
	images, err := filepath.Glob(filepath.Join(dir, "disk-*.img"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.path()); errors.Is(err, fs.ErrNotExist) && len(images) > 0 {
		return nil, fmt.Errorf("%s is missing, and %d images of disks are there: %s", s.path(), len(images), errDamaged)
	}
	if s.file, err = os.OpenFile(s.path(), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := s.read(); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("%s: %w", s.path(), err)
	}
	return s, nil
}

func (s *Store) path() string { return filepath.Join(s.dir, "journal") }

// read applies the lines of the file, and cuts off the beginning of one.
func (s *Store) read() error {
	text, err := io.ReadAll(s.file)
	if err != nil {
		return err
	}
	for number := 1; ; number++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return s.file.Truncate(s.size)
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("line %d: %w: %s", number, err, errDamaged)
		}
		s.apply(r)
		s.size += int64(len(line) + 1)
		text = rest
	}
}

func (s *Store) apply(r Record) {
	for key, value := range r {
		if string(value) == "null" {
			delete(s.data, key)
		} else {
			s.data[key] = value
		}
	}
}

// Commit appends r to the file and changes the values. If it fails, nothing has changed.
func (s *Store) Commit(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		// The part that was written would look like damage before the next line.
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(line))
	s.apply(r)
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

// Size returns the length of the file in bytes.
func (s *Store) Size() int64 { return s.size }

// CompactIfDue replaces the file if it has reached CompactAt. If that fails, it is used
// further, and the next try is later.
func (s *Store) CompactIfDue() error {
	if s.size < s.CompactAt {
		return nil
	}
	s.CompactAt *= 2
	line, err := json.Marshal(s.data)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if err := os.WriteFile(s.path()+".new", line, 0o600); err != nil {
		return err
	}
	s.file.Close() // Windows renames no open file
	renamed := os.Rename(s.path()+".new", s.path())
	if renamed == nil {
		s.size, s.CompactAt = int64(len(line)), max(firstCompaction, 2*int64(len(line)))
	}
	s.file, err = os.OpenFile(s.path(), os.O_RDWR, 0o600)
	return errors.Join(renamed, err)
}

// Close closes the file. Later commits fail.
func (s *Store) Close() error { return s.file.Close() }

// Keys returns the keys with a prefix, sorted.
func (s *Store) Keys(prefix string) []string {
	var keys []string
	for k := range s.data {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
