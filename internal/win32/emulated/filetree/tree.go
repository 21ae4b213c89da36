package filetree

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// ID is the number of an entry within its tree. While a tree is in memory no
// number is used twice.
type ID uint64

// RootID is the root directory's number, as on every NTFS volume.
const RootID ID = 5

// firstID is the first number of an ordinary entry; NTFS keeps those below for
// its own files.
const firstID ID = 24

// Record is what is stored of an entry. The root's Parent is 0 and its Name
// empty.
type Record struct {
	Parent     ID     `json:"parent,omitempty"`
	Name       string `json:"name,omitempty"`
	Attributes uint32 `json:"attributes,omitempty"` // without REPARSE_POINT and NORMAL, which follow from the rest
	Size       int64  `json:"size,omitempty"`       // bytes; 0 for a directory
	Reparse    []byte `json:"reparse,omitempty"`    // REPARSE_DATA_BUFFER, header included
}

// Changes takes the changed records of a mutation. Keys are decimal IDs, values
// are [Record]s.
type Changes interface {
	Put(key string, v any)
	Delete(key string)
}

func key(id ID) string { return strconv.FormatUint(uint64(id), 10) }

// Tree is the namespace of one volume.
type Tree struct {
	root    *Entry
	entries map[ID]*Entry // those in the namespace
	next    ID
	opens   map[*Open]struct{}
}

// Entry is a file or directory. An entry whose last name is gone stays usable
// through the handles that are open on it.
type Entry struct {
	id     ID
	rec    Record
	parent *Entry // nil for the root

	children map[string]*Entry // by folded name; nil for a file
	order    []string          // the keys of children, sorted

	opens   []*Open
	pending bool // deleted once the last handle is closed
	gone    bool // no longer in the namespace
}

// New makes an empty tree: a root directory.
func New(c Changes) *Tree {
	t := &Tree{entries: map[ID]*Entry{}, next: firstID, opens: map[*Open]struct{}{}}
	t.root = t.add(RootID, Record{Attributes: win32.FILE_ATTRIBUTE_DIRECTORY | win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM}, nil)
	c.Put(key(RootID), t.root.rec)
	return t
}

// ErrCorrupt says that stored records are not a tree.
var ErrCorrupt = errors.New("not a file tree")

// Load makes a tree of the records that a [Changes] was given, as JSON. It
// refuses, with [ErrCorrupt], what no sequence of mutations can have left.
func Load(records map[string][]byte) (*Tree, error) {
	recs := make(map[ID]Record, len(records))
	under := map[ID][]ID{}
	t := &Tree{entries: make(map[ID]*Entry, len(records)), next: firstID, opens: map[*Open]struct{}{}}
	for k, raw := range records {
		n, err := strconv.ParseUint(k, 10, 63)
		if err != nil || key(ID(n)) != k {
			return nil, fmt.Errorf("%w: key %q", ErrCorrupt, k)
		}
		var rec Record
		if err := json.Unmarshal(raw, &rec); err != nil {
			return nil, fmt.Errorf("%w: entry %s: %w", ErrCorrupt, k, err)
		}
		recs[ID(n)] = rec
		under[rec.Parent] = append(under[rec.Parent], ID(n))
		t.next = max(t.next, ID(n)+1)
	}
	if top := under[0]; len(top) != 1 || top[0] != RootID {
		return nil, fmt.Errorf("%w: entries %v have no parent, want the root %d alone", ErrCorrupt, top, RootID)
	}
	// From the root downwards: what is not reached hangs on a file, on nothing
	// or on itself.
	t.root = t.add(RootID, recs[RootID], nil)
	for at := []*Entry{t.root}; len(at) > 0; {
		dir := at[0]
		at = at[1:]
		for _, id := range under[dir.id] {
			if dir.children == nil {
				return nil, fmt.Errorf("%w: entry %d is in %d, which is a file", ErrCorrupt, id, dir.id)
			}
			if old := dir.children[fold(recs[id].Name)]; old != nil {
				return nil, fmt.Errorf("%w: entries %d and %d are both %q", ErrCorrupt, old.id, id, recs[id].Name)
			}
			at = append(at, t.add(id, recs[id], dir))
		}
	}
	if len(t.entries) != len(recs) {
		return nil, fmt.Errorf("%w: %d of %d entries hang on the root", ErrCorrupt, len(t.entries), len(recs))
	}
	return t, t.Verify()
}

