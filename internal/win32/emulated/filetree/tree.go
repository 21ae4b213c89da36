package filetree

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// ID is the number of an entry within its tree. No number is used twice while the
// tree is in memory.
type ID uint64

// RootID is the number of the root directory, as on every NTFS volume.
const RootID ID = 5

// firstID is the first number of an ordinary entry. NTFS reserves the lower ones
// for its own files.
const firstID ID = 24

// Record is the stored form of an entry. The root's Parent is 0 and its Name is
// empty.
type Record struct {
	Parent     ID     `json:"parent,omitempty"`
	Name       string `json:"name,omitempty"`
	Attributes uint32 `json:"attributes,omitempty"` // without REPARSE_POINT and NORMAL, which are derived
	Size       int64  `json:"size,omitempty"`       // bytes; 0 for a directory
	Reparse    []byte `json:"reparse,omitempty"`    // REPARSE_DATA_BUFFER, including its header
	Rights     uint32 `json:"rights,omitempty"`     // what its access control list grants; 0 means all
	Short      string `json:"short,omitempty"`      // a second name, of the form 8.3
	Security   []byte `json:"security,omitempty"`   // the security descriptor that it was given; nil means its first one
}

// Changes receives the changed records of a mutation. Keys are decimal IDs,
// values are [Record]s.
type Changes interface {
	Put(key string, v any)
	Delete(key string)
}

func key(id ID) string { return strconv.FormatUint(uint64(id), 10) }

// Tree is the namespace of one volume.
type Tree struct {
	root    *Entry
	entries map[ID]*Entry // entries in the namespace
	next    ID
	opens   map[*Open]struct{}
}

// Entry is a file or directory. An entry that has left the namespace remains
// usable through its open handles.
type Entry struct {
	id     ID
	rec    Record
	parent *Entry // nil for the root

	children map[string]*Entry // by folded name; nil for a file
	order    []string          // the keys of children, sorted
	short    map[string]*Entry // children with a short name, by folded short name

	opens   []*Open
	pending bool // to be deleted with the last handle
	gone    bool // no longer in the namespace
}

// New returns an empty tree: a root directory.
func New(c Changes) *Tree {
	t := &Tree{entries: map[ID]*Entry{}, next: firstID, opens: map[*Open]struct{}{}}
	t.root = t.add(RootID, Record{Attributes: win32.FILE_ATTRIBUTE_DIRECTORY | win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM}, nil)
	c.Put(key(RootID), t.root.rec)
	return t
}

// Load returns the tree of the records that a [Changes] received, as JSON.
func Load(records map[string][]byte) (*Tree, error) {
	recs := make(map[ID]Record, len(records))
	under := map[ID][]ID{}
	t := &Tree{entries: make(map[ID]*Entry, len(records)), next: firstID, opens: map[*Open]struct{}{}}
	for k, raw := range records {
		n, err := strconv.ParseUint(k, 10, 63)
		if err != nil {
			return nil, err
		}
		var rec Record
		if err := json.Unmarshal(raw, &rec); err != nil {
			return nil, fmt.Errorf("entry %s: %w", k, err)
		}
		recs[ID(n)] = rec
		under[rec.Parent] = append(under[rec.Parent], ID(n))
		t.next = max(t.next, ID(n)+1)
	}
	t.root = t.add(RootID, recs[RootID], nil)
	for at := []*Entry{t.root}; len(at) > 0; at = at[1:] {
		for _, id := range under[at[0].id] {
			if !at[0].IsDir() {
				break
			}
			at = append(at, t.add(id, recs[id], at[0]))
		}
	}
	if len(t.entries) != len(recs) || !t.root.IsDir() {
		return nil, fmt.Errorf("not a file tree: only %d of %d entries are below the root directory", len(t.entries), len(recs))
	}
	return t, nil
}

// derived are the attributes that are not stored but computed.
const derived = win32.FILE_ATTRIBUTE_REPARSE_POINT | win32.FILE_ATTRIBUTE_NORMAL

// Root returns the root directory.
func (t *Tree) Root() *Entry { return t.root }

// Len returns the number of entries, including the root.
func (t *Tree) Len() int { return len(t.entries) }

// ID returns the entry's number.
func (e *Entry) ID() ID { return e.id }

// Name returns the name as it was given. The root's name is empty.
func (e *Entry) Name() string { return e.rec.Name }

// Parent returns the directory that the entry is or was in, or nil for the root.
func (e *Entry) Parent() *Entry { return e.parent }

