package files

import (
	"encoding/binary"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// Rights of files that package win32 does not need (ntifs.h, winnt.h).
const (
	fileAppendData   = 0x0004
	fileGenericRead  = 0x00120089
	fileGenericWrite = 0x00120116
	// writesVolume are the rights that a read-only volume does not grant.
	writesVolume = kernel.FileWriteData | fileAppendData | win32.FILE_WRITE_ATTRIBUTES | win32.DELETE | win32.WRITE_DAC
)

// file is an open file or directory.
type file struct {
	n    *Namespace
	vol  *volume.Volume
	tree *filetree.Tree
	open *filetree.Open
	scan dirScan

	dismounts int // that of vol when the file was opened
}

// NtCreateFile implements [win32.Files].
//
// Source: specification, [MS-FSA] 2.1.5.1; the page of NtCreateFile.
func (n *Namespace) NtCreateFile(root win32.Handle, name string, access, objAttr, share, disposition, options uint32) (h win32.Handle, err error) {
	err = n.Do(func(t *kernel.Tx) error {
		var f *file
		if f, err = n.ntCreateFile(t, root, name, access, objAttr, share, disposition, options); err != nil {
			return err
		}
		h = n.Insert(f, name)
		return nil
	})
	return h, err
}

// checkCreate refuses what no host passes, with STATUS_NOT_SUPPORTED, which Windows never
// returns here, and combinations of the rest that Windows refuses ([MS-FSA] 2.1.5.1, phase 1,
// in its order).
//
// Source: specification, [MS-FSA] 2.1.5.1, phase 1.
// Source of STATUS_NOT_SUPPORTED: node, what it does not emulate.
func checkCreate(access, objAttr, share, disposition, options uint32) error {
	const (
		attributes = win32.OBJ_CASE_INSENSITIVE | win32.OBJ_DONT_REPARSE
		shares     = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
		emulated   = win32.FILE_DIRECTORY_FILE | win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_NON_DIRECTORY_FILE |
			win32.FILE_OPEN_FOR_BACKUP_INTENT | win32.FILE_OPEN_REPARSE_POINT
		both = win32.FILE_DIRECTORY_FILE | win32.FILE_NON_DIRECTORY_FILE
	)
	switch {
	case objAttr&^attributes != 0, share&^shares != 0, options&^emulated != 0,
		disposition != win32.FILE_OPEN && disposition != win32.FILE_CREATE && disposition != win32.FILE_OPEN_IF:
		return win32.STATUS_NOT_SUPPORTED
	case options&win32.FILE_SYNCHRONOUS_IO_NONALERT != 0 && access&win32.SYNCHRONIZE == 0, options&both == both:
		return win32.STATUS_INVALID_PARAMETER
	case access == 0:
		return win32.STATUS_ACCESS_DENIED
	}
	return nil
}

func (n *Namespace) ntCreateFile(t *kernel.Tx, root win32.Handle, name string, access, objAttr, share, disposition, options uint32) (*file, error) {
	if err := checkCreate(access, objAttr, share, disposition, options); err != nil {
		return nil, err
	}
	var from *file
	if root != 0 {
		o, ok := n.Lookup(root)
		if !ok {
			return nil, win32.STATUS_INVALID_HANDLE // Source: document, STATUS_INVALID_HANDLE (ZwClose)
		}
		if from, ok = o.(*file); !ok {
			// Source: code, fastfat create.c, "Invalid related file object", of a volume; of a disk
			// it is inference.
			return nil, win32.STATUS_OBJECT_PATH_NOT_FOUND
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
		return nil, win32.STATUS_OBJECT_NAME_INVALID // Source: specification, [MS-FSA] 2.1.5.1, phase 1
	}
	access = grant(access)
	switch {
	case p.entry == nil && disposition == win32.FILE_OPEN:
		return nil, win32.STATUS_OBJECT_NAME_NOT_FOUND // Source: specification, [MS-FSA] 2.1.5.1, phase 7
	case p.vol.Writable() != nil && (p.entry == nil || disposition == win32.FILE_CREATE || access&writesVolume != 0):
		return nil, win32.STATUS_MEDIA_WRITE_PROTECTED // Source: specification, [MS-FSA] 2.1.5.1
	case p.entry == nil:
		attributes := uint32(win32.FILE_ATTRIBUTE_ARCHIVE)
		if wantDir || p.slash {
			attributes = win32.FILE_ATTRIBUTE_DIRECTORY
		}
		if p.entry, err = p.tree.Create(p.vol.Changes(t), p.dir, p.name, attributes); err != nil {
			return nil, err
		}
	case p.entry.DeletePending():
		return nil, win32.STATUS_DELETE_PENDING // Source: code, fastfat create.c, "pending delete"
	case disposition == win32.FILE_CREATE && wantDir && p.entry == p.tree.Root():
		return nil, win32.STATUS_ACCESS_DENIED // Source: specification, [MS-FSA] 2.1.5.1.2
	case disposition == win32.FILE_CREATE:
		return nil, win32.STATUS_OBJECT_NAME_COLLISION // Source: specification, [MS-FSA] 2.1.5.1.2
	case (wantDir || p.slash) && !p.entry.IsDir():
		return nil, win32.STATUS_NOT_A_DIRECTORY // Source: specification, [MS-FSA] 2.1.5.1, phase 7
	case wantFile && p.entry.IsDir():
		return nil, win32.STATUS_FILE_IS_A_DIRECTORY // Source: specification, [MS-FSA] 2.1.5.1.2
	}
	open, err := p.tree.Open(p.entry, access, share)
	if err != nil {
		return nil, err // a new entry can always be opened, so nothing was created
	}
	return &file{n: n, vol: p.vol, tree: p.tree, open: open, dismounts: p.vol.Dismounts}, nil
}

// grant returns the access rights of a new handle. Generic rights become the
// corresponding rights of files (winnt.h). The node's services run as LocalSystem, to
// which access control lists grant everything unless [Namespace.SetRights] says otherwise. On
// Windows, rights to the directory can grant more: DELETE, and reading attributes.
func grant(access uint32) uint32 {
	if access&win32.GENERIC_READ != 0 {
		access = access&^win32.GENERIC_READ | fileGenericRead
	}
	if access&win32.GENERIC_WRITE != 0 {
		access = access&^win32.GENERIC_WRITE | fileGenericWrite
	}
	return access
}

// mounted reports whether f's file system still exists. It does not if its disk
// was removed or the volume was formatted.
func (f *file) mounted() bool {
	return !f.vol.Gone && f.dismounts == f.vol.Dismounts && f.vol.Tree == f.tree
}

// check begins every operation on an open file. It returns
// STATUS_VOLUME_DISMOUNTED for a handle that outlives its file system
// (ntstatus.h: "an operation was attempted to a volume after it was dismounted")
// and STATUS_ACCESS_DENIED for a handle without the right. If right has several
// bits, one of them is enough.
func (f *file) check(right uint32) error {
	switch {
	case !f.mounted():
		return win32.STATUS_VOLUME_DISMOUNTED // Source: inference, by the text of the code in ntstatus.h
	case f.vol.OfflineNow:
		return win32.STATUS_DEVICE_NOT_READY // Source: inference, as for the volume itself
	case f.vol.Remote != "" && !f.reached():
		// Source: specification, [MS-SMB2]: the session of the open has ended; the number is
		// inference.
		return win32.STATUS_NETWORK_NAME_DELETED
	case right != 0 && f.open.Access()&right == 0:
		// Source: specification, [MS-FSA] 2.1.5, the right that each operation needs.
		return win32.STATUS_ACCESS_DENIED
	}
	return nil
}

// reached reports whether the share of f can be used.
func (f *file) reached() bool {
	_, err := f.n.shares.Reach(f.vol.Share)
	return err == nil
}

// Uses implements user.
func (f *file) Uses(d kernel.Device) bool { return f.dismounts == f.vol.Dismounts && f.vol.Covers(d) }

func (f *file) Close(t *kernel.Tx) error {
	if !f.mounted() {
		return nil
	}
	f.tree.Close(f.vol.Changes(t), f.open)
	if e := f.open.Entry(); e.Gone() {
		key := volume.ClosingKey(f.vol.FSID, e.ID())
		if _, marked := f.n.Store.Get(key); marked {
			t.Delete(key)
		}
	}
	return nil
}

// ReadAt and writeAt fail, because the contents of files are not emulated and a
// directory has none. For a directory Windows returns ERROR_INVALID_FUNCTION.
func (f *file) ReadAt(*kernel.Tx, []byte, int64) (int, error) { return 0, f.noContents() }

func (f *file) WriteAt(*kernel.Tx, []byte, int64) (int, error) { return 0, f.noContents() }

func (f *file) noContents() error {
	if f.open.Entry().IsDir() {
		return win32.ERROR_INVALID_FUNCTION // Source: inference, a directory cannot be read
	}
	return win32.ERROR_NOT_SUPPORTED // Source: node, files have no contents
}

// Flush requires write access, like FlushFileBuffers (its page: GENERIC_WRITE). It writes
// the log of the file system, and so what was changed before.
func (f *file) Flush(*kernel.Tx) error {
	if err := f.check(kernel.FileWriteData | fileAppendData); err != nil {
		return err.(win32.NTStatus).Errno()
	}
	f.vol.Flushed()
	return nil
}

// file returns the open file h. It returns STATUS_INVALID_HANDLE if there is no
// such handle. For a handle of another kind it returns
// STATUS_INVALID_DEVICE_REQUEST, like a device that gets a request for a file
// system (general knowledge).
func (n *Namespace) file(h win32.Handle) (*file, error) {
	o, ok := n.Lookup(h)
	if !ok {
		return nil, win32.STATUS_INVALID_HANDLE // Source: document, STATUS_INVALID_HANDLE (ZwClose)
	}
	f, ok := o.(*file)
	if !ok {
		return nil, win32.STATUS_INVALID_DEVICE_REQUEST // Source: inference, by the text of the code in ntstatus.h
	}
	return f, nil
}

var le = binary.LittleEndian
