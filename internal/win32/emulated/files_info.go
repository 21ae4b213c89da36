package emulated

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
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
func (n *Node) QueryDirectory(h win32.Handle, restart bool, buf []byte) (size int, err error) {
	err = n.do(func(*tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		size, err = f.queryDirectory(restart, buf)
		return err
	})
	return size, err
}

// file returns the open file h. It returns STATUS_INVALID_HANDLE if there is no
// such handle. For a handle of another kind it returns
// STATUS_INVALID_DEVICE_REQUEST, like a device that gets a request for a file
// system (general knowledge).
func (n *Node) file(h win32.Handle) (*file, error) {
	o, ok := n.lookup(h)
	if !ok {
		return nil, win32.STATUS_INVALID_HANDLE
	}
	f, ok := o.(*file)
	if !ok {
		return nil, win32.STATUS_INVALID_DEVICE_REQUEST
	}
	return f, nil
}

// queryDirectory follows [MS-FSA] 2.1.5.6.3.5 (FileFullDirectoryInformation) and
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

var le = binary.LittleEndian

// sizeofBasic is sizeof(FILE_BASIC_INFORMATION): four times, attributes, padding.
const (
	sizeofBasic      = 40
	basicAttributes  = 32
	sizeofInternal   = 8
	sizeofEndOfFile  = 8
	renameRoot       = 8  // FILE_RENAME_INFORMATION.RootDirectory
	renameNameLength = 16 // .FileNameLength
	renameName       = 20 // .FileName
	sizeofRename     = 24
)

// QueryInformation implements [win32.Files].
func (n *Node) QueryInformation(h win32.Handle, class uint32, buf []byte) (size int, err error) {
	err = n.do(func(*tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		size, err = f.queryInformation(class, buf)
		return err
	})
	return size, err
}

// queryInformation follows [MS-FSA] 2.1.5.12 for each class. Other classes fail
// with STATUS_INVALID_INFO_CLASS, a short buffer with
// STATUS_INFO_LENGTH_MISMATCH. Attributes need FILE_READ_ATTRIBUTES. Times are
// not emulated; they are zero.
func (f *file) queryInformation(class uint32, buf []byte) (int, error) {
	e := f.open.Entry()
	var out []byte
	right := uint32(0)
	switch class {
	case win32.FileBasicInformation:
		out, right = make([]byte, sizeofBasic), win32.FILE_READ_ATTRIBUTES
		le.PutUint32(out[basicAttributes:], e.Attributes())
	case win32.FileAttributeTagInformation:
		out, right = win32.AttributeTag{Attributes: e.Attributes(), ReparseTag: e.ReparseTag()}.Encode(), win32.FILE_READ_ATTRIBUTES
	case win32.FileStandardInformation:
		s := win32.FileStandard{EndOfFile: e.Size(), Links: 1, DeletePending: e.DeletePending(), Directory: e.IsDir()}
		if s.DeletePending {
			s.Links = 0 // a deleted link does not count ([MS-FSA] 2.1.5.12.27)
		}
		out = s.Encode()
	case win32.FileInternalInformation:
		out = le.AppendUint64(make([]byte, 0, sizeofInternal), uint64(e.ID()))
	default:
		return 0, win32.STATUS_INVALID_INFO_CLASS
	}
	if len(buf) < len(out) {
		return 0, win32.STATUS_INFO_LENGTH_MISMATCH
	}
	if err := f.check(right); err != nil {
		return 0, err
	}
	return copy(buf, out), nil
}

// SetInformation implements [win32.Files].
func (n *Node) SetInformation(h win32.Handle, class uint32, in []byte) error {
	return n.do(func(t *tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		return f.setInformation(t, class, in)
	})
}

