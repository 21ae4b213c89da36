package filestatus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The sections.
const (
	parameters = "[MS-FSA] 2.1.5.1, phase 1"
	names      = "[MS-FSCC] 2.1.5.2"
	dots       = "[MS-FSCC] 2.1.5.1"
	relative   = "fastfat create.c"
	location   = "[MS-FSA] 2.1.5.1, phase 6"
	kind       = "[MS-FSA] 2.1.5.1, phase 7"
	creation   = "[MS-FSA] 2.1.5.1.1"
	existing   = "[MS-FSA] 2.1.5.1.2"
	access     = "[MS-FSA] 2.1.5.1.2.1"
	sharing    = "[MS-FSA] 2.1.5.1.2.2"
	closing    = "[MS-FSA] 2.1.5.5"
	listing    = "[MS-FSA] 2.1.5.6.3"
	listBuffer = "[MS-FSA] 2.1.5.6.3.3"
	queries    = "[MS-FSA] 2.1.5.12"
	queryTag   = "[MS-FSA] 2.1.5.12.5"
	queryBasic = "[MS-FSA] 2.1.5.12.6"
	queryStd   = "[MS-FSA] 2.1.5.12.27"
	setBasic   = "[MS-FSA] 2.1.5.15.2"
	deletion   = "[MS-FSA] 2.1.5.15.3"
	settings   = "[MS-FSCC] 2.4"
	basicReply = "[MS-FSCC] 2.4.7"
	deleteEx   = "FILE_DISPOSITION_INFORMATION_EX (ntddk.h)"
	getLink    = "[MS-FSA] 2.1.5.10.14"
	setLink    = "[MS-FSA] 2.1.5.10.37"
	deleteLink = "[MS-FSA] 2.1.5.10.3"
	setReply   = "[MS-FSCC] 2.3.82"
	dropReply  = "[MS-FSCC] 2.3.6"
	noReparse  = "OBJ_DONT_REPARSE (ntdef.h)"
)

// noLinks is what Wine 10 returns where a row needs a reparse point.
const noLinks = "setup: ERROR_NOT_SUPPORTED"

// Rows returns the table.
func Rows() []Row {
	return slices.Concat(openRows(), nameRows(), placeRows(), sharingRows(), deletionRows(), informationRows(), directoryRows(), linkRows())
}

// opened returns a call that is NtCreateFile, after an optional setup.
func opened(p o, setup ...func(*node)) func(*node) error {
	return func(n *node) error {
		for _, f := range setup {
			f(n)
		}
		return n.create(p)
	}
}

func hasFile(n *node) { n.file("file") }
func hasDir(n *node)  { n.dir("dir") }

