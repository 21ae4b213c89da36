package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// journal is a file with what this program made on the machine that would outlive its
// process. An entry is written before the thing is made.
type journal struct{ file string }

// entry is a line of the journal.
type entry struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// The kinds of entries.
const (
	kindDirectory = "directory"
	kindService   = "service"
	kindStopped   = "stopped" // a service of the machine that was started
	kindAccount   = "account" // a local account
	kindShare     = "share"   // an SMB share of this machine
	kindMapping   = "mapping" // a global SMB mapping
)

// directoryPrefix is the start of the names of directories that are made.
const directoryPrefix = "csi-proxy-verify-"

func (j *journal) add(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(j.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// A line before it may lack its end.
	_, err = fmt.Fprintf(f, "\n%s\n", line)
	return errors.Join(err, f.Sync(), f.Close())
}

// undo undoes all entries, the last one first, and removes the journal. Entries that
// cannot be undone stay in it. It returns how many were undone.
func (j *journal) undo(undo func(entry) error) (int, error) {
	all, err := j.read()
	if err != nil {
		return 0, err
	}
	var errs []error
	var left []entry
	done := 0
	for _, e := range slices.Backward(all) {
		if err := undo(e); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", e.Kind, e.Name, err))
			left = append(left, e)
			continue
		}
		done++
	}
	if err := os.Remove(j.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, errors.Join(append(errs, err)...)
	}
	for _, e := range slices.Backward(left) {
		errs = append(errs, j.add(e))
	}
	return done, errors.Join(errs...)
}

// read returns the entries. A last line that was not written to its end is none: what it
// was about was not made.
func (j *journal) read() ([]entry, error) {
	f, err := os.Open(j.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []entry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			all = append(all, e)
		}
	}
	return all, nil
}
