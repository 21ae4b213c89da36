// Package filestatus is a table of what a file system of Windows returns: for each row
// a call of [win32.Files], and the status that [MS-FSA], [MS-FSCC] or another named
// source requires. The emulated side passes all of it, Wine what it can, and
// csi-proxy-verify asks a real Windows.
//
// Sections are those of [MS-FSA] and [MS-FSCC] as published since 2024, in which FSCTLs
// are 2.1.5.10, queries 2.1.5.12 and settings 2.1.5.15 of [MS-FSA]. Older versions have
// numbers that are one less.
package filestatus

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Row is a call with its status.
type Row struct {
	Name   string
	Source string // "[MS-FSA] 2.1.5.1.1", or a page of Microsoft
	// Want is what the source requires, 0 for success. DeviceIoControl returns the Win32
	// error number of it.
	Want win32.NTStatus
	// Differs says what another source has, if the specification and Windows disagree.
	Differs string
	// Wine is what Wine 10 returns instead, "" for the same. It begins with "setup: " if
	// the state that the row needs cannot be made there.
	Wine string

	call func(*node) error
}

// Got makes the call of r in dir, an existing empty directory such as `C:\x`, and
// returns what [Row.Expected] is compared with.
func (r Row) Got(api win32.API, dir string) string {
	n := &node{api: api, path: dir}
	err, setup := n.run(r.call)
	text := result(err)
	if setup {
		text = "setup: " + text
	}
	return text
}

// Expected is what Got returns for a call that returns r.Want.
func (r Row) Expected() string {
	switch {
	case r.Want == 0:
		return "success"
	case strings.Contains(r.Source, "2.1.5.10") || strings.Contains(r.Source, "[MS-FSCC] 2.3"):
		return r.Want.Errno().Name() // of DeviceIoControl
	}
	return r.Want.Name()
}

func result(err error) string {
	var s win32.NTStatus
	var e win32.Errno
	switch {
	case err == nil:
		return "success"
	case errors.As(err, &s):
		return s.Name()
	case errors.As(err, &e):
		return e.Name()
	}
	return err.Error()
}

// node is a directory in which one row makes its calls.
type node struct {
	api  win32.API
	path string
	root win32.Handle
	open []win32.Handle
}

// setupError ends a row whose state cannot be made.
type setupError struct{ err error }

func (n *node) run(call func(*node) error) (err error, setup bool) {
	defer func() {
		for _, h := range n.open {
			n.api.CloseHandle(h)
		}
		if p := recover(); p != nil {
			failed, ok := p.(setupError)
			if !ok {
				panic(p)
			}
			err, setup = failed.err, true
		}
	}()
	n.root = n.must(o{absolute: n.path, access: win32.FILE_LIST_DIRECTORY | read, options: dir})
	return call(n), false
}

func (n *node) need(err error) {
	if err != nil {
		panic(setupError{err})
	}
}

// o are the parameters of NtCreateFile. Those that are zero are: the name relative to the
// directory of the row, reading of attributes, all sharing, FILE_OPEN.
type o struct {
	root       win32.Handle
	name       string
	absolute   string
	access     uint32
	attributes uint32
	share      uint32
	open       uint32
	options    uint32
}

// Values for o that the zero value cannot say.
const (
	alone = 1 << 31 // no sharing

	read   = win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	remove = win32.DELETE | read
	setter = win32.FILE_WRITE_ATTRIBUTES | read
	linker = win32.FILE_ADD_FILE | setter

	dir  = win32.FILE_DIRECTORY_FILE
	file = win32.FILE_NON_DIRECTORY_FILE
	link = win32.FILE_OPEN_REPARSE_POINT

	// Of ntifs.h and winnt.h, which package win32 does not need.
	appendData = 4
	temporary  = 0x100
)