// IsDir reports whether the entry is a directory, which may be a link.
func (e *Entry) IsDir() bool { return e.rec.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 }

// Rights returns the access rights that e's access control list grants.
func (e *Entry) Rights() uint32 {
	if e.rec.Rights == 0 {
		return ^uint32(0)
	}
	return e.rec.Rights
}

// SetRights makes e's access control list grant these rights, and 0 all.
func (t *Tree) SetRights(c Changes, e *Entry, rights uint32) {
	e.rec.Rights = rights
	t.put(c, e)
}

// SetShortName gives e a short name (8.3), with which [Entry.Lookup] finds it too. Nothing
// else here makes short names.
//
// Source: specification, [MS-FSCC], FileShortNameInformation, also for the names that it refuses.
func (t *Tree) SetShortName(c Changes, e *Entry, name string) error {
	switch err := CheckName(name); {
	case err != nil:
		return err
	case e.parent == nil:
		return win32.STATUS_INVALID_PARAMETER
	case e.parent.Lookup(name) != nil:
		return win32.STATUS_OBJECT_NAME_COLLISION
	}
	e.parent.unlink(e)
	e.rec.Short = name
	e.parent.link(e)
	t.put(c, e)
	return nil
}

// Security returns the security descriptor that e was given, or nil.
func (e *Entry) Security() []byte { return e.rec.Security }

// SetSecurity gives e a security descriptor.
func (t *Tree) SetSecurity(c Changes, e *Entry, descriptor []byte) {
	e.rec.Security = slices.Clone(descriptor)
	t.put(c, e)
}

// Size returns the size in bytes.
func (e *Entry) Size() int64 { return e.rec.Size }

// Attributes returns the FILE_ATTRIBUTE_ bits as Windows reports them: NORMAL if
// there is no other.
func (e *Entry) Attributes() uint32 {
	a := e.rec.Attributes
	if e.rec.Reparse != nil {
		a |= win32.FILE_ATTRIBUTE_REPARSE_POINT
	}
	if a == 0 {
		a = win32.FILE_ATTRIBUTE_NORMAL
	}
	return a
}

// Reparse returns the entry's REPARSE_DATA_BUFFER, or nil if it is not a reparse
// point. The caller must not change it.
func (e *Entry) Reparse() []byte { return e.rec.Reparse }

// ReparseTag returns 0 if e is not a reparse point.
func (e *Entry) ReparseTag() uint32 {
	if e.rec.Reparse == nil {
		return 0
	}
	return le.Uint32(e.rec.Reparse)
}

// DeletePending reports whether e will be deleted with its last handle or has
// been deleted.
func (e *Entry) DeletePending() bool { return e.pending || e.gone }

// Gone reports whether e has left the namespace.
func (e *Entry) Gone() bool { return e.gone }

// Empty reports whether e has no entries.
func (e *Entry) Empty() bool { return len(e.children) == 0 }