// setInformation follows [MS-FSA] 2.1.5.15 for each class. An unknown class fails
// with STATUS_INVALID_INFO_CLASS, a short buffer with
// STATUS_INFO_LENGTH_MISMATCH. For the other errors see the methods of
// [filetree.Tree].
func (f *file) setInformation(t *tx, class uint32, in []byte) error {
	want, right := 0, uint32(win32.DELETE)
	switch class {
	case win32.FileBasicInformation:
		want, right = sizeofBasic, win32.FILE_WRITE_ATTRIBUTES
	case win32.FileEndOfFileInformation:
		want, right = sizeofEndOfFile, fileWriteData
	case win32.FileRenameInformation:
		want = sizeofRename
	case win32.FileDispositionInformation:
		want = 1
	case win32.FileDispositionInformationEx:
		want = 4
	default:
		return win32.STATUS_INVALID_INFO_CLASS
	}
	if len(in) < want {
		return win32.STATUS_INFO_LENGTH_MISMATCH
	}
	if err := f.check(right); err != nil {
		return err
	}
	if f.vol.writable() != nil {
		return win32.STATUS_MEDIA_WRITE_PROTECTED
	}
	changes := t.files(f.vol)
	switch class {
	case win32.FileBasicInformation:
		attributes := le.Uint32(in[basicAttributes:])
		if attributes == 0 {
			return nil // 0 leaves them unchanged
		}
		return f.tree.SetAttributes(changes, f.open.Entry(), attributes)
	case win32.FileEndOfFileInformation:
		return f.tree.SetSize(changes, f.open.Entry(), int64(le.Uint64(in)))
	case win32.FileRenameInformation:
		return f.rename(t, in)
	case win32.FileDispositionInformation:
		flags := uint32(0)
		if in[0] != 0 {
			flags = win32.FILE_DISPOSITION_DELETE
		}
		return f.dispose(t, flags)
	default: // FileDispositionInformationEx
		return f.dispose(t, le.Uint32(in))
	}
}

// dispose marks f for deletion or removes the mark. The mark is stored: when a
// process ends, Windows closes its handles, so marked files are deleted when the
// state directory is opened again.
func (f *file) dispose(t *tx, flags uint32) error {
	if err := f.tree.SetDisposition(f.open, flags); err != nil {
		return err
	}
	if e := f.open.Entry(); e.DeletePending() {
		t.Put(closingKey(f.vol.fsid, e.ID()), true)
	} else {
		t.Delete(closingKey(f.vol.fsid, e.ID()))
	}
	return nil
}

// closingPrefix returns the prefix of the keys of a file system's files that are
// marked for deletion.
func closingPrefix(fsid string) string { return "closing/" + fsid + "/" }

func closingKey(fsid string, id filetree.ID) string {
	return closingPrefix(fsid) + strconv.FormatUint(uint64(id), 10)
}

// finishDeletions deletes the files marked for deletion, as Windows does when the
// process with the handles ends.
func (n *Node) finishDeletions(t *tx) error {
	for _, k := range n.store.keys("closing/") {
		fsid, number, _ := strings.Cut(strings.TrimPrefix(k, "closing/"), "/")
		id, err := strconv.ParseUint(number, 10, 64)
		tree := n.trees[fsid]
		if err != nil || tree == nil {
			return fmt.Errorf("%s: no such file", k)
		}
		tree.Remove(fileChanges{t, filePrefix(fsid)}, filetree.ID(id))
		t.Delete(k)
	}
	return nil
}

