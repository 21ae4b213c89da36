package filetree

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// journal records changes as JSON, like a store.
type journal map[string][]byte

func (j journal) Put(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	j[key] = b
}

func (j journal) Delete(key string) { delete(j, key) }

// check verifies tr, and that its recorded changes make an equal tree.
func check(t *testing.T, tr *Tree, j journal) {
	t.Helper()
	for id, e := range tr.entries {
		var listed []string
		for c := (Cursor{}); e.IsDir(); {
			child, next, ok := e.Next(c)
			if !ok {
				break
			}
			if child.parent != e || child.gone || tr.entries[child.id] != child || e.Lookup(child.Name()) != child {
				t.Fatalf("entry %d (%q) is not in %q, in which it is listed", child.id, child.Name(), e.Path())
			}
			listed, c = append(listed, child.Name()), next
		}
		if e.id != id || len(listed) != len(e.children) || e.Reparse() != nil && len(listed) > 0 || CheckName(e.Name()) != nil && e != tr.root {
			t.Fatalf("entry %d (%q) has the entries %q", id, e.Path(), listed)
		}
	}
	again, err := Load(j)
	if err != nil {
		t.Fatalf("load the recorded changes: %v", err)
	}
	same := func(a, b *Entry) bool { return reflect.DeepEqual(a.rec, b.rec) }
	if !maps.EqualFunc(again.entries, tr.entries, same) {
		t.Fatal("the tree loaded from the recorded changes differs")
	}
}

const dirAttr = win32.FILE_ATTRIBUTE_DIRECTORY

