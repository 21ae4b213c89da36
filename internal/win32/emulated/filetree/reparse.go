package filetree

import (
	"encoding/binary"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

var le = binary.LittleEndian

const (
	// microsoftTag is the bit of tags whose buffer is a REPARSE_DATA_BUFFER
	// ([MS-FSCC] 2.1.2.1).
	microsoftTag  = 0x80000000
	reparseHeader = 8
)

// CheckReparse reports whether b, the input of FSCTL_SET_REPARSE_POINT, is valid
// for a directory or an empty file. None of its lengths and offsets can be
// trusted. It returns
//
//   - STATUS_IO_REPARSE_DATA_INVALID for a wrong size ([MS-FSA] 2.1.5.10.37), and
//     for names of a mount point or symbolic link at other offsets than
//     FsRtlValidateReparsePointBuffer (ntifs.h) requires,
//   - STATUS_NOT_SUPPORTED for a tag that is not one of Microsoft's, whose buffer has the
//     GUID of its owner,
//   - STATUS_NOT_A_DIRECTORY for a mount point on a file ([MS-FSA] 2.1.5.10.37).
func CheckReparse(b []byte, dir bool) error {
	// Source: specification, [MS-FSA] 2.1.5.10.37; [MS-FSCC] 2.3.82.
	const invalid = win32.STATUS_IO_REPARSE_DATA_INVALID
	if len(b) < reparseHeader || len(b) > win32.MAXIMUM_REPARSE_DATA_BUFFER_SIZE {
		return invalid
	}
	tag, n := le.Uint32(b), int(le.Uint16(b[4:]))
	switch {
	case tag&microsoftTag == 0:
		return win32.STATUS_NOT_SUPPORTED // Source: node, hosts make links only
	case len(b) != reparseHeader+n:
		return invalid
	case tag == win32.IO_REPARSE_TAG_MOUNT_POINT && !dir:
		return win32.STATUS_NOT_A_DIRECTORY // Source: specification, [MS-FSA] 2.1.5.10.37
	case tag == win32.IO_REPARSE_TAG_MOUNT_POINT:
		return checkMountPoint(b[reparseHeader:])
	case tag == win32.IO_REPARSE_TAG_SYMLINK:
		return checkSymlink(b[reparseHeader:])
	}
	return nil // another Microsoft tag; its data is not checked
}

// checkMountPoint requires the substitute name at 0, the print name right after
// its NUL, and the end of the data after the print name's NUL.
//
// Source: document, FsRtlValidateReparsePointBuffer (ntifs.h).
func checkMountPoint(d []byte) error {
	const names = 8
	if len(d) < names {
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	}
	subOff, sub := int(le.Uint16(d)), int(le.Uint16(d[2:]))
	prtOff, prt := int(le.Uint16(d[4:])), int(le.Uint16(d[6:]))
	if sub == 0 || sub%2 != 0 || prt%2 != 0 || subOff != 0 || prtOff != sub+2 || len(d) != names+sub+2+prt+2 {
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	}
	if le.Uint16(d[names+sub:]) != 0 || le.Uint16(d[names+prtOff+prt:]) != 0 {
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	}
	return nil
}

// checkSymlink requires both names inside the data, in any order, and a
// substitute name that is not empty.
//
// Source: document, FsRtlValidateReparsePointBuffer (ntifs.h).
func checkSymlink(d []byte) error {
	const names = 12
	if len(d) < names {
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	}
	room := len(d) - names
	for _, field := range []int{0, 4} {
		off, n := int(le.Uint16(d[field:])), int(le.Uint16(d[field+2:]))
		if off%2 != 0 || n%2 != 0 || off+n > room {
			return win32.STATUS_IO_REPARSE_DATA_INVALID
		}
	}
	if le.Uint16(d[2:]) == 0 {
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	}
	return nil
}

// SetReparse makes e a reparse point or changes an existing one
// (FSCTL_SET_REPARSE_POINT, [MS-FSA] 2.1.5.10.37, in its order). It returns
//
//   - the errors of [CheckReparse],
//   - STATUS_DIRECTORY_NOT_EMPTY on a directory with entries,
//   - STATUS_IO_REPARSE_TAG_MISMATCH on a reparse point with another tag,
//   - STATUS_ACCESS_DENIED for the root: Windows does not let the root of a mounted
//     volume be redirected (general knowledge).
//
// Source: specification, [MS-FSA] 2.1.5.10.37.
// Source of STATUS_ACCESS_DENIED: inference, the root of a volume cannot be a link.
func (t *Tree) SetReparse(c Changes, e *Entry, b []byte) error {
	if err := CheckReparse(b, e.IsDir()); err != nil {
		return err
	}
	switch {
	case !e.Empty():
		return win32.STATUS_DIRECTORY_NOT_EMPTY
	case e == t.root:
		return win32.STATUS_ACCESS_DENIED
	case e.rec.Reparse != nil && e.ReparseTag() != le.Uint32(b):
		return win32.STATUS_IO_REPARSE_TAG_MISMATCH
	}
	e.rec.Reparse = append([]byte(nil), b...)
	if !e.IsDir() {
		e.rec.Attributes |= win32.FILE_ATTRIBUTE_ARCHIVE
	}
	t.put(c, e)
	return nil
}

// DeleteReparse makes a reparse point an ordinary entry again
// (FSCTL_DELETE_REPARSE_POINT, [MS-FSA] 2.1.5.10.3). b is only the header, with
// the tag to delete and a data length of 0. It returns
// STATUS_IO_REPARSE_DATA_INVALID for any other b, STATUS_NOT_A_REPARSE_POINT for an
// ordinary entry, and STATUS_IO_REPARSE_TAG_MISMATCH for another tag.
//
// Source: specification, [MS-FSA] 2.1.5.10.3; [MS-FSCC] 2.3.6.
func (t *Tree) DeleteReparse(c Changes, e *Entry, b []byte) error {
	switch {
	case len(b) != reparseHeader || le.Uint16(b[4:]) != 0:
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	case e.rec.Reparse == nil:
		return win32.STATUS_NOT_A_REPARSE_POINT
	case e.ReparseTag() != le.Uint32(b):
		return win32.STATUS_IO_REPARSE_TAG_MISMATCH
	}
	e.rec.Reparse = nil
	t.put(c, e)
	return nil
}
