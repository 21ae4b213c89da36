package emulated

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
)

// NtCreateFile's numbers beyond those that this project uses (ntifs.h): they are
// known here so that they are refused as what they are.
const (
	fileMaximumDisposition = 5          // FILE_OVERWRITE_IF
	fileValidOptions       = 0x00FFFFFF // FILE_VALID_OPTION_FLAGS
	fileWriteThrough       = 0x00000002
	fileSequentialOnly     = 0x00000004
	fileSynchronousIOAlert = 0x00000010
	objValidAttributes     = 0x1FF2 // OBJ_VALID_ATTRIBUTES (ntdef.h)

	fileAppendData     = 0x0004
	fileWriteEA        = 0x0010
	writeDAC           = 0x00040000
	writeOwner         = 0x00080000
	maximumAllowed     = 0x02000000
	genericExecute     = 0x20000000
	fileGenericRead    = 0x00120089
	fileGenericWrite   = 0x00120116
	fileGenericExecute = 0x001200A0
	fileAllAccess      = 0x001F01FF
	// reservedAccess are bits that no access mask has ([MS-FSA] 2.1.5.1, phase 1).
	reservedAccess = 0x0CE0FE00
	// writesVolume are rights that a read-only volume does not grant.
	writesVolume = fileWriteData | fileAppendData | fileWriteEA | win32.FILE_WRITE_ATTRIBUTES | win32.DELETE | writeDAC | writeOwner
)

// file is an open file or directory.
type file struct {
	n    *Node
	vol  *volume
	tree *filetree.Tree
	open *filetree.Open
	scan dirScan
}

// NtCreateFile implements [win32.Files].
func (n *Node) NtCreateFile(root win32.Handle, name string, access, objAttr, share, disposition, options uint32) (h win32.Handle, err error) {
	err = n.do(func(t *tx) error {
		var f *file
		if f, err = n.ntCreateFile(t, root, name, access, objAttr, share, disposition, options); err != nil {
			return err
		}
		h = n.insert(f, name)
		return nil
	})
	return h, err
}

// checkCreate refuses parameters that go wrong together or alone, whatever they
// are about ([MS-FSA] 2.1.5.1, phase 1, in its order; for objAttr the page of
// OBJECT_ATTRIBUTES). What Windows knows and this emulation does not is
// STATUS_NOT_SUPPORTED, which Windows never answers here.
func checkCreate(access, objAttr, share, disposition, options uint32) error {
	const (
		emulated = win32.FILE_DIRECTORY_FILE | fileWriteThrough | fileSequentialOnly | fileSynchronousIOAlert |
			win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_NON_DIRECTORY_FILE | win32.FILE_DELETE_ON_CLOSE |
			win32.FILE_OPEN_FOR_BACKUP_INTENT | win32.FILE_OPEN_REPARSE_POINT
		synchronous = fileSynchronousIOAlert | win32.FILE_SYNCHRONOUS_IO_NONALERT
		both        = win32.FILE_DIRECTORY_FILE | win32.FILE_NON_DIRECTORY_FILE
	)
	switch {
	case objAttr&^objValidAttributes != 0,
		share&^(win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE) != 0,
		options&^fileValidOptions != 0,
		disposition > fileMaximumDisposition,
		options&synchronous != 0 && access&win32.SYNCHRONIZE == 0,
		options&win32.FILE_DELETE_ON_CLOSE != 0 && access&win32.DELETE == 0,
		options&synchronous == synchronous,
		options&win32.FILE_DIRECTORY_FILE != 0 && options&fileSequentialOnly != 0,
		options&win32.FILE_DIRECTORY_FILE != 0 && !emulatedDisposition(disposition),
		options&both == both:
		return win32.STATUS_INVALID_PARAMETER
	case access == 0 || access&reservedAccess != 0:
		return win32.STATUS_ACCESS_DENIED
	case options&^emulated != 0, !emulatedDisposition(disposition):
		return win32.STATUS_NOT_SUPPORTED
	}
	return nil
}

func emulatedDisposition(d uint32) bool {
	return d == win32.FILE_OPEN || d == win32.FILE_CREATE || d == win32.FILE_OPEN_IF
}