// grow creates the given entries. Those that end in a backslash are directories.
func grow(t *testing.T, paths ...string) (*Tree, journal) {
	t.Helper()
	j := journal{}
	tr := New(j)
	for _, p := range paths {
		attr := uint32(0)
		if strings.HasSuffix(p, `\`) {
			attr, p = dirAttr, p[:len(p)-1]
		}
		dir, name := tr.Root(), p
		if i := strings.LastIndex(p, `\`); i >= 0 {
			dir, name = find(t, tr, p[:i]), p[i+1:]
		}
		if _, err := tr.Create(j, dir, name, attr); err != nil {
			t.Fatalf("create %q: %v", p, err)
		}
	}
	return tr, j
}

func find(t *testing.T, tr *Tree, path string) *Entry {
	t.Helper()
	e := tr.Root()
	for _, name := range strings.Split(path, `\`) {
		if e = e.Lookup(name); e == nil {
			t.Fatalf("%q: no %q", path, name)
		}
	}
	return e
}

func open(t *testing.T, tr *Tree, e *Entry, access, share uint32) *Open {
	t.Helper()
	o, err := tr.Open(e, access, share)
	if err != nil {
		t.Fatalf("open %s: %v", e.Path(), err)
	}
	return o
}

func want(t *testing.T, what string, err error, status win32.NTStatus) {
	t.Helper()
	if status == 0 && err == nil {
		return
	}
	var have win32.NTStatus
	if errors.As(err, &have); have != status {
		t.Errorf("%s: %v, want %s", what, err, status.Name())
	}
}

const shareAll = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE

func TestNameFolding(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"abc", "ABC", true},
		{"Größe", "GRÖßE", true},
		{"привет", "ПРИВЕТ", true},
		{"ß", "SS", false},
		{"ı", "I", false}, // does not fold to ASCII
		{"ſ", "s", false},
		{"\u212a", "k", false}, // the Kelvin sign
		{"a.", "a", false},
		{"a\xff", "a\ufffd", true}, // bytes that are not UTF-8 are replaced
	} {
		if got := fold(clean(c.a)) == fold(clean(c.b)); got != c.same {
			t.Errorf("%q and %q are one name: %t, want %t", c.a, c.b, got, c.same)
		}
	}
}

func TestLookupPreservesCase(t *testing.T) {
	tr, j := grow(t, `Var\`, `Var\Lib\`)
	e := find(t, tr, `VAR\lib`)
	if e.Path() != `\Var\Lib` || e.Name() != "Lib" {
		t.Errorf("path %q, name %q, want the original case", e.Path(), e.Name())
	}
	if tr.Root().Path() != `\` {
		t.Errorf("the root's path is %q", tr.Root().Path())
	}
	check(t, tr, j)
}

// Reading a directory continues after the last name, even if entries were added
// and removed in between.
func TestNextIsStable(t *testing.T) {
	tr, j := grow(t, "b", "D", "a", "C", "e")
	var got []string
	var c Cursor
	for {
		e, next, ok := tr.Root().Next(c)
		if !ok {
			break
		}
		got, c = append(got, e.Name()), next
		if e.Name() == "b" {
			o := open(t, tr, e, win32.DELETE, shareAll)
			if err := tr.SetDisposition(o, win32.FILE_DISPOSITION_DELETE); err != nil {
				t.Fatal(err)
			}
			tr.Close(j, o)
			for _, name := range []string{"aa", "bb"} {
				if _, err := tr.Create(j, tr.Root(), name, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if w := []string{"a", "b", "bb", "C", "D", "e"}; !slices.Equal(got, w) {
		t.Errorf("read %q, want %q", got, w)
	}
	check(t, tr, j)
}

func TestUndoDeletion(t *testing.T) {
	tr, j := grow(t, "file")
	e := find(t, tr, "file")
	a, b := open(t, tr, e, win32.DELETE, shareAll), open(t, tr, e, win32.DELETE, shareAll)
	want(t, "mark", tr.SetDisposition(a, win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS), 0)
	want(t, "unmark", tr.SetDisposition(b, 0), 0)
	tr.Close(j, a)
	tr.Close(j, b)
	if tr.Root().Lookup("file") != e {
		t.Error("the file does not exist")
	}
	check(t, tr, j)
}

func TestRename(t *testing.T) {
	for _, c := range []struct {
		name       string
		from, dir  string
		to         string
		hold       string // opened for attributes during the rename
		status     win32.NTStatus
		wantInTree string
	}{
		{name: "in place", from: `a\f`, dir: "a", to: "g", wantInTree: `a\g`},
		{name: "letter case only", from: `a\f`, dir: "a", to: "F", wantInTree: `a\F`},
		{name: "a directory with entries", from: `a`, dir: `b`, to: "a", wantInTree: `b\a\f`},
		{name: "over a file", from: `a\f`, dir: "b", to: "OLD", status: win32.STATUS_OBJECT_NAME_COLLISION},
		{name: "a directory that something is open in", from: `b`, dir: `a`, to: "b", hold: `b\sub`, status: win32.STATUS_ACCESS_DENIED},
		{name: "a directory that is open itself", from: `b`, dir: `a`, to: "b", hold: `b`, wantInTree: `a\b\sub`},
		{name: "into itself", from: `b`, dir: `b\sub`, to: "b", status: win32.STATUS_ACCESS_DENIED},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, j := grow(t, `a\`, `a\f`, `b\`, `b\old`, `b\sub\`)
			if c.hold != "" {
				defer tr.Close(j, open(t, tr, find(t, tr, c.hold), win32.FILE_READ_ATTRIBUTES, shareAll))
			}
			o := open(t, tr, find(t, tr, c.from), win32.DELETE, shareAll)
			defer tr.Close(j, o)
			want(t, "rename", tr.Rename(j, o, find(t, tr, c.dir), c.to), c.status)
			if c.wantInTree != "" {
				if e := find(t, tr, c.wantInTree); e.Path() != `\`+c.wantInTree {
					t.Errorf("path %q, want %q", e.Path(), `\`+c.wantInTree)
				}
			}
			check(t, tr, j)
		})
	}
	tr, j := grow(t, "f")
	want(t, "the root", tr.Rename(j, open(t, tr, tr.Root(), win32.DELETE, shareAll), tr.Root(), "g"), win32.STATUS_ACCESS_DENIED)
}

func junction(target string) []byte {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: target}.Encode()
}

func symlink(target string) []byte {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: target, Print: target, Relative: true}.Encode()
}

func patched(b []byte, at int, v uint16) []byte {
	b = slices.Clone(b)
	le.PutUint16(b[at:], v)
	return b
}

func TestCheckReparse(t *testing.T) {
	const invalid = win32.STATUS_IO_REPARSE_DATA_INVALID
	j, s := junction(`\??\C:\x`), symlink(`..\x`)
	for _, c := range []struct {
		name   string
		b      []byte
		file   bool
		status win32.NTStatus
	}{
		{name: "another tag of Microsoft's", b: append(le.AppendUint32(nil, 0x80000017), 1, 0, 0, 0, 9)},
		{name: "a tag that is not one of Microsoft's", b: append(le.AppendUint32(nil, 0x42), 0, 0, 0, 0), status: win32.STATUS_NOT_SUPPORTED},
		{name: "mount point without names", b: append(le.AppendUint32(nil, win32.IO_REPARSE_TAG_MOUNT_POINT), 0, 0, 0, 0), status: invalid},
		{name: "mount point with an empty target", b: junction(""), status: invalid},
		{name: "mount point: target not first", b: patched(j, 8, 2), status: invalid},
		{name: "mount point: target of an odd length", b: patched(j, 10, le.Uint16(j[10:])-1), status: invalid},
		{name: "mount point: names overlap", b: patched(j, 12, 0), status: invalid},
		{name: "mount point: print name beyond the end", b: patched(j, 14, 200), status: invalid},
		{name: "mount point: target not ended by NUL", b: patched(j, len(j)-4, 'x'), status: invalid},
		{name: "symbolic link without names", b: append(le.AppendUint32(nil, win32.IO_REPARSE_TAG_SYMLINK), 0, 0, 0, 0), status: invalid},
		{name: "symbolic link: empty target", b: patched(s, 10, 0), status: invalid},
		{name: "symbolic link: target beyond the end", b: patched(s, 10, 0xfffe), status: invalid},
		{name: "symbolic link: target at an odd offset", b: patched(patched(s, 8, 1), 10, 2), status: invalid},
		{name: "symbolic link: print name beyond the end", b: patched(s, 12, 0xfffe), status: invalid},
	} {
		want(t, c.name, CheckReparse(c.b, !c.file), c.status)
	}
}

func TestDismount(t *testing.T) {
	tr, j := grow(t, `dir\`, `dir\file`)
	file, dir := find(t, tr, `dir\file`), find(t, tr, "dir")
	a, b := open(t, tr, file, win32.DELETE, 0), open(t, tr, dir, win32.FILE_LIST_DIRECTORY, 0)
	want(t, "mark", tr.SetDisposition(a, win32.FILE_DISPOSITION_DELETE), 0)
	tr.Dismount()
	tr.Close(j, a)
	tr.Close(j, b)
	if find(t, tr, `dir\file`) != file || len(tr.opens) != 0 {
		t.Errorf("%d opens are left", len(tr.opens))
	}
	tr.Close(j, open(t, tr, file, win32.DELETE, 0))
	check(t, tr, j)
}

func TestLoadDamaged(t *testing.T) {
	const root = `{"attributes":16}`
	for name, records := range map[string]map[string]string{
		"nothing":                 {},
		"no root":                 {"24": `{"parent":5,"name":"a"}`},
		"two roots":               {"5": root, "24": root},
		"a root that is a file":   {"5": `{}`},
		"a key that is no number": {"5": root, "x": `{"parent":5,"name":"a"}`},
		"no JSON":                 {"5": root, "24": `{`},
		"an orphan":               {"5": root, "24": `{"parent":99,"name":"a"}`},
		"a cycle":                 {"5": root, "24": `{"parent":25,"name":"a","attributes":16}`, "25": `{"parent":24,"name":"b","attributes":16}`},
		"in a file":               {"5": root, "24": `{"parent":5,"name":"a"}`, "25": `{"parent":24,"name":"b"}`},
	} {
		raw := map[string][]byte{}
		for k, v := range records {
			raw[k] = []byte(v)
		}
		if tr, err := Load(raw); err == nil {
			t.Errorf("%s: Load = %v, want an error", name, tr)
		}
	}
}

// Random mutations leave a valid tree, and their recorded changes make the same
// tree.
func TestRandomOperations(t *testing.T) {
	done := map[string]int{} // how often each operation succeeded
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			tr, j := grow(t)
			var opens []*Open
			names := []string{"a", "A", "b", "cc", "CC", "d.", "ä", "Ä"}
			entry := func() *Entry {
				ids := slices.Sorted(maps.Keys(tr.entries))
				return tr.entries[ids[r.IntN(len(ids))]]
			}
			for range 2000 {
				name, access, share := names[r.IntN(len(names))], uint32(r.IntN(0x200)), uint32(r.IntN(8))
				var op string
				var err error
				switch k := r.IntN(20); {
				case k < 6:
					op = "create"
					_, err = tr.Create(j, entry(), name, uint32(r.IntN(2))*dirAttr)
				case k < 12:
					op = "open"
					var o *Open
					if o, err = tr.Open(entry(), access|uint32(r.IntN(2))*win32.DELETE, share|win32.FILE_SHARE_DELETE); err == nil {
						opens = append(opens, o)
					}
				case k < 13:
					op, err = "reparse", tr.SetReparse(j, entry(), [][]byte{junction("x"), symlink("y")}[r.IntN(2)])
				case k < 14:
					e := entry()
					b := make([]byte, 8)
					if e.Reparse() != nil {
						le.PutUint32(b, e.ReparseTag())
					}
					op, err = "unreparse", tr.DeleteReparse(j, e, b)
				case k < 15:
					op, err = "attributes", tr.SetAttributes(j, entry(), uint32(r.IntN(8)))
				case k < 16:
					op, err = "size", tr.SetSize(j, entry(), int64(r.IntN(3)))
				case len(opens) == 0:
					continue
				default:
					i := r.IntN(len(opens))
					o := opens[i]
					switch {
					case k < 17:
						op, err = "dispose", tr.SetDisposition(o, uint32(r.IntN(4))|0x10*uint32(r.IntN(2)))
					case k < 18:
						if dir := entry(); dir.IsDir() && dir.Reparse() == nil && !dir.DeletePending() {
							op, err = "rename", tr.Rename(j, o, dir, name)
						}
					default:
						op, opens = "close", slices.Delete(opens, i, i+1)
						tr.Close(j, o)
					}
				}
				var status win32.NTStatus
				if err != nil && (!errors.As(err, &status) || status == win32.STATUS_NOT_IMPLEMENTED) {
					t.Fatalf("%s: %v, want an NTSTATUS", op, err)
				}
				if err == nil {
					done[op]++
				}
			}
			check(t, tr, j)
			for _, o := range opens {
				tr.Close(j, o)
			}
			if len(tr.opens) != 0 {
				t.Errorf("%d opens are left", len(tr.opens))
			}
			for _, e := range tr.entries {
				if e.pending {
					t.Errorf("%s is marked for deletion, but not open", e.Path())
				}
			}
			check(t, tr, j)
		})
	}
	for _, op := range []string{"create", "open", "reparse", "unreparse", "attributes", "size", "dispose", "rename", "close"} {
		if done[op] == 0 {
			t.Errorf("%s never succeeded, so the test did not cover it", op)
		}
	}
}

func FuzzCreate(f *testing.F) {
	for _, s := range []string{"a", "", ".", "..", "a b ", "CON", "a\x00", "\xff", "Größe", "a/b", strings.Repeat("x", 256)} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		j := journal{}
		tr := New(j)
		e, err := tr.Create(j, tr.Root(), a, dirAttr)
		if err == nil && (tr.Root().Lookup(a) != e && e.Name() == a) {
			t.Errorf("%q was created, but Lookup does not find it", a)
		}
		_, errB := tr.Create(j, tr.Root(), b, 0)
		if err == nil && errB == nil && fold(clean(a)) == fold(clean(b)) {
			t.Errorf("%q and %q are the same name, but both were created", a, b)
		}
		check(t, tr, j)
	})
}

func FuzzReparse(f *testing.F) {
	f.Add(junction(`\??\Volume{12345678-1234-1234-1234-123456789abc}\`), true)
	f.Add(symlink(`..\x`), false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, b []byte, dir bool) {
		if CheckReparse(b, dir) != nil {
			return
		}
		// Accepted data can be decoded and is returned unchanged.
		if _, err := win32.DecodeReparse(b); err != nil {
			t.Errorf("accepted %x, which DecodeReparse refuses: %v", b, err)
		}
		j := journal{}
		tr := New(j)
		attr := uint32(0)
		if dir {
			attr = dirAttr
		}
		e, err := tr.Create(j, tr.Root(), "x", attr)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.SetReparse(j, e, b); err != nil {
			t.Errorf("CheckReparse accepts %x, but SetReparse returns %v", b, err)
		}
		if string(e.Reparse()) != string(b) {
			t.Errorf("set %x, got %x", b, e.Reparse())
		}
		check(t, tr, j)
	})
}