// rename applies a FILE_RENAME_INFORMATION. A name without a directory stays in
// the file's own directory; one with a RootDirectory is relative to it; others
// are absolute (the structure's page in ntifs.h). For the latter two, Windows
// opens the target directory for writing, with sharing of reads and writes, and
// share modes apply (general knowledge). A name that is empty, of an odd length
// or longer than the buffer fails with STATUS_INVALID_PARAMETER, and one on
// another volume with STATUS_NOT_SAME_DEVICE.
func (f *file) rename(t *tx, in []byte) error {
	root, size := le.Uint64(in[renameRoot:]), uint64(le.Uint32(in[renameNameLength:]))
	if size == 0 || size%2 != 0 || size > uint64(len(in)-renameName) {
		return win32.STATUS_INVALID_PARAMETER
	}
	u := make([]uint16, size/2)
	for i := range u {
		u[i] = le.Uint16(in[renameName+2*i:])
	}
	name, replace, changes := string(utf16.Decode(u)), in[0] != 0, t.files(f.vol)
	if root == 0 && !strings.Contains(name, `\`) {
		if f.open.Entry().Parent() == nil {
			return win32.STATUS_INVALID_PARAMETER // [MS-FSA] 2.1.5.15.11: the root has no other name
		}
		return f.tree.Rename(changes, f.open, f.open.Entry().Parent(), name, replace)
	}
	var from *file
	if root != 0 {
		var err error
		if from, err = f.n.file(win32.Handle(root)); err != nil {
			return err
		}
		if err := from.check(0); err != nil {
			return err
		}
	}
	// A replaced target is the entry itself, even if it is a link.
	p, err := f.n.resolve(from, name, lookupMode{openLast: true})
	switch {
	case err != nil:
		return err
	case p.dir == nil:
		return win32.STATUS_OBJECT_NAME_INVALID // the root of a volume, or the directory itself
	case p.tree != f.tree:
		return win32.STATUS_NOT_SAME_DEVICE
	}
	dir, err := f.tree.Open(p.dir, fileWriteData|win32.SYNCHRONIZE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, false)
	if err != nil {
		return err
	}
	defer f.tree.Close(changes, dir)
	return f.tree.Rename(changes, f.open, p.dir, p.name, replace)
}

// FinalPath implements [win32.Files].
func (n *Node) FinalPath(h win32.Handle, flags uint32) (path string, err error) {
	err = n.do(func(*tx) error {
		path, err = n.finalPath(h, flags)
		return err
	})
	return path, err
}

// finalPath follows the page of GetFinalPathNameByHandleW. It returns
// ERROR_PATH_NOT_FOUND for a request for a drive letter or folder if the volume
// has none, and ERROR_INVALID_PARAMETER for unknown flags. A handle that is not
// of a file fails with ERROR_INVALID_FUNCTION. A deleted file fails with
// ERROR_ACCESS_DENIED (STATUS_FILE_DELETED; general knowledge).
func (n *Node) finalPath(h win32.Handle, flags uint32) (string, error) {
	const fileNameOpened = 8 // FILE_NAME_OPENED; the normalised name is the same here
	f, err := n.file(h)
	if err != nil {
		return "", err.(win32.NTStatus).Errno()
	}
	if err := f.check(0); err != nil {
		return "", err.(win32.NTStatus).Errno()
	}
	if f.open.Entry().Gone() {
		return "", win32.STATUS_FILE_DELETED.Errno()
	}
	path := f.open.Entry().Path()
	switch flags &^ fileNameOpened {
	case win32.VOLUME_NAME_DOS:
		if f.vol.share != nil {
			return `\\?\UNC` + f.vol.share.String()[1:] + path, nil
		}
		root, ok := n.dosRoot(f.vol)
		if !ok {
			return "", win32.ERROR_PATH_NOT_FOUND
		}
		return `\\?\` + strings.TrimSuffix(root, `\`) + path, nil
	case win32.VOLUME_NAME_GUID:
		if f.vol.share != nil {
			return "", win32.ERROR_PATH_NOT_FOUND // a share has no volume name (the function's page)
		}
		return strings.TrimSuffix(f.vol.name(), `\`) + path, nil
	case win32.VOLUME_NAME_NT:
		return f.vol.ntDevice() + path, nil
	case win32.VOLUME_NAME_NONE:
		return path, nil
	}
	return "", win32.ERROR_INVALID_PARAMETER
}

// Attributes implements [win32.Files].
func (n *Node) Attributes(path string) (attributes uint32, err error) {
	err = n.do(func(*tx) error {
		attributes, err = n.attributes(path)
		return err
	})
	return attributes, err
}

// attributes is GetFileAttributesW. It follows links in the path, but not a link
// that is the last component. A name that Win32 reserves for a device has
// FILE_ATTRIBUTE_ARCHIVE (general knowledge; ReactOS does the same).
func (n *Node) attributes(path string) (uint32, error) {
	name, device, err := ntName(path)
	switch {
	case err != nil:
		return 0, err
	case device:
		return win32.FILE_ATTRIBUTE_ARCHIVE, nil
	}
	p, err := n.resolve(nil, name, lookupMode{openLast: true})
	if err == nil {
		err = p.exists()
	}
	if err != nil {
		return 0, err.(win32.NTStatus).Errno()
	}
	return p.entry.Attributes(), nil
}

// exists returns the error of opening an existing p: [MS-FSA] 2.1.5.1, phases 6
// and 7, and 2.1.5.1.2.
func (p place) exists() error {
	switch {
	case p.entry == nil:
		return win32.STATUS_OBJECT_NAME_NOT_FOUND
	case p.slash && !p.entry.IsDir():
		return win32.STATUS_NOT_A_DIRECTORY
	case p.entry.DeletePending():
		return win32.STATUS_DELETE_PENDING
	}
	return nil
}