func (n *Node) ntCreateFile(t *tx, root win32.Handle, name string, access, objAttr, share, disposition, options uint32) (*file, error) {
	if err := checkCreate(access, objAttr, share, disposition, options); err != nil {
		return nil, err
	}
	var from *file
	if root != 0 {
		o, ok := n.lookup(root)
		if !ok {
			return nil, win32.STATUS_INVALID_HANDLE
		}
		if from, ok = o.(*file); !ok {
			return nil, win32.STATUS_INVALID_PARAMETER // a disk or a volume's device has no names below it (general knowledge)
		}
		if err := from.check(0); err != nil {
			return nil, err
		}
	}
	p, err := n.resolve(from, name, lookupMode{
		dontReparse: objAttr&win32.OBJ_DONT_REPARSE != 0,
		openLast:    options&win32.FILE_OPEN_REPARSE_POINT != 0,
	})
	if err != nil {
		return nil, err
	}
	// The rest is phases 1 (trailing backslash), 2 and 7 of [MS-FSA] 2.1.5.1, and
	// 2.1.5.1.1.
	wantDir, wantFile := options&win32.FILE_DIRECTORY_FILE != 0, options&win32.FILE_NON_DIRECTORY_FILE != 0
	if p.slash && wantFile {
		return nil, win32.STATUS_OBJECT_NAME_INVALID
	}
	access = grant(access, p.entry)
	switch {
	case p.entry == nil && disposition == win32.FILE_OPEN:
		return nil, win32.STATUS_OBJECT_NAME_NOT_FOUND
	case p.vol.writable() != nil && (p.entry == nil || disposition == win32.FILE_CREATE || access&writesVolume != 0):
		return nil, win32.STATUS_MEDIA_WRITE_PROTECTED
	case p.entry == nil:
		attributes := uint32(win32.FILE_ATTRIBUTE_ARCHIVE)
		if wantDir || p.slash {
			attributes = win32.FILE_ATTRIBUTE_DIRECTORY
		}
		if p.entry, err = p.tree.Create(t.files(p.vol), p.dir, p.name, attributes); err != nil {
			return nil, err
		}
	case disposition == win32.FILE_CREATE:
		return nil, win32.STATUS_OBJECT_NAME_COLLISION
	case (wantDir || p.slash) && !p.entry.IsDir():
		return nil, win32.STATUS_NOT_A_DIRECTORY
	case wantFile && p.entry.IsDir():
		return nil, win32.STATUS_FILE_IS_A_DIRECTORY
	}
	open, err := p.tree.Open(p.entry, access, share, options&win32.FILE_DELETE_ON_CLOSE != 0)
	if err != nil {
		return nil, err // a new entry can always be opened, so nothing was made
	}
	return &file{n: n, vol: p.vol, tree: p.tree, open: open}, nil
}

// grant is the access that a handle to e gets: generic rights become what they
// mean for files (winnt.h). There are no access control lists here: the node's
// services run as LocalSystem, and what is asked for is granted.
func grant(access uint32, e *filetree.Entry) uint32 {
	for _, g := range []struct{ generic, means uint32 }{
		{win32.GENERIC_READ, fileGenericRead},
		{win32.GENERIC_WRITE, fileGenericWrite},
		{genericExecute, fileGenericExecute},
		{genericAll, fileAllAccess},
	} {
		if access&g.generic != 0 {
			access = access&^g.generic | g.means
		}
	}
	if access&maximumAllowed != 0 {
		access = access&^maximumAllowed | fileAllAccess
		if e != nil && !e.IsDir() && e.Attributes()&win32.FILE_ATTRIBUTE_READONLY != 0 {
			access &^= fileWriteData | fileAppendData
		}
	}
	return access
}

// mounted tells whether f's file system is still there: it is gone once its disk
// is, or the volume was formatted.
func (f *file) mounted() bool { return !f.vol.gone && f.vol.tree == f.tree }