func openRows() []Row {
	const invalid = win32.STATUS_INVALID_PARAMETER
	return []Row{
		{Name: "open synchronously without SYNCHRONIZE", Source: parameters, Want: invalid, Wine: "success",
			call: opened(o{name: "file", access: win32.FILE_READ_ATTRIBUTES}, hasFile)},
		{Name: "open a directory that is no directory, by the options", Source: parameters, Want: invalid, Wine: "STATUS_FILE_IS_A_DIRECTORY",
			call: opened(o{name: "dir", options: dir | file}, hasDir)},
		{Name: "open a file by a name with a final backslash", Source: parameters, Want: win32.STATUS_OBJECT_NAME_INVALID,
			call: opened(o{name: `file\`, options: file}, hasFile)},
		{Name: "create a file by a name with a final backslash", Source: parameters, Want: win32.STATUS_OBJECT_NAME_INVALID,
			call: opened(o{name: `new\`, open: win32.FILE_CREATE, options: file})},
		{Name: "create a directory by a name with a final backslash", Source: creation,
			call: opened(o{name: `new\`, open: win32.FILE_CREATE, options: dir})},
	}
}

func nameRows() []Row {
	const invalid = win32.STATUS_OBJECT_NAME_INVALID
	create := func(name string) func(*node) error {
		return opened(o{name: name, open: win32.FILE_CREATE, options: file})
	}
	var rows []Row
	for _, c := range []string{"*", "?", "<", ">", `"`, "|", "/", "\x01", "\x1f"} {
		rows = append(rows, Row{Name: fmt.Sprintf("a name with %+q", c), Source: names, Want: invalid, call: create("a" + c + "b")})
	}
	return append(rows,
		Row{Name: "open a name with a wildcard that matches", Source: names, Want: invalid, call: opened(o{name: "fil*"}, hasFile)},
		Row{Name: "a name of 255 units", Source: names, call: create(strings.Repeat("n", 255))},
		Row{Name: "a name of 256 units", Source: names, Want: invalid, Wine: "STATUS_OBJECT_NAME_NOT_FOUND", call: create(strings.Repeat("n", 256))},
		Row{Name: "a name of 128 surrogate pairs", Source: names, Want: invalid, Wine: "STATUS_OBJECT_NAME_NOT_FOUND", call: create(strings.Repeat("\U0001F517", 128))},
		Row{Name: "a name of 127 surrogate pairs", Source: names, Wine: "STATUS_OBJECT_NAME_NOT_FOUND", call: create(strings.Repeat("\U0001F517", 127))},
		Row{Name: "a directory of 256 units on the way", Source: names, Want: invalid, Wine: "STATUS_OBJECT_PATH_NOT_FOUND", call: create(strings.Repeat("n", 256) + `\x`)},
		Row{Name: "an empty name on the way", Source: names, Want: invalid, call: opened(o{name: `dir\\x`}, hasDir)},
		Row{Name: "a name that ends in a dot", Source: names, call: create("a.")},
		Row{Name: "a name that ends in a blank", Source: names, call: create("a ")},
		Row{Name: "a name that Win32 reserves for a device", Source: names, call: create("CON")},
		Row{Name: "a name in Unicode", Source: names, call: create("Größe-\u65e5\u672c")},
		Row{Name: "the name .", Source: dots, Want: invalid, call: opened(o{name: "."})},
		Row{Name: "the name ..", Source: dots, Want: invalid, call: opened(o{name: ".."})},
		Row{Name: "the name .. on the way", Source: dots, Want: invalid, call: opened(o{name: `dir\..\file`}, hasDir, hasFile)},
		Row{Name: `a relative name that begins with \`, Source: relative, Want: invalid, Differs: "Wine's test, which its authors also run on Windows, accepts STATUS_INVALID_PARAMETER and STATUS_OBJECT_PATH_SYNTAX_BAD, too", Wine: "STATUS_INVALID_PARAMETER", call: opened(o{name: `\file`}, hasFile)},
		Row{Name: `the relative name \`, Source: relative, Want: invalid, Wine: "STATUS_INVALID_PARAMETER", call: opened(o{name: `\`})},
		Row{Name: "the empty relative name", Source: relative, call: opened(o{name: "", options: dir})},
	)
}

func placeRows() []Row {
	return []Row{
		{Name: "open what is missing", Source: kind, Want: win32.STATUS_OBJECT_NAME_NOT_FOUND, call: opened(o{name: "missing"})},
		{Name: "open a missing directory by a name with a final backslash", Source: kind, Want: win32.STATUS_OBJECT_NAME_NOT_FOUND,
			call: opened(o{name: `missing\`, options: dir})},
		{Name: "open below a missing directory", Source: location, Want: win32.STATUS_OBJECT_PATH_NOT_FOUND, call: opened(o{name: `missing\file`})},
		{Name: "create below a missing directory", Source: location, Want: win32.STATUS_OBJECT_PATH_NOT_FOUND,
			call: opened(o{name: `missing\file`, open: win32.FILE_CREATE})},
		{Name: "open below a file", Source: relative, Want: win32.STATUS_OBJECT_PATH_NOT_FOUND, Differs: "[MS-FSA] 2.1.5.1 has STATUS_NOT_A_DIRECTORY",
			call: opened(o{name: `file\x`}, hasFile)},
		{Name: "open below a directory that is being deleted", Source: location, Want: win32.STATUS_DELETE_PENDING, Wine: "STATUS_OBJECT_NAME_NOT_FOUND",
			call: opened(o{name: `gone\x`}, func(n *node) { n.pending("gone", dir) })},
		{Name: "create below the handle of a directory that is being deleted", Source: creation, Want: win32.STATUS_DELETE_PENDING, Wine: "success",
			call: func(n *node) error {
				return n.create(o{root: n.pending("gone", dir), name: "x", open: win32.FILE_CREATE})
			}},
		{Name: "open what is being deleted", Source: existing, Want: win32.STATUS_DELETE_PENDING, Wine: "success",
			call: opened(o{name: "gone"}, func(n *node) { n.pending("gone", file) })},
		{Name: "create what is being deleted", Source: relative, Want: win32.STATUS_DELETE_PENDING, Wine: "STATUS_OBJECT_NAME_COLLISION",
			call: opened(o{name: "gone", open: win32.FILE_CREATE}, func(n *node) { n.pending("gone", file) })},
		{Name: "open what was deleted", Source: closing, Want: win32.STATUS_OBJECT_NAME_NOT_FOUND,
			call: opened(o{name: "gone"}, func(n *node) { n.close(n.pending("gone", file)) })},
		{Name: "create a file", Source: creation, call: opened(o{name: "new", open: win32.FILE_CREATE, options: file})},
		{Name: "create a directory", Source: creation, call: opened(o{name: "new", open: win32.FILE_CREATE, options: dir})},
		{Name: "FILE_OPEN_IF creates", Source: creation, call: opened(o{name: "new", open: win32.FILE_OPEN_IF})},
		{Name: "FILE_OPEN_IF opens", Source: existing, call: opened(o{name: "file", open: win32.FILE_OPEN_IF}, hasFile)},
		{Name: "create a file that exists", Source: existing, Want: win32.STATUS_OBJECT_NAME_COLLISION,
			call: opened(o{name: "file", open: win32.FILE_CREATE, options: file}, hasFile)},
		{Name: "create a file that exists in another case", Source: existing, Want: win32.STATUS_OBJECT_NAME_COLLISION,
			call: opened(o{name: "FILE", open: win32.FILE_CREATE, options: file}, hasFile)},
		{Name: "create a directory that exists", Source: existing, Want: win32.STATUS_OBJECT_NAME_COLLISION,
			call: opened(o{name: "dir", open: win32.FILE_CREATE, options: dir}, hasDir)},
		{Name: "create the root of a volume", Source: existing, Want: win32.STATUS_ACCESS_DENIED, Wine: "STATUS_OBJECT_NAME_COLLISION",
			call: func(n *node) error { return n.create(o{absolute: n.path[:3], open: win32.FILE_CREATE, options: dir}) }},
		{Name: "create a directory where a file is", Source: existing, Want: win32.STATUS_OBJECT_NAME_COLLISION,
			call: opened(o{name: "file", open: win32.FILE_CREATE, options: dir}, hasFile)},
		{Name: "open a file as a directory", Source: kind, Want: win32.STATUS_NOT_A_DIRECTORY, call: opened(o{name: "file", options: dir}, hasFile)},
		{Name: "open a directory as a file", Source: existing, Want: win32.STATUS_FILE_IS_A_DIRECTORY, call: opened(o{name: "dir", options: file}, hasDir)},
		{Name: "FILE_OPEN_IF of a file as a directory", Source: kind, Want: win32.STATUS_NOT_A_DIRECTORY,
			call: opened(o{name: "file", open: win32.FILE_OPEN_IF, options: dir}, hasFile)},
		{Name: "open a directory without a word about its kind", Source: existing, call: opened(o{name: "dir"}, hasDir)},
		{Name: "write a read-only file", Source: access, Want: win32.STATUS_ACCESS_DENIED, Wine: "success",
			call: opened(o{name: "file", access: win32.FILE_ADD_FILE | read}, hasFile, func(n *node) { n.readOnly("file") })},
		{Name: "append to a read-only file", Source: access, Want: win32.STATUS_ACCESS_DENIED, Wine: "success",
			call: opened(o{name: "file", access: appendData | read}, hasFile, func(n *node) { n.readOnly("file") })},
		{Name: "GENERIC_WRITE of a read-only file", Source: access, Want: win32.STATUS_ACCESS_DENIED, Wine: "success",
			call: opened(o{name: "file", access: win32.GENERIC_WRITE | read}, hasFile, func(n *node) { n.readOnly("file") })},
		{Name: "read a read-only file", Source: access,
			call: opened(o{name: "file", access: win32.GENERIC_READ | read}, hasFile, func(n *node) { n.readOnly("file") })},
		{Name: "open a read-only file to delete it", Source: access,
			call: opened(o{name: "file", access: remove}, hasFile, func(n *node) { n.readOnly("file") })},
		{Name: "create in a read-only directory", Source: access,
			call: opened(o{name: `dir\new`, open: win32.FILE_CREATE}, hasDir, func(n *node) { n.readOnly("dir") })},
	}
}

func sharingRows() []Row {
	const (
		r, w, d   = win32.FILE_LIST_DIRECTORY, win32.FILE_ADD_FILE, win32.DELETE
		violation = win32.STATUS_SHARING_VIOLATION
	)
	all := uint32(win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE)
	var rows []Row
	for _, c := range []struct {
		name                string
		first, firstShare   uint32
		second, secondShare uint32
		want                win32.NTStatus
	}{
		{"read a file that is open without sharing of reading", r, all &^ win32.FILE_SHARE_READ, r, all, violation},
		{"execute a file that is open without sharing of reading", r, all &^ win32.FILE_SHARE_READ, win32.FILE_TRAVERSE, all, violation},
		{"write a file that is open without sharing of writing", r, all &^ win32.FILE_SHARE_WRITE, w, all, violation},
		{"append to a file that is open without sharing of writing", r, all &^ win32.FILE_SHARE_WRITE, appendData, all, violation},
		{"delete a file that is open without sharing of deletion", r, all &^ win32.FILE_SHARE_DELETE, d, all, violation},
		{"read without sharing what is open for reading", r, all, r, alone, violation},
		{"read without sharing of writing what is open for writing", w, all, r, all &^ win32.FILE_SHARE_WRITE, violation},
		{"read without sharing of deletion what is open for deletion", d, all, r, all &^ win32.FILE_SHARE_DELETE, violation},
		{"read and write with all sharing", r | w, all, r | w, all, 0},
		{"read what is open for reading, both sharing reading", r, win32.FILE_SHARE_READ, r, win32.FILE_SHARE_READ, 0},
		{"read attributes of what is open without sharing", r | w | d, alone, win32.FILE_READ_ATTRIBUTES, alone, 0},
		{"write attributes of what is open without sharing", r | w | d, alone, win32.FILE_WRITE_ATTRIBUTES, alone, 0},
		{"read without sharing what is open for its attributes", win32.FILE_READ_ATTRIBUTES, alone, r, alone, 0},
	} {
		for _, kind := range []struct {
			what    string
			options uint32
		}{{"", file}, {", a directory", dir}} {
			if kind.options == dir && c.want == 0 {
				continue
			}
			rows = append(rows, Row{Name: c.name + kind.what, Source: sharing, Want: c.want, call: func(n *node) error {
				n.must(o{name: "x", access: c.first | win32.SYNCHRONIZE, share: c.firstShare, open: win32.FILE_CREATE, options: kind.options})
				return n.create(o{name: "x", access: c.second | win32.SYNCHRONIZE, share: c.secondShare})
			}})
		}
	}
	rows = append(rows, Row{Name: "delete a directory whose attributes are open without sharing of deletion", Source: access, Want: violation, Wine: "success", call: func(n *node) error {
		n.dir("x")
		n.must(o{name: "x", share: win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE})
		return n.create(o{name: "x", access: remove})
	}})
	return append(rows, Row{Name: "read after the file that was not shared is closed", Source: sharing, call: func(n *node) error {
		n.close(n.must(o{name: "x", access: r | read, share: alone, open: win32.FILE_CREATE, options: file}))
		return n.create(o{name: "x", access: r | read, share: alone})
	}})
}

// on returns a call on an entry that it opens.
func on(p o, call func(*node, win32.Handle) error, setup ...func(*node)) func(*node) error {
	return func(n *node) error {
		for _, f := range setup {
			f(n)
		}
		return call(n, n.must(p))
	}
}

// setting is SetInformation.
func setting(class uint32, in []byte) func(*node, win32.Handle) error {
	return func(n *node, h win32.Handle) error { return n.set(h, class, in) }
}

func deletionRows() []Row {
	const (
		old     = win32.FileDispositionInformation
		ex      = win32.FileDispositionInformationEx
		posix   = win32.FILE_DISPOSITION_DELETE | win32.FILE_DISPOSITION_POSIX_SEMANTICS
		ignores = win32.FILE_DISPOSITION_DELETE | win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE
	)
	full := func(n *node) { n.dir("dir"); n.file(`dir\file`) }
	readOnly := func(n *node) { n.file("file"); n.readOnly("file") }
	return []Row{
		{Name: "delete a file", Source: deletion, call: on(o{name: "file", access: remove}, setting(old, []byte{1}), hasFile)},
		{Name: "delete an empty directory", Source: deletion, call: on(o{name: "dir", access: remove}, setting(old, []byte{1}), hasDir)},
		{Name: "delete without DELETE", Source: deletion, Want: win32.STATUS_ACCESS_DENIED,
			call: on(o{name: "file", access: setter}, setting(old, []byte{1}), hasFile)},
		{Name: "delete a directory that is not empty", Source: deletion, Want: win32.STATUS_DIRECTORY_NOT_EMPTY,
			call: on(o{name: "dir", access: remove}, setting(old, []byte{1}), full)},
		{Name: "delete a read-only file", Source: deletion, Want: win32.STATUS_CANNOT_DELETE,
			call: on(o{name: "file", access: remove}, setting(old, []byte{1}), readOnly)},
		{Name: "delete a read-only directory", Source: deletion, Want: win32.STATUS_CANNOT_DELETE, Wine: "success",
			call: on(o{name: "dir", access: remove}, setting(old, []byte{1}), hasDir, func(n *node) { n.readOnly("dir") })},
		{Name: "delete with too short a buffer", Source: deletion, Want: win32.STATUS_INFO_LENGTH_MISMATCH, Wine: "STATUS_0xC00000F1",
			call: on(o{name: "file", access: remove}, setting(old, nil), hasFile)},
		{Name: "open a file after its mark was removed", Source: deletion, call: func(n *node) error {
			h := n.pending("file", file)
			n.need(n.set(h, old, []byte{0}))
			return n.create(o{name: "file"})
		}},
		{Name: "open a file with a mark while another handle is open", Source: existing, Want: win32.STATUS_DELETE_PENDING, Wine: "success", call: func(n *node) error {
			n.file("file")
			n.must(o{name: "file"})
			h := n.must(o{name: "file", access: remove})
			n.mark(h)
			n.close(h)
			return n.create(o{name: "file"})
		}},
		{Name: "delete, newer class, a file", Source: deleteEx,
			call: on(o{name: "file", access: remove}, setting(ex, win32.EncodeDisposition(posix)), hasFile)},
		{Name: "delete, newer class, without DELETE", Source: deleteEx, Want: win32.STATUS_ACCESS_DENIED,
			call: on(o{name: "file", access: setter}, setting(ex, win32.EncodeDisposition(posix)), hasFile)},
		{Name: "delete, newer class, a directory that is not empty", Source: deletion, Want: win32.STATUS_DIRECTORY_NOT_EMPTY,
			call: on(o{name: "dir", access: remove}, setting(ex, win32.EncodeDisposition(posix)), full)},
		{Name: "delete, newer class, a read-only file", Source: deleteEx, Want: win32.STATUS_CANNOT_DELETE,
			call: on(o{name: "file", access: remove}, setting(ex, win32.EncodeDisposition(posix)), readOnly)},
		{Name: "delete, newer class, a read-only file, ignoring that", Source: deleteEx,
			call: on(o{name: "file", access: remove}, setting(ex, win32.EncodeDisposition(ignores)), readOnly)},
		{Name: "delete, newer class, with too short a buffer", Source: deleteEx, Want: win32.STATUS_INFO_LENGTH_MISMATCH, Wine: "STATUS_0xC00000F1",
			call: on(o{name: "file", access: remove}, setting(ex, []byte{1}), hasFile)},
		{Name: "open what was deleted with POSIX semantics while another handle is open", Source: deleteEx, Want: win32.STATUS_OBJECT_NAME_NOT_FOUND,
			call: func(n *node) error { return n.afterDeletion(posix, o{name: "file"}) }},
		{Name: "create what was deleted with POSIX semantics while another handle is open", Source: deleteEx,
			call: func(n *node) error { return n.afterDeletion(posix, o{name: "file", open: win32.FILE_CREATE}) }},
		{Name: "open what was deleted without POSIX semantics while another handle is open", Source: deleteEx, Want: win32.STATUS_DELETE_PENDING, Wine: "success",
			call: func(n *node) error { return n.afterDeletion(win32.FILE_DISPOSITION_DELETE, o{name: "file"}) }},
		{Name: "a class that does not exist", Source: settings, Want: win32.STATUS_INVALID_INFO_CLASS, Wine: "STATUS_NOT_IMPLEMENTED",
			call: on(o{name: "file", access: setter}, setting(9999, make([]byte, 64)), hasFile)},
	}
}

// afterDeletion deletes a file through one of two handles, closes it, and makes a call.
func (n *node) afterDeletion(flags uint32, p o) error {
	n.file("file")
	n.must(o{name: "file", access: win32.FILE_LIST_DIRECTORY | read})
	h := n.must(o{name: "file", access: remove})
	n.need(n.set(h, win32.FileDispositionInformationEx, win32.EncodeDisposition(flags)))
	n.close(h)
	return n.create(p)
}

func informationRows() []Row {
	const mismatch, invalid, denied = win32.STATUS_INFO_LENGTH_MISMATCH, win32.STATUS_INVALID_PARAMETER, win32.STATUS_ACCESS_DENIED
	asking := func(class uint32, room int) func(*node, win32.Handle) error {
		return func(n *node, h win32.Handle) error { return n.query(h, class, room) }
	}
	bare := uint32(win32.FILE_LIST_DIRECTORY | win32.SYNCHRONIZE) // no right to read attributes
	return []Row{
		{Name: "query FileBasicInformation", Source: queryBasic, call: on(o{name: "file"}, asking(win32.FileBasicInformation, 40), hasFile)},
		{Name: "query FileBasicInformation into 39 bytes", Source: queryBasic, Want: mismatch,
			call: on(o{name: "file"}, asking(win32.FileBasicInformation, 39), hasFile)},
		{Name: "query FileBasicInformation without FILE_READ_ATTRIBUTES", Source: queryBasic, Want: denied, Wine: "success",
			call: on(o{name: "file", access: bare}, asking(win32.FileBasicInformation, 40), hasFile)},
		{Name: "query FileAttributeTagInformation", Source: queryTag, call: on(o{name: "file"}, asking(win32.FileAttributeTagInformation, 8), hasFile)},
		{Name: "query FileAttributeTagInformation into 7 bytes", Source: queryTag, Want: mismatch,
			call: on(o{name: "file"}, asking(win32.FileAttributeTagInformation, 7), hasFile)},
		{Name: "query FileAttributeTagInformation without FILE_READ_ATTRIBUTES", Source: queryTag, Want: denied, Wine: "success",
			call: on(o{name: "file", access: bare}, asking(win32.FileAttributeTagInformation, 8), hasFile)},
		{Name: "query FileStandardInformation without FILE_READ_ATTRIBUTES", Source: queryStd,
			call: on(o{name: "file", access: bare}, asking(win32.FileStandardInformation, 24), hasFile)},
		{Name: "query FileStandardInformation into 23 bytes", Source: queryStd, Want: mismatch,
			call: on(o{name: "file"}, asking(win32.FileStandardInformation, 23), hasFile)},
		{Name: "query a class that does not exist", Source: queries, Want: win32.STATUS_INVALID_INFO_CLASS,
			call: on(o{name: "file"}, asking(9999, 64), hasFile)},
		{Name: "set attributes", Source: setBasic,
			call: on(o{name: "file", access: setter}, setting(win32.FileBasicInformation, basic(win32.FILE_ATTRIBUTE_HIDDEN, 0)), hasFile)},
		{Name: "set attributes with 39 bytes", Source: setBasic, Want: mismatch, Wine: "STATUS_0xC00000F1",
			call: on(o{name: "file", access: setter}, setting(win32.FileBasicInformation, basic(win32.FILE_ATTRIBUTE_HIDDEN, 0)[:39]), hasFile)},
		{Name: "set attributes without FILE_WRITE_ATTRIBUTES", Source: basicReply, Want: denied, Wine: "success",
			call: on(o{name: "file"}, setting(win32.FileBasicInformation, basic(win32.FILE_ATTRIBUTE_HIDDEN, 0)), hasFile)},
		{Name: "set the attribute of a directory on a file", Source: setBasic, Want: invalid, Wine: "success",
			call: on(o{name: "file", access: setter}, setting(win32.FileBasicInformation, basic(win32.FILE_ATTRIBUTE_DIRECTORY, 0)), hasFile)},
		{Name: "set the attribute of a temporary file on a directory", Source: setBasic, Want: invalid, Wine: "success",
			call: on(o{name: "dir", access: setter}, setting(win32.FileBasicInformation, basic(temporary, 0)), hasDir)},
		{Name: "set a time before -2", Source: setBasic, Want: invalid, Wine: "success",
			call: on(o{name: "file", access: setter}, setting(win32.FileBasicInformation, basic(0, -3)), hasFile)},
		{Name: "set no attributes and no times", Source: setBasic,
			call: on(o{name: "file", access: setter}, setting(win32.FileBasicInformation, basic(0, 0)), hasFile)},
	}
}

func directoryRows() []Row {
	lister := o{name: "dir", access: win32.FILE_LIST_DIRECTORY | read, options: dir}
	return []Row{
		{Name: "list an empty directory", Source: listing, call: on(lister, func(n *node, h win32.Handle) error { return n.list(h, false, 4096) }, hasDir)},
		{Name: "list to the end", Source: listing, Want: win32.STATUS_NO_MORE_FILES,
			call: on(lister, func(n *node, h win32.Handle) error { n.listed(h); return n.list(h, false, 4096) }, hasDir)},
		{Name: "list again from the start", Source: listing,
			call: on(lister, func(n *node, h win32.Handle) error { n.listed(h); return n.list(h, true, 4096) }, hasDir)},
		{Name: "list again what was created after the end", Source: listing, Wine: "the new entry is not listed", call: on(lister, func(n *node, h win32.Handle) error {
			n.listed(h)
			n.file(`dir\new`)
			n.need(n.list(h, true, 72)) // begins again, with one entry
			if !slices.Contains(n.listed(h), "new") {
				return fmt.Errorf("the new entry is not listed")
			}
			return nil
		}, hasDir)},
		{Name: "list with . and ..", Source: listing, call: on(lister, func(n *node, h win32.Handle) error {
			if all := n.listed(h); !slices.Equal(all, []string{".", ".."}) {
				return fmt.Errorf("an empty directory has %q", all)
			}
			return nil
		}, hasDir)},
		{Name: "list a file", Source: listing, Want: win32.STATUS_INVALID_PARAMETER,
			call: on(o{name: "file", access: win32.FILE_LIST_DIRECTORY | read}, func(n *node, h win32.Handle) error { return n.list(h, false, 4096) }, hasFile)},
		{Name: "list without FILE_LIST_DIRECTORY", Source: listing, Want: win32.STATUS_ACCESS_DENIED,
			call: on(o{name: "dir", options: dir}, func(n *node, h win32.Handle) error { return n.list(h, false, 4096) }, hasDir)},
		{Name: "list into 67 bytes", Source: listBuffer, Want: win32.STATUS_INFO_LENGTH_MISMATCH,
			call: on(lister, func(n *node, h win32.Handle) error { return n.list(h, false, 67) }, hasDir)},
		{Name: "list a name that does not fit", Source: listing, Want: win32.STATUS_BUFFER_OVERFLOW, call: on(lister, func(n *node, h win32.Handle) error {
			n.file(`dir\` + strings.Repeat("n", 100))
			n.need(n.list(h, false, 72))
			n.need(n.list(h, false, 72)) // . and ..
			return n.list(h, false, 80)
		}, hasDir)},
	}
}

func linkRows() []Row {
	const invalid = win32.STATUS_IO_REPARSE_DATA_INVALID
	sets := func(b []byte) func(*node, win32.Handle) error {
		return func(n *node, h win32.Handle) error { return n.control(h, win32.FSCTL_SET_REPARSE_POINT, b, 0) }
	}
	drops := func(b []byte) func(*node, win32.Handle) error {
		return func(n *node, h win32.Handle) error { return n.control(h, win32.FSCTL_DELETE_REPARSE_POINT, b, 0) }
	}
	gets := func(room int) func(*node, win32.Handle) error {
		return func(n *node, h win32.Handle) error { return n.control(h, win32.FSCTL_GET_REPARSE_POINT, nil, room) }
	}
	aFile, aDir := o{name: "file", access: linker}, o{name: "dir", access: linker}
	aLink := o{name: "link", access: linker, options: link}
	junction := func(n *node) { n.close(n.link("link", dir, n.junction())) }
	const tag = win32.IO_REPARSE_TAG_MOUNT_POINT
	rows := []Row{
		{Name: "make a junction", Source: setLink, Wine: "ERROR_NOT_SUPPORTED", call: on(aDir, func(n *node, h win32.Handle) error { return sets(n.junction())(n, h) }, hasDir)},
		{Name: "make a symbolic link", Source: setLink, Wine: "ERROR_NOT_SUPPORTED", call: on(aFile, sets(symlink()), hasFile)},
		{Name: "make a link without a right to write", Source: setLink, Want: win32.STATUS_ACCESS_DENIED, Wine: "ERROR_NOT_SUPPORTED", call: on(o{name: "file"}, sets(symlink()), hasFile)},
		{Name: "make a link with FILE_WRITE_ATTRIBUTES alone", Source: setLink, Wine: "ERROR_NOT_SUPPORTED", call: on(o{name: "file", access: setter}, sets(symlink()), hasFile)},
		{Name: "make a link of 7 bytes", Source: setLink, Want: invalid, Wine: "ERROR_NOT_SUPPORTED", call: on(aFile, sets(symlink()[:7]), hasFile)},
		{Name: "make a link of more than 16 KiB", Source: setLink, Want: invalid, Wine: "ERROR_NOT_SUPPORTED", call: on(aFile, sets(header(tag, 16384, 16384+8)), hasFile)},
		{Name: "make a link whose length is not that of its data", Source: setLink, Want: invalid, Wine: "ERROR_NOT_SUPPORTED", call: on(aFile, sets(append(symlink(), 0, 0)), hasFile)},
		{Name: "make a junction of a file", Source: setLink, Want: win32.STATUS_NOT_A_DIRECTORY, Wine: "ERROR_NOT_SUPPORTED",
			call: on(aFile, func(n *node, h win32.Handle) error { return sets(n.junction())(n, h) }, hasFile)},
		{Name: "make a link of a directory that is not empty", Source: setLink, Want: win32.STATUS_DIRECTORY_NOT_EMPTY, Wine: "ERROR_NOT_SUPPORTED",
			call: on(aDir, func(n *node, h win32.Handle) error { return sets(n.junction())(n, h) }, hasDir, func(n *node) { n.file(`dir\file`) })},
		{Name: "make a link with an output buffer", Source: setReply, Want: win32.STATUS_INVALID_PARAMETER, Wine: "ERROR_NOT_SUPPORTED",
			call: on(aFile, func(n *node, h win32.Handle) error { return n.control(h, win32.FSCTL_SET_REPARSE_POINT, symlink(), 8) }, hasFile)},
		{Name: "change the target of a junction", Source: setLink, Wine: noLinks,
			call: on(aLink, func(n *node, h win32.Handle) error { return sets(n.junction())(n, h) }, junction)},
		{Name: "change a junction into a symbolic link", Source: setLink, Want: win32.STATUS_IO_REPARSE_TAG_MISMATCH, Wine: noLinks,
			call: on(aLink, sets(symlink()), junction)},

		{Name: "read a junction", Source: getLink, Wine: noLinks, call: on(aLink, gets(1024), junction)},
		{Name: "read a link of what is none", Source: getLink, Want: win32.STATUS_NOT_A_REPARSE_POINT, call: on(o{name: "file"}, gets(1024), hasFile)},
		{Name: "read a junction into 7 bytes", Source: getLink, Want: win32.STATUS_BUFFER_TOO_SMALL, Wine: noLinks, call: on(aLink, gets(7), junction)},
		{Name: "read a junction into 8 bytes", Source: getLink, Want: win32.STATUS_BUFFER_OVERFLOW, Wine: noLinks, call: on(aLink, gets(8), junction)},

		{Name: "make a junction a directory again", Source: deleteLink, Wine: noLinks, call: on(aLink, drops(header(tag, 0, 8)), junction)},
		{Name: "remove a link without a right to write", Source: deleteLink, Want: win32.STATUS_ACCESS_DENIED, Wine: noLinks,
			call: on(o{name: "link", options: link}, drops(header(tag, 0, 8)), junction)},
		{Name: "remove a link with another tag", Source: deleteLink, Want: win32.STATUS_IO_REPARSE_TAG_MISMATCH, Wine: noLinks,
			call: on(aLink, drops(header(win32.IO_REPARSE_TAG_SYMLINK, 0, 8)), junction)},
		{Name: "remove a link of what is none", Source: dropReply, Want: win32.STATUS_NOT_A_REPARSE_POINT, Wine: "ERROR_NOT_SUPPORTED", call: on(aFile, drops(header(tag, 0, 8)), hasFile)},
		{Name: "remove a link, with data", Source: dropReply, Want: invalid, Wine: noLinks, call: on(aLink, drops(header(tag, 4, 12)), junction)},
		{Name: "remove a link, with too long a buffer", Source: dropReply, Want: invalid, Wine: noLinks, call: on(aLink, drops(header(tag, 0, 24)), junction)},

		{Name: "open below a junction", Source: existing, Wine: noLinks, call: opened(o{name: `link\file`}, junction, hasFile)},
		{Name: "open a junction itself", Source: existing, Wine: noLinks, call: opened(o{name: "link", options: link}, junction)},
		{Name: "open below a junction, without reparsing", Source: noReparse, Want: win32.STATUS_REPARSE_POINT_ENCOUNTERED, Wine: noLinks,
			call: opened(o{name: `link\file`, attributes: win32.OBJ_DONT_REPARSE}, junction, hasFile)},
		{Name: "open a junction, without reparsing", Source: noReparse, Want: win32.STATUS_REPARSE_POINT_ENCOUNTERED, Wine: noLinks,
			call: opened(o{name: "link", attributes: win32.OBJ_DONT_REPARSE}, junction)},
		{Name: "open a junction itself, without reparsing", Source: noReparse, Wine: noLinks,
			call: opened(o{name: "link", attributes: win32.OBJ_DONT_REPARSE, options: link}, junction)},
		{Name: "open a file, without reparsing", Source: noReparse, call: opened(o{name: "file", attributes: win32.OBJ_DONT_REPARSE}, hasFile)},
		{Name: "create where a junction is", Source: existing, Want: win32.STATUS_OBJECT_NAME_COLLISION, Wine: noLinks,
			call: opened(o{name: "link", open: win32.FILE_CREATE, options: dir | link}, junction)},
		{Name: "delete a junction whose target is not empty", Source: deletion, Wine: noLinks,
			call: on(o{name: "link", access: remove, options: link}, setting(win32.FileDispositionInformation, []byte{1}), junction, hasFile)},
	}
	return rows
}
