package filetree

import (
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Rights that package win32 does not need elsewhere (ntifs.h).
const (
	fileExecute    = 0x0020 // FILE_TRAVERSE of a directory
	fileAppendData = 0x0004 // FILE_ADD_SUBDIRECTORY of a directory
)

// The rights that share modes control: reading, writing, deleting. An open with
// none of them (attributes only) neither needs nor denies sharing ([MS-FSA]
// 2.1.5.1.2.2; IoCheckShareAccess).
const (
	reads   = win32.FILE_LIST_DIRECTORY | fileExecute
	writes  = win32.FILE_ADD_FILE | fileAppendData
	deletes = win32.DELETE
)

// Open is one open handle.
type Open struct {
	entry         *Entry
	access, share uint32
	posix         bool // its entry leaves the namespace when this handle is closed
}

// Entry returns the open entry.
func (o *Open) Entry() *Entry { return o.entry }

// Access returns the granted rights.
func (o *Open) Access() uint32 { return o.access }

// Open opens e with the specific rights access (no GENERIC_ bits). It returns
//
//   - STATUS_DELETE_PENDING if e is being deleted ([MS-FSA] 2.1.5.1.2),
//   - STATUS_ACCESS_DENIED for rights that its access control list does not grant, and
//     for write access to the data of a read-only file (same),
//   - STATUS_SHARING_VIOLATION if the share mode of this open or of another open of
//     e does not allow the other's rights.
//
// Source: specification, [MS-FSA] 2.1.5.1.2.
func (t *Tree) Open(e *Entry, access, share uint32) (*Open, error) {
	readOnly := e.rec.Attributes&win32.FILE_ATTRIBUTE_READONLY != 0
	switch {
	case e.DeletePending():
		return nil, win32.STATUS_DELETE_PENDING
	case access&^e.Rights() != 0:
		return nil, win32.STATUS_ACCESS_DENIED
	case readOnly && !e.IsDir() && access&writes != 0:
		return nil, win32.STATUS_ACCESS_DENIED
	}
	for _, o := range e.opens {
		// [MS-FSA] 2.1.5.1.2.1: of a directory, opens of its attributes count, too.
		if e.IsDir() && access&deletes != 0 && o.share&win32.FILE_SHARE_DELETE == 0 {
			return nil, win32.STATUS_SHARING_VIOLATION
		}
		if !allows(o.share, access, o.access) || !allows(share, o.access, access) {
			return nil, win32.STATUS_SHARING_VIOLATION
		}
	}
	o := &Open{entry: e, access: access, share: share}
	e.opens = append(e.opens, o)
	t.opens[o] = struct{}{}
	return o, nil
}

// allows reports whether the share mode of an open with the rights own allows the
// rights other of another open.
func allows(share, other, own uint32) bool {
	if own&(reads|writes|deletes) == 0 {
		return true
	}
	return (other&reads == 0 || share&win32.FILE_SHARE_READ != 0) &&
		(other&writes == 0 || share&win32.FILE_SHARE_WRITE != 0) &&
		(other&deletes == 0 || share&win32.FILE_SHARE_DELETE != 0)
}

// Close closes o. When the last handle or a handle with a pending POSIX delete is
// closed, the entry leaves the namespace ([MS-FSA] 2.1.5.5).
func (t *Tree) Close(c Changes, o *Open) {
	e := o.entry
	if _, ok := t.opens[o]; !ok {
		return
	}
	delete(t.opens, o)
	i := slices.Index(e.opens, o)
	e.opens = slices.Delete(e.opens, i, i+1)
	if e.pending && (o.posix || len(e.opens) == 0) {
		t.remove(c, e)
	}
}

// Remove removes an entry from the namespace as the closing of its last handle
// would. It does nothing if the entry has entries of its own or is open.
func (t *Tree) Remove(c Changes, id ID) {
	if e := t.entries[id]; e != nil && e != t.root && e.Empty() && len(e.opens) == 0 {
		t.remove(c, e)
	}
}

// Dismount drops all opens, as when the disk is removed: an entry that was marked
// for deletion but not yet deleted stays. Closing a dropped open does nothing.
func (t *Tree) Dismount() {
	for o := range t.opens {
		o.entry.opens, o.entry.pending = nil, false
	}
	clear(t.opens)
}

// SetDisposition marks o's entry for deletion or removes the mark
// (FileDispositionInformation and FileDispositionInformationEx; [MS-FSA]
// 2.1.5.15.3, FILE_DISPOSITION_INFORMATION_EX in ntifs.h). Until the deletion the
// entry is in the namespace, but cannot be opened. A POSIX delete happens when o
// is closed, others when the last handle is closed. SetDisposition returns
//
//   - STATUS_NOT_SUPPORTED for flags that no host passes,
//   - STATUS_ACCESS_DENIED without DELETE access,
//   - STATUS_CANNOT_DELETE for the root, and for a read-only entry unless a flag
//     says to ignore that,
//   - STATUS_DIRECTORY_NOT_EMPTY,
//   - STATUS_FILE_DELETED after the deletion.
//
// Source: specification, [MS-FSA] 2.1.5.15.3.
// Source of STATUS_NOT_SUPPORTED: node, what it does not emulate.
// Source of STATUS_FILE_DELETED: inference, by the text of the code in ntstatus.h.
func (t *Tree) SetDisposition(o *Open, flags uint32) error {
	const known = win32.FILE_DISPOSITION_DELETE | win32.FILE_DISPOSITION_POSIX_SEMANTICS |
		win32.FILE_DISPOSITION_FORCE_IMAGE_SECTION_CHECK | win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE
	e := o.entry
	switch {
	case flags&^known != 0:
		return win32.STATUS_NOT_SUPPORTED
	case o.access&win32.DELETE == 0:
		return win32.STATUS_ACCESS_DENIED
	case e.gone:
		return win32.STATUS_FILE_DELETED
	case flags&win32.FILE_DISPOSITION_DELETE == 0:
		e.pending = false
		for _, other := range e.opens {
			other.posix = false
		}
		return nil
	case e == t.root:
		return win32.STATUS_CANNOT_DELETE
	case e.rec.Attributes&win32.FILE_ATTRIBUTE_READONLY != 0 && flags&win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE == 0:
		return win32.STATUS_CANNOT_DELETE
	case !e.Empty():
		return win32.STATUS_DIRECTORY_NOT_EMPTY
	}
	e.pending = true
	o.posix = flags&win32.FILE_DISPOSITION_POSIX_SEMANTICS != 0
	return nil
}

// Rename moves o's entry, opened to delete it, to the directory dir and names it name, which is
// not used there. It returns STATUS_ACCESS_DENIED for the root, for an entry being deleted, and
// for a directory with an open entry below it, or one that would move into itself ([MS-FSA]
// 2.1.5.15.11).
//
// Source: specification, [MS-FSA] 2.1.5.15.11.
func (t *Tree) Rename(c Changes, o *Open, dir *Entry, name string) error {
	e := o.entry
	switch old := dir.Lookup(name); {
	case e == t.root, e.DeletePending(), dir.within(e), t.opensBelow(e):
		return win32.STATUS_ACCESS_DENIED
	case old != nil && old != e:
		return win32.STATUS_OBJECT_NAME_COLLISION
	}
	e.parent.unlink(e)
	e.rec.Parent, e.rec.Name, e.rec.Short, e.parent = dir.id, name, "", dir
	dir.link(e)
	c.Put(key(e.id), e.rec)
	return nil
}

// opensBelow reports whether an entry in dir, at any depth, is open ([MS-FSA]
// 2.1.4.2). Such a directory cannot be renamed, so the path of an open file does
// not change.
func (t *Tree) opensBelow(dir *Entry) bool {
	for o := range t.opens {
		if o.entry != dir && !o.entry.gone && o.entry.within(dir) {
			return true
		}
	}
	return false
}