func (n *node) try(p o) (win32.Handle, error) {
	root, name := n.root, p.name
	if p.root != 0 {
		root = p.root
	}
	if p.absolute != "" {
		root, name = 0, `\??\`+p.absolute
	}
	if p.access == 0 {
		p.access = read
	}
	switch p.share {
	case 0:
		p.share = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	case alone:
		p.share = 0
	}
	if p.open == 0 {
		p.open = win32.FILE_OPEN
	}
	h, err := n.api.NtCreateFile(root, name, p.access, win32.OBJ_CASE_INSENSITIVE|p.attributes, p.share, p.open, win32.FILE_SYNCHRONOUS_IO_NONALERT|p.options)
	if err == nil {
		n.open = append(n.open, h)
	}
	return h, err
}

// create is the result of NtCreateFile.
func (n *node) create(p o) error {
	_, err := n.try(p)
	return err
}

func (n *node) must(p o) win32.Handle {
	h, err := n.try(p)
	n.need(err)
	return h
}

func (n *node) close(h win32.Handle) {
	for i, open := range n.open {
		if open == h {
			n.open = append(n.open[:i], n.open[i+1:]...)
			break
		}
	}
	n.need(n.api.CloseHandle(h))
}

// file and dir make entries.
func (n *node) file(names ...string) {
	for _, name := range names {
		n.close(n.must(o{name: name, open: win32.FILE_CREATE, options: file}))
	}
}

func (n *node) dir(names ...string) {
	for _, name := range names {
		n.close(n.must(o{name: name, open: win32.FILE_CREATE, options: dir}))
	}
}

// readOnly gives an entry the attribute.
func (n *node) readOnly(name string) {
	h := n.must(o{name: name, access: setter})
	n.need(n.api.SetInformation(h, win32.FileBasicInformation, basic(win32.FILE_ATTRIBUTE_READONLY, 0)))
	n.close(h)
}

// mark marks an open entry for deletion.
func (n *node) mark(h win32.Handle) {
	n.need(n.api.SetInformation(h, win32.FileDispositionInformation, []byte{1}))
}

// pending makes an entry that is marked for deletion and open.
func (n *node) pending(name string, kind uint32) win32.Handle {
	h := n.must(o{name: name, access: remove | win32.FILE_ADD_FILE, open: win32.FILE_CREATE, options: kind})
	n.mark(h)
	return h
}

func (n *node) set(h win32.Handle, class uint32, in []byte) error {
	return n.api.SetInformation(h, class, in)
}

func (n *node) query(h win32.Handle, class uint32, room int) error {
	_, err := n.api.QueryInformation(h, class, make([]byte, room))
	return err
}

func (n *node) list(h win32.Handle, restart bool, room int) error {
	_, err := n.api.QueryDirectory(h, restart, make([]byte, room))
	return err
}

// listed reads a directory to its end.
func (n *node) listed(h win32.Handle) (names []string) {
	for buf := make([]byte, 4096); ; {
		size, err := n.api.QueryDirectory(h, false, buf)
		if errors.Is(err, win32.STATUS_NO_MORE_FILES) {
			return names
		}
		n.need(err)
		entries, err := win32.DecodeDirectory(buf[:size])
		n.need(err)
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
}

// control is a control code, with the privilege to make symbolic links.
func (n *node) control(h win32.Handle, code uint32, in []byte, room int) error {
	return n.api.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(api win32.API) error {
		var out []byte
		if room > 0 {
			out = make([]byte, room)
		}
		_, err := api.DeviceIoControl(h, code, in, out)
		return err
	})
}

// link makes an entry and then a reparse point of it.
func (n *node) link(name string, kind uint32, b []byte) win32.Handle {
	h := n.must(o{name: name, access: linker | win32.DELETE, open: win32.FILE_CREATE, options: kind | link})
	n.need(n.control(h, win32.FSCTL_SET_REPARSE_POINT, b, 0))
	return h
}

// A junction to the directory of the row, and others.
func (n *node) junction() []byte {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\` + n.path, Print: n.path}.Encode()
}

func symlink() []byte {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: "target", Print: "target", Relative: true}.Encode()
}

// header is a buffer of size bytes that begins with a tag and a length of its data.
func header(tag uint32, data, size int) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint32(b, tag)
	binary.LittleEndian.PutUint16(b[4:], uint16(data))
	return b
}

// basic is a FILE_BASIC_INFORMATION.
func basic(attributes uint32, created int64) []byte {
	b := make([]byte, 40)
	binary.LittleEndian.PutUint64(b, uint64(created))
	binary.LittleEndian.PutUint32(b[32:], attributes)
	return b
}
