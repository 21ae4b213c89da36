package files

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// dirScan is a handle's position in its directory.
type dirScan struct {
	begun bool
	dots  int // how many of "." and ".." were read
	at    filetree.Cursor
}

// minDirectoryBuffer is sizeof(FILE_FULL_DIR_INFORMATION).
const minDirectoryBuffer = 72

// QueryDirectory implements [win32.Files].
//
// Source: document, NtQueryDirectoryFile; specification, [MS-FSA] 2.1.5.6.3.3.
func (n *Namespace) QueryDirectory(h win32.Handle, restart bool, buf []byte) (size int, err error) {
	err = n.Do(func(*kernel.Tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		size, err = f.queryDirectory(restart, buf)
		return err
	})
	return size, err
}

// queryDirectory follows [MS-FSA] 2.1.5.6.3.3 (FileFullDirectoryInformation) and
// the page of NtQueryDirectoryFile. It returns
//
//   - STATUS_INVALID_PARAMETER for an entry that is not a directory,
//     STATUS_ACCESS_DENIED without FILE_LIST_DIRECTORY,
//     STATUS_INFO_LENGTH_MISMATCH for a buffer that is too short for the fixed
//     part of one entry,
//   - STATUS_BUFFER_OVERFLOW with the beginning of the first entry's name if
//     the whole name does not fit; the scan stays where it is, for a larger
//     buffer,
//   - STATUS_NO_SUCH_FILE if there is no entry at all, as in the empty root of
//     a volume, which has neither "." nor ".."; STATUS_NO_MORE_FILES at the end.
//
// Even if the directory changes, the next call continues after the last name.
//
// Source: specification, [MS-FSA] 2.1.5.6.3 and 2.1.5.6.3.3.
// Source of STATUS_ACCESS_DENIED: document, NtQueryDirectoryFile, FILE_LIST_DIRECTORY; the
// number is inference.
func (f *file) queryDirectory(restart bool, buf []byte) (int, error) {
	dir := f.open.Entry()
	if err := f.check(0); err != nil {
		return 0, err
	}
	switch {
	case !dir.IsDir():
		return 0, win32.STATUS_INVALID_PARAMETER
	case f.open.Access()&win32.FILE_LIST_DIRECTORY == 0:
		return 0, win32.STATUS_ACCESS_DENIED
	case len(buf) < minDirectoryBuffer:
		return 0, win32.STATUS_INFO_LENGTH_MISMATCH
	}
	if restart {
		f.scan = dirScan{}
	}
	first := !f.scan.begun
	f.scan.begun = true
	var out []byte
	last := -1
	for {
		e, next, ok := f.scan.next(dir)
		if !ok {
			break
		}
		grown, at := win32.AppendDirEntry(out[:len(out):len(out)], last, e)
		if len(grown) > len(buf) {
			if last < 0 {
				return copy(buf, grown), win32.STATUS_BUFFER_OVERFLOW
			}
			le.PutUint32(out[last:], 0) // the next entry does not fit
			break
		}
		out, last, f.scan = grown, at, next
	}
	switch {
	case last >= 0:
		return copy(buf, out), nil
	case first:
		return 0, win32.STATUS_NO_SUCH_FILE
	}
	return 0, win32.STATUS_NO_MORE_FILES
}

// next returns the next entry of dir and the position after it.
func (s dirScan) next(dir *filetree.Entry) (win32.DirEntry, dirScan, bool) {
	if dir.Parent() != nil && s.dots < 2 {
		e := dir
		if s.dots == 1 {
			e = dir.Parent()
		}
		s.dots++
		return win32.DirEntry{Name: strings.Repeat(".", s.dots), Attributes: e.Attributes()}, s, true
	}
	e, at, ok := dir.Next(s.at)
	if !ok {
		return win32.DirEntry{}, s, false
	}
	s.at = at
	return win32.DirEntry{Name: e.Name(), Attributes: e.Attributes(), ReparseTag: e.ReparseTag(), Size: e.Size()}, s, true
}