// Verify checks what must hold of every tree; what it reports wraps [ErrCorrupt].
func (t *Tree) Verify() error {
	bad := func(e *Entry, format string, args ...any) error {
		return fmt.Errorf("%w: entry %d (%q): %s", ErrCorrupt, e.id, e.rec.Name, fmt.Sprintf(format, args...))
	}
	for id, e := range t.entries {
		switch {
		case e.id != id || e.gone:
			return bad(e, "listed as %d, gone %t", id, e.gone)
		case e.IsDir() != (e.children != nil) || len(e.order) != len(e.children) || !slices.IsSorted(e.order):
			return bad(e, "directory %t, %d children, %d of them in order", e.IsDir(), len(e.children), len(e.order))
		case e.IsDir() && e.rec.Size != 0 || e.rec.Size < 0:
			return bad(e, "size %d", e.rec.Size)
		case e.rec.Attributes&derived != 0:
			return bad(e, "attributes %#x", e.rec.Attributes)
		case e.rec.Reparse != nil && (CheckReparse(e.rec.Reparse, e.IsDir()) != nil || len(e.children) != 0):
			return bad(e, "reparse point of %d bytes over %d children", len(e.rec.Reparse), len(e.children))
		}
		if e == t.root {
			if e.parent != nil || e.rec.Parent != 0 || e.rec.Name != "" || !e.IsDir() || e.pending {
				return bad(e, "is no root")
			}
			continue
		}
		if err := CheckName(e.rec.Name); err != nil {
			return bad(e, "name: %v", err)
		}
		if e.parent == nil || e.parent.id != e.rec.Parent || t.entries[e.rec.Parent] != e.parent || e.parent.children[fold(e.rec.Name)] != e {
			return bad(e, "is not in its parent %d", e.rec.Parent)
		}
		steps := 0
		for up := e; up != t.root; up = up.parent {
			if steps++; steps > len(t.entries) {
				return bad(e, "lies in itself")
			}
		}
	}
	return nil
}

// derived are the attributes that are not stored but follow from the rest.
const derived = win32.FILE_ATTRIBUTE_REPARSE_POINT | win32.FILE_ATTRIBUTE_NORMAL

// Root is the root directory.
func (t *Tree) Root() *Entry { return t.root }

// Len is the number of entries, the root among them.
func (t *Tree) Len() int { return len(t.entries) }

// Opens is the number of open handles.
func (t *Tree) Opens() int { return len(t.opens) }

// ID is the entry's number, for FileInternalInformation.
func (e *Entry) ID() ID { return e.id }

// Name is the name as it was given; the root's is empty.
func (e *Entry) Name() string { return e.rec.Name }

// Parent is the directory that the entry is or was in; nil for the root.
func (e *Entry) Parent() *Entry { return e.parent }

// IsDir tells a directory, be it a link or not, from a file.
func (e *Entry) IsDir() bool { return e.rec.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 }

// Size is the size in bytes.
func (e *Entry) Size() int64 { return e.rec.Size }

// Attributes are the FILE_ATTRIBUTE_ bits as Windows reports them: NORMAL if
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

// Reparse is the entry's REPARSE_DATA_BUFFER, nil if it is no reparse point.
// The caller does not change it.
func (e *Entry) Reparse() []byte { return e.rec.Reparse }

// ReparseTag is 0 if e is no reparse point.
func (e *Entry) ReparseTag() uint32 {
	if e.rec.Reparse == nil {
		return 0
	}
	return le.Uint32(e.rec.Reparse)
}