// Path returns the path from the root: `\` for the root itself, else `\a\b`.
func (e *Entry) Path() string {
	if e.parent == nil {
		return `\`
	}
	var names []string
	for at := e; at.parent != nil; at = at.parent {
		names = append(names, at.rec.Name)
	}
	slices.Reverse(names)
	return `\` + strings.Join(names, `\`)
}

// within reports whether e is dir or below it.
func (e *Entry) within(dir *Entry) bool {
	for at := e; at != nil; at = at.parent {
		if at == dir {
			return true
		}
	}
	return false
}

// Lookup returns the entry called name in dir, or nil if there is none.
func (e *Entry) Lookup(name string) *Entry {
	k := fold(name)
	if child := e.children[k]; child != nil {
		return child
	}
	return e.short[k]
}

// A Cursor is a position between two entries of a directory. It stays valid when
// the directory changes: [Entry.Next] continues after the last name.
type Cursor struct{ after string }

// Next returns the entry after c in the order of upper-cased names, and the
// position after it. ok is false at the end.
func (e *Entry) Next(c Cursor) (_ *Entry, _ Cursor, ok bool) {
	i, found := slices.BinarySearch(e.order, c.after)
	if found {
		i++
	}
	if i >= len(e.order) {
		return nil, c, false
	}
	return e.children[e.order[i]], Cursor{e.order[i]}, true
}

// add puts an entry into the tree. The caller has checked everything.
func (t *Tree) add(id ID, rec Record, parent *Entry) *Entry {
	e := &Entry{id: id, rec: rec, parent: parent}
	if e.IsDir() {
		e.children = map[string]*Entry{}
	}
	t.entries[id] = e
	if parent != nil {
		parent.link(e)
	}
	return e
}

func (e *Entry) link(child *Entry) {
	k := fold(child.rec.Name)
	i, _ := slices.BinarySearch(e.order, k)
	e.order = slices.Insert(e.order, i, k)
	e.children[k] = child
	if child.rec.Short != "" {
		if e.short == nil {
			e.short = map[string]*Entry{}
		}
		e.short[fold(child.rec.Short)] = child
	}
}

func (e *Entry) unlink(child *Entry) {
	k := fold(child.rec.Name)
	i, _ := slices.BinarySearch(e.order, k)
	e.order = slices.Delete(e.order, i, i+1)
	delete(e.children, k)
	delete(e.short, fold(child.rec.Short))
}

// remove removes e from the namespace.
func (t *Tree) remove(c Changes, e *Entry) {
	e.parent.unlink(e)
	delete(t.entries, e.id)
	e.gone, e.pending = true, false
	c.Delete(key(e.id))
}

// Create creates an entry called name in dir. attributes are FILE_ATTRIBUTE_
// bits; with DIRECTORY it creates a directory. It returns
//
//   - STATUS_OBJECT_NAME_INVALID for a bad name ([CheckName]),
//   - STATUS_DELETE_PENDING in a directory that is being deleted ([MS-FSA]
//     2.1.5.1.1),
//   - STATUS_DIRECTORY_IS_A_REPARSE_POINT in a link or mount point, which has no
//     entries of its own (ntstatus.h; general knowledge),
//   - STATUS_OBJECT_NAME_COLLISION if the entry exists.
//
// Source: specification, [MS-FSA] 2.1.5.1.1.
// Source of STATUS_NOT_A_DIRECTORY, STATUS_DIRECTORY_IS_A_REPARSE_POINT: inference, by the text
// of the code in ntstatus.h.
func (t *Tree) Create(c Changes, dir *Entry, name string, attributes uint32) (*Entry, error) {
	name = clean(name)
	switch err := CheckName(name); {
	case err != nil:
		return nil, err
	case !dir.IsDir():
		return nil, win32.STATUS_NOT_A_DIRECTORY
	case dir.DeletePending():
		return nil, win32.STATUS_DELETE_PENDING
	case dir.rec.Reparse != nil:
		return nil, win32.STATUS_DIRECTORY_IS_A_REPARSE_POINT
	case dir.Lookup(name) != nil:
		return nil, win32.STATUS_OBJECT_NAME_COLLISION
	}
	e := t.add(t.next, Record{Parent: dir.id, Name: name, Attributes: attributes &^ derived}, dir)
	t.next++
	c.Put(key(e.id), e.rec)
	return e, nil
}

const fileAttributeTemporary = 0x100 // winnt.h

// SetAttributes replaces the attributes that can be set. DIRECTORY and
// REPARSE_POINT cannot ([MS-FSA] 2.1.5.15.2: DIRECTORY for a file and TEMPORARY for
// a directory are STATUS_INVALID_PARAMETER).
func (t *Tree) SetAttributes(c Changes, e *Entry, attributes uint32) error {
	if attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 && !e.IsDir() || attributes&fileAttributeTemporary != 0 && e.IsDir() {
		return win32.STATUS_INVALID_PARAMETER // Source: specification, [MS-FSA] 2.1.5.15.2
	}
	const settable = win32.FILE_ATTRIBUTE_READONLY | win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM | win32.FILE_ATTRIBUTE_ARCHIVE
	e.rec.Attributes = e.rec.Attributes&^settable | attributes&settable
	t.put(c, e)
	return nil
}

// SetSize sets the size of a file in bytes.
func (t *Tree) SetSize(c Changes, e *Entry, size int64) error {
	switch {
	case e.IsDir(), size < 0:
		return win32.STATUS_INVALID_PARAMETER // Source: specification, [MS-FSA] 2.1.5.15.4
	case e.rec.Reparse != nil && size != 0:
		return win32.STATUS_NOT_SUPPORTED // Source: node, the file of a link stays empty
	}
	e.rec.Size = size
	t.put(c, e)
	return nil
}

// put stores e, unless it has left the namespace and exists in open handles only.
func (t *Tree) put(c Changes, e *Entry) {
	if !e.gone {
		c.Put(key(e.id), e.rec)
	}
}
