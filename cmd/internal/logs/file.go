package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits say how much is kept of a log.
type Limits struct {
	Bytes   int64         // a file that would exceed it becomes a backup; 0 means no limit
	Backups uint          // how many backups are kept
	Age     time.Duration // backups that were last written before are deleted; 0 means no limit
}

const (
	// stampLayout is the time in the name of a backup. Names sort like their times.
	stampLayout = "20060102T150405.000"

	// retryInterval is the pause between attempts to open a file that cannot be opened.
	retryInterval = 10 * time.Second

	// pruneInterval is how often old backups are looked for.
	pruneInterval = time.Hour
)

// File is a log file. Each Write is one call of the system without a buffer, so what was
// written survives the end of the process, though not a power failure. What cannot be
// written goes to another writer, and the file is tried again later.
//
// Other programs may read the file. Windows then may refuse to rename it, so it grows
// beyond its limit and is renamed later.
type File struct {
	path     string
	limits   Limits
	header   string // of each new file
	fallback io.Writer
	failed   func(error) // is called with each error; may be nil

	mu       sync.Mutex
	file     *os.File  // nil if it is not open
	size     int64     // of file
	rotateAt int64     // the size at which it becomes a backup
	retry    time.Time // when to open it again
	pruned   time.Time
	torn     bool  // the last line is incomplete
	err      error // why the last line is not in the file, or nil
}

// NewFile returns a log file. The first Write or [File.Open] opens it. A header, if it is
// not empty, is the first text in each new file. failed, if it is not nil, is called with each
// error of a Write; it must not write to the file.
func NewFile(path string, limits Limits, header string, fallback io.Writer, failed func(error)) *File {
	return &File{path: path, limits: limits, header: header, fallback: fallback, failed: failed}
}

// report says on the fallback what failed.
func (f *File) report(err error) {
	fmt.Fprintln(f.fallback, err)
	if f.failed != nil {
		f.failed(err)
	}
}

// Open opens the file, and makes its directory if there is none. If it fails, writes go to
// the fallback and try again from time to time.
func (f *File) Open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open()
}

// Err returns why the last line is not in the file, or nil.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// open must be called with mu held, while the file is not open.
func (f *File) open() error {
	file, size, err := openAppend(f.path)
	if err != nil {
		f.retry = time.Now().Add(retryInterval)
		f.err = fmt.Errorf("open log file: %w", err)
		return f.err
	}
	f.file, f.size, f.rotateAt, f.err = file, size, f.limits.Bytes, nil
	if size == 0 && f.header != "" {
		n, _ := file.WriteString(f.header) // an error shows with the next line
		f.size = int64(n)
	}
	f.prune()
	return nil
}

// openAppend opens a file for appending, and makes it and its directory if there is none.
func openAppend(path string) (*os.File, int64, error) {
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return nil, 0, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// Close closes the file. A later Write opens it again.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	defer func() { f.file, f.retry = nil, time.Time{} }()
	return f.file.Close()
}

// Write writes a line to the file, or to the fallback if that fails.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.file != nil && f.rotateAt > 0 && f.size > int64(len(f.header)) && f.size+int64(len(line)) > f.rotateAt {
		f.rotate(now)
	}
	if f.file == nil && !now.Before(f.retry) {
		if err := f.open(); err != nil {
			f.report(err)
		}
	}
	if f.file == nil {
		return f.fallback.Write(line)
	}
	if now.Sub(f.pruned) >= pruneInterval {
		f.prune()
	}
	if f.torn {
		n, err := f.file.WriteString("\n")
		f.size, f.torn = f.size+int64(n), err != nil
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	f.err = nil
	if err != nil {
		f.torn = f.torn || n > 0
		f.err = fmt.Errorf("write log file: %w", err)
		f.report(f.err)
		return f.fallback.Write(line)
	}
	return n, nil
}

// rotate makes the file a backup, and closes it. If it cannot be renamed, it is used for a
// tenth of its limit more.
func (f *File) rotate(now time.Time) {
	f.file.Close()
	f.file, f.retry = nil, time.Time{}
	limit := f.rotateAt + f.limits.Bytes/10
	if _, err := makeBackup(f.path, now); err != nil {
		fmt.Fprintf(f.fallback, "rotate log file: %v\n", err)
		if f.open() == nil {
			f.rotateAt = limit
		}
	}
}

// prune deletes the backups that are too many or too old.
func (f *File) prune() {
	f.pruned = time.Now()
	if err := prune(f.path, f.limits, f.pruned); err != nil {
		fmt.Fprintf(f.fallback, "delete old log files: %v\n", err)
	}
}

// makeBackup renames a file to the name of a backup, which it returns.
func makeBackup(path string, now time.Time) (string, error) {
	stem, ext := stemOf(path)
	for {
		backup := stem + now.UTC().Format(stampLayout) + ext
		if _, err := os.Lstat(backup); errors.Is(err, os.ErrNotExist) {
			return backup, os.Rename(path, backup)
		} else if err != nil {
			return "", err
		}
		now = now.Add(time.Millisecond) // a rename would replace the other backup
	}
}

// prune deletes the backups of a file that are too many or too old.
func prune(path string, limits Limits, now time.Time) error {
	stem, ext := stemOf(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	slices.Reverse(entries) // the newest ones first
	var kept uint
	var failed []error
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), filepath.Base(stem))
		if !ok || !strings.HasSuffix(name, ext) {
			continue
		}
		if _, err := time.Parse(stampLayout, strings.TrimSuffix(name, ext)); err != nil {
			continue
		}
		if info, err := e.Info(); err == nil && kept < limits.Backups && (limits.Age == 0 || now.Sub(info.ModTime()) <= limits.Age) {
			kept++
			continue
		}
		if err := os.Remove(filepath.Join(filepath.Dir(path), e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// stemOf returns what the name of a backup of a file begins and ends with.
func stemOf(path string) (stem, ext string) {
	ext = filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-", ext
}