// DeletePending tells whether e vanishes with its last handle, or has vanished.
func (e *Entry) DeletePending() bool { return e.pending || e.gone }

// Gone tells whether e has left the namespace.
func (e *Entry) Gone() bool { return e.gone }

// Empty tells whether e has no entries.
func (e *Entry) Empty() bool { return len(e.children) == 0 }

// Path is the way from the root: `\` for the root itself, else `\a\b`.
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

// within tells whether e is dir or lies in it.
func (e *Entry) within(dir *Entry) bool {
	for at := e; at != nil; at = at.parent {
		if at == dir {
			return true
		}
	}
	return false
}

// Lookup finds the entry called name in dir; nil if there is none.
func (e *Entry) Lookup(name string) *Entry { return e.children[fold(name)] }

// A Cursor is a place in a directory, between entries. It stays good whatever
// happens to the directory: [Entry.Next] goes on behind the name it stands at.
type Cursor struct{ after string }

// Next is the entry behind c in the order of upper-cased names and the place
// behind it. ok is false at the end.
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

// add puts an entry into the tree; the caller has checked everything.
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
}

func (e *Entry) unlink(child *Entry) {
	k := fold(child.rec.Name)
	i, _ := slices.BinarySearch(e.order, k)
	e.order = slices.Delete(e.order, i, i+1)
	delete(e.children, k)
}

// remove takes e out of the namespace.
func (t *Tree) remove(c Changes, e *Entry) {
	e.parent.unlink(e)
	delete(t.entries, e.id)
	e.gone, e.pending = true, false
	c.Delete(key(e.id))
}

// Create makes an entry called name in dir. attributes are FILE_ATTRIBUTE_ bits;
// DIRECTORY among them makes a directory. It answers
//
//   - STATUS_OBJECT_NAME_INVALID for a bad name ([CheckName]),
//   - STATUS_DELETE_PENDING in a directory that is being deleted ([MS-FSA] 2.1.5.1.1),
//   - STATUS_DIRECTORY_IS_A_REPARSE_POINT in a link or mount point, which has no
//     entries of its own (ntstatus.h; general knowledge),
//   - STATUS_OBJECT_NAME_COLLISION if there is such an entry.
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

// SetAttributes replaces the attributes that can be set; whether e is a
// directory or a reparse point is not among them ([MS-FSA] 2.1.5.15.2: a file
// given DIRECTORY is STATUS_INVALID_PARAMETER).
func (t *Tree) SetAttributes(c Changes, e *Entry, attributes uint32) error {
	if attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0 && !e.IsDir() {
		return win32.STATUS_INVALID_PARAMETER
	}
	const settable = win32.FILE_ATTRIBUTE_READONLY | win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM | win32.FILE_ATTRIBUTE_ARCHIVE
	e.rec.Attributes = e.rec.Attributes&^settable | attributes&settable
	t.put(c, e)
	return nil
}

// SetSize gives a file another size, bytes.
func (t *Tree) SetSize(c Changes, e *Entry, size int64) error {
	switch {
	case e.IsDir(), size < 0:
		return win32.STATUS_INVALID_PARAMETER // [MS-FSA] 2.1.5.15.5
	case e.rec.Reparse != nil && size != 0:
		return win32.STATUS_NOT_SUPPORTED // a link's file stays empty here
	}
	e.rec.Size = size
	t.put(c, e)
	return nil
}

// put stores e, unless it has left the namespace and lives on in handles only.
func (t *Tree) put(c Changes, e *Entry) {
	if !e.gone {
		c.Put(key(e.id), e.rec)
	}
}

// Equal tells whether two trees hold the same records.
func (t *Tree) Equal(o *Tree) bool {
	return maps.EqualFunc(t.entries, o.entries, func(a, b *Entry) bool {
		return a.rec.Parent == b.rec.Parent && a.rec.Name == b.rec.Name && a.rec.Attributes == b.rec.Attributes &&
			a.rec.Size == b.rec.Size && string(a.rec.Reparse) == string(b.rec.Reparse)
	})
}