// check is what every operation on an open file begins with: a handle that
// outlives its file system answers STATUS_VOLUME_DISMOUNTED (ntstatus.h: "an
// operation was attempted to a volume after it was dismounted"), one without
// the right asked for STATUS_ACCESS_DENIED. A right of several bits is had with
// any of them.
func (f *file) check(right uint32) error {
	switch {
	case !f.mounted():
		return win32.STATUS_VOLUME_DISMOUNTED
	case f.vol.offline:
		return win32.STATUS_DEVICE_NOT_READY // as volume.ready has it
	case f.vol.share != nil && !f.reached():
		return win32.STATUS_NETWORK_NAME_DELETED // [MS-SMB2]: the session that it was opened in is gone
	case right != 0 && f.open.Access()&right == 0:
		return win32.STATUS_ACCESS_DENIED
	}
	return nil
}

// reached tells whether the share that f is on can be used.
func (f *file) reached() bool {
	_, err := f.n.reach(*f.vol.share)
	return err == nil
}

// usedVolume implements volumeUser.
func (f *file) usedVolume() *volume { return f.vol }

func (f *file) close(t *tx) error {
	if !f.mounted() {
		return nil
	}
	f.tree.Close(t.files(f.vol), f.open)
	if e := f.open.Entry(); e.Gone() {
		key := closingKey(f.vol.fsid, e.ID())
		if _, marked := f.n.store.data[key]; marked {
			t.Delete(key)
		}
	}
	return nil
}

// control implements object. DeviceIoControl answers Win32 error numbers.
func (f *file) control(t *tx, code uint32, in, out []byte) (int, error) {
	n, err := f.fsctl(t, code, in, out)
	if status, ok := err.(win32.NTStatus); ok {
		err = status.Errno()
	}
	return n, err
}

// fsctl is FSCTL_GET_, _SET_ and _DELETE_REPARSE_POINT ([MS-FSA] 2.1.5.10.14,
// .37 and .3); other codes are STATUS_INVALID_DEVICE_REQUEST, as a file system
// answers to what it does not know.
func (f *file) fsctl(t *tx, code uint32, in, out []byte) (int, error) {
	if f.vol.fs.Kind != bootsector.NTFS && f.vol.fs.Kind != bootsector.ReFS {
		return 0, win32.STATUS_INVALID_DEVICE_REQUEST // no reparse points there ([MS-FSCC] 2.3.82)
	}
	switch code {
	case win32.FSCTL_GET_REPARSE_POINT:
		if err := f.check(0); err != nil {
			return 0, err
		}
		return f.getReparse(out)
	case win32.FSCTL_SET_REPARSE_POINT, win32.FSCTL_DELETE_REPARSE_POINT:
		if err := f.check(fileWriteData | win32.FILE_WRITE_ATTRIBUTES); err != nil {
			return 0, err
		}
		if len(out) != 0 {
			return 0, win32.STATUS_INVALID_PARAMETER // [MS-FSCC] 2.3.82
		}
		if f.vol.writable() != nil {
			return 0, win32.STATUS_MEDIA_WRITE_PROTECTED
		}
	}
	switch code {
	case win32.FSCTL_SET_REPARSE_POINT:
		return 0, f.setReparse(t, in)
	case win32.FSCTL_DELETE_REPARSE_POINT:
		return 0, f.tree.DeleteReparse(t.files(f.vol), f.open.Entry(), in)
	}
	return 0, win32.STATUS_INVALID_DEVICE_REQUEST
}

// getReparse copies what fits. A buffer that takes the header and not the rest
// is full when STATUS_BUFFER_OVERFLOW is answered.
func (f *file) getReparse(out []byte) (int, error) {
	b := f.open.Entry().Reparse()
	if b == nil {
		return 0, win32.STATUS_NOT_A_REPARSE_POINT
	}
	header := 8
	if f.open.Entry().ReparseTag()&0x80000000 == 0 {
		header = 24 // REPARSE_GUID_DATA_BUFFER
	}
	if len(out) < header {
		return 0, win32.STATUS_BUFFER_TOO_SMALL
	}
	n := copy(out, b)
	if n < len(b) {
		return n, win32.STATUS_BUFFER_OVERFLOW
	}
	return n, nil
}

// setReparse believes nothing of b: the decoder that the hosts use and
// filetree's own check must both take it.
func (f *file) setReparse(t *tx, b []byte) error {
	if _, err := win32.DecodeReparse(b); err != nil {
		return win32.STATUS_IO_REPARSE_DATA_INVALID
	}
	return f.tree.SetReparse(t.files(f.vol), f.open.Entry(), b)
}

// readAt and writeAt: the contents of files are not emulated, and a directory has
// none, so both are refused. Windows answers ERROR_INVALID_FUNCTION for a directory.
func (f *file) readAt(*tx, []byte, int64) (int, error) { return 0, f.noContents() }

func (f *file) writeAt(*tx, []byte, int64) (int, error) { return 0, f.noContents() }

func (f *file) noContents() error {
	if f.open.Entry().IsDir() {
		return win32.ERROR_INVALID_FUNCTION
	}
	return win32.ERROR_NOT_SUPPORTED
}

// flush wants write access, as FlushFileBuffers does (its page: GENERIC_WRITE).
func (f *file) flush(*tx) error {
	if err := f.check(fileWriteData | fileAppendData); err != nil {
		return err.(win32.NTStatus).Errno()
	}
	return nil
}

// Flags of CreateFileW that become options of NtCreateFile (fileapi.h, winbase.h).
const (
	fileFlagOpenReparsePoint = 0x00200000
	fileFlagOverlapped       = 0x40000000
	fileFlagDeleteOnClose    = 0x04000000
	openAlways               = 4 // OPEN_ALWAYS
)

// createFileOnVolume is CreateFileW for the NT name of something on a volume: it
// becomes a call of NtCreateFile, with the rights to read attributes and to wait
// (CreateFileW's page; ReactOS). A directory opens only with
// FILE_FLAG_BACKUP_SEMANTICS; without it, ERROR_ACCESS_DENIED.
//
// ERROR_INVALID_PARAMETER answers what neither Windows nor this emulation knows:
// dispositions that discard contents, and attributes for new files.
func (n *Node) createFileOnVolume(t *tx, name, path string, access, share, disposition, flags uint32) (win32.Handle, error) {
	const known = win32.FILE_FLAG_BACKUP_SEMANTICS | fileFlagOpenReparsePoint | fileFlagOverlapped | fileFlagDeleteOnClose | win32.FILE_ATTRIBUTE_NORMAL
	dispositions := map[uint32]uint32{win32.CREATE_NEW: win32.FILE_CREATE, win32.OPEN_EXISTING: win32.FILE_OPEN, openAlways: win32.FILE_OPEN_IF}
	nt, ok := dispositions[disposition]
	if !ok || flags&^known != 0 {
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	access |= win32.SYNCHRONIZE | win32.FILE_READ_ATTRIBUTES
	options := uint32(win32.FILE_NON_DIRECTORY_FILE)
	for _, o := range []struct{ flag, on, off uint32 }{
		{fileFlagOpenReparsePoint, win32.FILE_OPEN_REPARSE_POINT, 0},
		{fileFlagDeleteOnClose, win32.FILE_DELETE_ON_CLOSE, 0},
		{fileFlagOverlapped, 0, win32.FILE_SYNCHRONOUS_IO_NONALERT},
	} {
		if flags&o.flag != 0 {
			options |= o.on
		} else {
			options |= o.off
		}
	}
	if flags&win32.FILE_FLAG_BACKUP_SEMANTICS != 0 {
		options = options&^win32.FILE_NON_DIRECTORY_FILE | win32.FILE_OPEN_FOR_BACKUP_INTENT
	}
	if flags&fileFlagDeleteOnClose != 0 {
		access |= win32.DELETE
	}
	f, err := n.ntCreateFile(t, 0, name, access, win32.OBJ_CASE_INSENSITIVE, share, nt, options)
	switch {
	case err == win32.STATUS_OBJECT_NAME_COLLISION:
		return 0, win32.ERROR_FILE_EXISTS // and not 183, which RtlNtStatusToDosError says
	case err != nil:
		return 0, dosError(err)
	}
	return n.insert(f, path), nil
}
