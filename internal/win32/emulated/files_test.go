package emulated

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	shareAll = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	synch    = win32.FILE_SYNCHRONOUS_IO_NONALERT
	folder   = synch | win32.FILE_DIRECTORY_FILE
	readable = win32.FILE_LIST_DIRECTORY | win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	writable = readable | win32.FILE_WRITE_ATTRIBUTES | fileWriteData
)

// fileNode is a node for testing files: it has C:, E:, a volume without a letter
// and an unformatted one.
type fileNode struct {
	*Node
	t                 *testing.T
	unlettered, blank string // volume names, `\\?\Volume{…}\`
	lettered          string // volume name of E:
}

func newFileNode(t *testing.T) *fileNode {
	t.Helper()
	node, err := Open(nodespec.Config{
		Disks: []nodespec.Disk{
			{Content: nodespec.ContentSystem},
			{Content: nodespec.ContentGPT, ID: "data", Size: 4 << 30, Partitions: []nodespec.Partition{
				{Size: 1 << 30, FileSystem: "NTFS", Letter: "E"},
				{Size: 1 << 30, FileSystem: "NTFS"},
				{Size: 1 << 30},
			}},
		},
		Directories: []string{`C:\dir\sub`, `C:\empty`},
		NoAutomount: true,
		Log:         slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, Machine{})
	if err != nil {
		t.Fatal(err)
	}
	n := &fileNode{Node: node, t: t}
	t.Cleanup(func() {
		if open := n.OpenHandles(); len(open) != 0 {
			t.Errorf("handles left open: %q", open)
		}
		for fsid, tree := range n.trees {
			if err := tree.Verify(); err != nil {
				t.Errorf("file system %s: %v", fsid, err)
			}
			if tree.Opens() != 0 {
				t.Errorf("file system %s: %d opens are left", fsid, tree.Opens())
			}
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, v := range n.volumes {
		switch {
		case len(v.extents) != 1 || v.Disk != "data":
		case v.partition.Offset < 1<<30:
			n.lettered = v.name()
		case v.partition.Offset < 2<<30:
			n.unlettered = v.name()
		default:
			n.blank = v.name()
		}
	}
	if n.lettered == "" || n.unlettered == "" || n.blank == "" {
		t.Fatalf("volumes: E: %q, without letter %q, unformatted %q", n.lettered, n.unlettered, n.blank)
	}
	return n
}

// nt returns the NT name of a Win32 path. "U:" stands for the volume without a
// letter, "B:" for the unformatted one.
func (n *fileNode) nt(path string) string {
	for letter, vol := range map[string]string{`U:\`: n.unlettered, `B:\`: n.blank} {
		if rest, ok := strings.CutPrefix(path, letter); ok {
			path = vol[4:] + rest
		}
	}
	return `\??\` + path
}

func (n *fileNode) create(root win32.Handle, name string, access, share, disposition, options uint32) (win32.Handle, error) {
	return n.NtCreateFile(root, name, access, win32.OBJ_CASE_INSENSITIVE, share, disposition, options)
}

// must opens or creates an entry, and fails the test if it cannot.
func (n *fileNode) must(path string, access, disposition, options uint32) win32.Handle {
	n.t.Helper()
	h, err := n.create(0, n.nt(path), access, shareAll, disposition, options)
	if err != nil {
		n.t.Fatalf("open %q: %v", path, err)
	}
	return h
}

func (n *fileNode) shut(hs ...win32.Handle) {
	n.t.Helper()
	for _, h := range hs {
		if err := n.CloseHandle(h); err != nil {
			n.t.Errorf("close: %v", err)
		}
	}
}

// mkdir and touch create entries. link makes a new directory a reparse point, or
// a new file if the path begins with "file:".
func (n *fileNode) mkdir(paths ...string) {
	n.t.Helper()
	for _, p := range paths {
		n.shut(n.must(p, readable, win32.FILE_CREATE, folder))
	}
}

func (n *fileNode) touch(paths ...string) {
	n.t.Helper()
	for _, p := range paths {
		n.shut(n.must(p, readable, win32.FILE_CREATE, synch|win32.FILE_NON_DIRECTORY_FILE))
	}
}

func (n *fileNode) link(path string, r win32.Reparse) {
	n.t.Helper()
	options := uint32(folder)
	if file, ok := strings.CutPrefix(path, "file:"); ok {
		path, options = file, synch|win32.FILE_NON_DIRECTORY_FILE
	}
	h := n.must(path, writable, win32.FILE_CREATE, options)
	defer n.shut(h)
	if _, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, r.Encode(), nil); err != nil {
		n.t.Fatalf("link %q: %v", path, err)
	}
}

func (n *fileNode) junction(target string) win32.Reparse {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: n.nt(target), Print: target}
}

func relative(target string) win32.Reparse {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: target, Print: target, Relative: true}
}

func absolute(target string) win32.Reparse {
	return win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: `\??\` + target, Print: target}
}

// final returns the final path of h.
func (n *fileNode) final(h win32.Handle) string {
	n.t.Helper()
	path, err := n.FinalPath(h, win32.VOLUME_NAME_GUID)
	if err != nil {
		n.t.Fatal(err)
	}
	for letter, vol := range map[string]string{`U:\`: n.unlettered, `E:\`: n.lettered} {
		if rest, ok := strings.CutPrefix(path, vol); ok {
			return letter + rest
		}
	}
	if dos, err := n.FinalPath(h, win32.VOLUME_NAME_DOS); err == nil {
		return strings.TrimPrefix(dos, `\\?\`)
	}
	return path
}

func wantStatus(t *testing.T, what string, err error, status win32.NTStatus) {
	t.Helper()
	if status == 0 {
		if err != nil {
			t.Errorf("%s: %v (%s), want success", what, err, name(err))
		}
		return
	}
	var have win32.NTStatus
	if !errors.As(err, &have) || have != status {
		t.Errorf("%s: %v (%s), want %s", what, err, name(err), status.Name())
	}
}

func wantErrno(t *testing.T, what string, err error, errno win32.Errno) {
	t.Helper()
	if errno == 0 {
		if err != nil {
			t.Errorf("%s: %v (%s), want success", what, err, name(err))
		}
		return
	}
	var have win32.Errno
	if !errors.As(err, &have) || have != errno {
		t.Errorf("%s: %v (%s), want %s", what, err, name(err), errno.Name())
	}
}

func name(err error) string {
	if n, ok := err.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", err)
}

// populate creates the entries that most tests need.
func (n *fileNode) populate() {
	n.t.Helper()
	n.touch(`C:\dir\file`, `U:\there`, `E:\there`)
	n.mkdir(`U:\deep`, `U:\deep\er`)
	n.link(`C:\mount`, n.junction(`U:\`))
	n.link(`C:\junction`, n.junction(`C:\dir`))
	n.link(`C:\symlink`, absolute(`C:\dir\sub`))
	n.link(`file:C:\filelink`, absolute(`C:\dir\file`))
	n.link(`C:\dir\up`, relative(`..\empty`))
	n.link(`C:\dir\rooted`, relative(`\dir\sub`))
	n.link(`C:\nowhere`, absolute(`C:\missing\x`))
	n.link(`C:\circle`, n.junction(`C:\circle`))
	n.link(`C:\toraw`, n.junction(`B:\`))
	n.link(`C:\toshare`, absolute(`UNC\server\share\`))
	n.link(`C:\high`, relative(`..\..\..\dir`))
}

func TestNtCreateFileNames(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	long := strings.Repeat("x", 255)
	n.mkdir(`C:\` + long)
	for _, c := range []struct {
		name   string
		status win32.NTStatus
		at     string // its path, if other than name
	}{
		{name: `C:\`},
		{name: `c:\DIR\Sub`, at: `C:\dir\sub`},
		{name: `C:\dir\`, at: `C:\dir`},
		{name: `C:\\dir`, at: `C:\dir`},
		{name: `C:\dir\file`},
		{name: `U:\deep\er`},
		{name: `C:\` + long},

		// Links are followed in the path and at its end.
		{name: `C:\mount`, at: `U:\`},
		{name: `C:\mount\`, at: `U:\`},
		{name: `C:\mount\deep\er`, at: `U:\deep\er`},
		{name: `C:\junction`, at: `C:\dir`},
		{name: `C:\junction\file`, at: `C:\dir\file`},
		{name: `C:\symlink`, at: `C:\dir\sub`},
		{name: `C:\filelink`, at: `C:\dir\file`},
		{name: `C:\dir\up`, at: `C:\empty`},
		{name: `C:\junction\up`, at: `C:\empty`},
		{name: `C:\dir\rooted`, at: `C:\dir\sub`},

		{name: `C:\missing`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},
		{name: `C:\dir\missing\`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},
		{name: `C:\missing\x`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: `C:\dir\file\x`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: `C:\dir\file\`, status: win32.STATUS_NOT_A_DIRECTORY},
		{name: `C:\filelink\x`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: `C:\nowhere`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: `C:\mount\missing`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},
		{name: `C:\circle`, status: win32.STATUS_REPARSE_POINT_NOT_RESOLVED},
		{name: `C:\circle\x`, status: win32.STATUS_REPARSE_POINT_NOT_RESOLVED},
		{name: `C:\high`, status: win32.STATUS_IO_REPARSE_DATA_INVALID},
		{name: `C:\toshare`, status: win32.STATUS_BAD_NETWORK_PATH},
		{name: `C:\toraw`, status: win32.STATUS_UNRECOGNIZED_VOLUME},
		{name: `B:\`, status: win32.STATUS_UNRECOGNIZED_VOLUME},
		{name: `B:\x`, status: win32.STATUS_UNRECOGNIZED_VOLUME},
		{name: `UNC\server\share\x`, status: win32.STATUS_BAD_NETWORK_PATH},

		{name: `C:\dir\..`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\dir\.\sub`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\dir/sub`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\dir\\sub`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\\\dir`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\dir\file:stream`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\di*`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: "C:\\dir\x00", status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\` + long + "x", status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\` + strings.Repeat(`x\`, 20000), status: win32.STATUS_NAME_TOO_LONG},
		{name: `C:\dir.`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND}, // NT names are not normalised
		{name: `C:\dir `, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},

		{name: `Z:\`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: `Z:\x`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: `Z:`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},
		{name: `C:`, status: win32.STATUS_NOT_SUPPORTED}, // the device
		{name: `Volume{00000000-0000-0000-0000-000000000000}\`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{name: ``, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},
	} {
		what := fmt.Sprintf("open %.60q", c.name)
		h, err := n.create(0, n.nt(c.name), readable, shareAll, win32.FILE_OPEN, synch)
		wantStatus(t, what, err, c.status)
		if err != nil {
			continue
		}
		if c.at == "" {
			c.at = c.name
		}
		if got := n.final(h); got != c.at {
			t.Errorf("%s is %q, want %q", what, got, c.at)
		}
		n.shut(h)
	}
	for name, status := range map[string]win32.NTStatus{
		``:                                  win32.STATUS_OBJECT_PATH_SYNTAX_BAD,
		`C:\dir`:                            win32.STATUS_OBJECT_PATH_SYNTAX_BAD,
		`\Device`:                           win32.STATUS_OBJECT_NAME_NOT_FOUND,
		`\Device\HarddiskVolume99`:          win32.STATUS_OBJECT_NAME_NOT_FOUND,
		`\Device\HarddiskVolume99\x`:        win32.STATUS_OBJECT_PATH_NOT_FOUND,
		`\??\PhysicalDrive0\x`:              win32.STATUS_OBJECT_PATH_NOT_FOUND,
		`\??\GLOBALROOT\Device\Nothing\x\y`: win32.STATUS_OBJECT_PATH_NOT_FOUND,
	} {
		_, err := n.create(0, name, readable, shareAll, win32.FILE_OPEN, synch)
		wantStatus(t, fmt.Sprintf("open %q", name), err, status)
	}
}

// A name may pass 63 links, but not 64.
func TestLinkLimit(t *testing.T) {
	n := newFileNode(t)
	n.mkdir(`C:\l0`)
	for i := range 64 {
		n.link(fmt.Sprintf(`C:\l%d`, i+1), n.junction(fmt.Sprintf(`C:\l%d`, i)))
	}
	h := n.must(`C:\l63`, readable, win32.FILE_OPEN, synch)
	if got := n.final(h); got != `C:\l0` {
		t.Errorf("63 links lead to %q", got)
	}
	n.shut(h)
	_, err := n.create(0, n.nt(`C:\l64`), readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "64 links", err, win32.STATUS_REPARSE_POINT_NOT_RESOLVED)
}

func TestUnknownReparseTag(t *testing.T) {
	n := newFileNode(t)
	h := n.must(`C:\cloud`, writable, win32.FILE_CREATE, folder)
	_, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, []byte{0x1a, 0x00, 0x00, 0x90, 2, 0, 0, 0, 7, 7}, nil)
	wantErrno(t, "set", err, 0)
	n.shut(h)
	_, err = n.create(0, n.nt(`C:\cloud\x`), readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "pass through it", err, win32.STATUS_IO_REPARSE_TAG_NOT_HANDLED)
	n.shut(n.must(`C:\cloud`, readable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT))

	// A third party's buffer has a GUID in its header.
	h = n.must(`C:\other`, writable, win32.FILE_CREATE, folder)
	defer n.shut(h)
	_, err = n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, append([]byte{0x42, 0, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 15)...), nil)
	wantErrno(t, "set a third party's", err, 0)
	_, err = n.DeviceIoControl(h, win32.FSCTL_GET_REPARSE_POINT, nil, make([]byte, 23))
	wantErrno(t, "get it into less than its header", err, win32.ERROR_INSUFFICIENT_BUFFER)
}

func TestRelativeNames(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	dir := n.must(`C:\dir`, readable, win32.FILE_OPEN, folder)
	file := n.must(`C:\dir\file`, readable, win32.FILE_OPEN, synch)
	link := n.must(`C:\junction`, writable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	disk, err := n.CreateFile(`\\.\PhysicalDrive0`, 0, shareAll, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.shut(dir, file, link, disk)
	device, err := n.FinalPath(dir, win32.VOLUME_NAME_NT)
	if err != nil {
		t.Fatal(err)
	}
	device = strings.TrimSuffix(device, `\dir`)
	for _, c := range []struct {
		root    win32.Handle
		name    string
		objAttr uint32
		options uint32
		create  bool
		status  win32.NTStatus
		at      string
	}{
		{root: dir, name: "", at: `C:\dir`},
		{root: dir, name: "", objAttr: win32.OBJ_DONT_REPARSE, at: `C:\dir`},
		{root: dir, name: `SUB`, at: `C:\dir\sub`},
		{root: dir, name: `sub\`, at: `C:\dir\sub`},
		{root: dir, name: `up`, at: `C:\empty`},
		{root: file, name: "", at: `C:\dir\file`},
		{root: link, name: "", options: win32.FILE_OPEN_REPARSE_POINT, at: `C:\junction`},
		{root: link, name: "", at: `C:\dir`},

		{root: dir, name: `missing`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND},
		{root: dir, name: `missing\x`, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{root: dir, name: `\sub`, status: win32.STATUS_INVALID_PARAMETER},
		{root: dir, name: `C:\dir`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{root: dir, name: `\??\C:\dir`, status: win32.STATUS_INVALID_PARAMETER},
		{root: dir, name: `..`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{root: dir, name: `sub\..`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{root: file, name: `x`, status: win32.STATUS_INVALID_PARAMETER},
		{root: link, name: "", objAttr: win32.OBJ_DONT_REPARSE, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{root: link, name: "file", status: win32.STATUS_OBJECT_NAME_NOT_FOUND}, // a link has no entries of its own
		{root: link, name: "x", create: true, status: win32.STATUS_DIRECTORY_IS_A_REPARSE_POINT},
		{root: disk, name: "x", status: win32.STATUS_INVALID_PARAMETER},
		{root: 0x1234, name: "x", status: win32.STATUS_INVALID_HANDLE},

		// With OBJ_DONT_REPARSE no link is followed, neither in the path nor at
		// its end.
		{root: dir, name: `sub`, objAttr: win32.OBJ_DONT_REPARSE, at: `C:\dir\sub`},
		{root: dir, name: `up`, objAttr: win32.OBJ_DONT_REPARSE, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{root: dir, name: `up\x`, objAttr: win32.OBJ_DONT_REPARSE, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{root: dir, name: `up\x`, objAttr: win32.OBJ_DONT_REPARSE, options: win32.FILE_OPEN_REPARSE_POINT, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{root: dir, name: `up`, objAttr: win32.OBJ_DONT_REPARSE, options: win32.FILE_OPEN_REPARSE_POINT, at: `C:\dir\up`},
		{root: dir, name: `up`, create: true, objAttr: win32.OBJ_DONT_REPARSE, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{root: dir, name: `up`, create: true, objAttr: win32.OBJ_DONT_REPARSE, options: win32.FILE_OPEN_REPARSE_POINT, status: win32.STATUS_OBJECT_NAME_COLLISION},
		// This includes the object manager's own links.
		{name: `\??\C:\dir`, objAttr: win32.OBJ_DONT_REPARSE, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{name: device + `\dir`, objAttr: win32.OBJ_DONT_REPARSE, at: `C:\dir`},
	} {
		disposition := uint32(win32.FILE_OPEN)
		if c.create {
			disposition = win32.FILE_CREATE
		}
		what := fmt.Sprintf("open %q below %#x with attributes %#x, options %#x", c.name, c.root, c.objAttr, c.options)
		h, err := n.NtCreateFile(c.root, c.name, readable, c.objAttr, shareAll, disposition, synch|c.options)
		wantStatus(t, what, err, c.status)
		if err != nil {
			continue
		}
		if got := n.final(h); got != c.at {
			t.Errorf("%s is %q, want %q", what, got, c.at)
		}
		n.shut(h)
	}
}

func TestNtCreateFileParameters(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.shut(n.must(`C:\readonly`, readable, win32.FILE_CREATE, synch))
	h := n.must(`C:\readonly`, win32.FILE_WRITE_ATTRIBUTES|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	wantStatus(t, "make read-only", n.SetInformation(h, win32.FileBasicInformation, basic(win32.FILE_ATTRIBUTE_READONLY)), 0)
	n.shut(h)
	const rs = readable
	for _, c := range []struct {
		what        string
		path        string
		access      uint32
		objAttr     uint32
		share       uint32
		disposition uint32
		options     uint32
		status      win32.NTStatus
	}{
		{what: "open", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch},
		{what: "open if there", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN_IF, options: synch},
		{what: "create if not there", path: `C:\new`, access: rs, disposition: win32.FILE_OPEN_IF, options: folder},
		{what: "create", path: `C:\dir`, access: rs, disposition: win32.FILE_CREATE, options: folder, status: win32.STATUS_OBJECT_NAME_COLLISION},
		{what: "create in nothing", path: `C:\none\x`, access: rs, disposition: win32.FILE_CREATE, options: folder, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{what: "create over a dangling link", path: `C:\nowhere`, access: rs, disposition: win32.FILE_CREATE, options: folder, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{what: "create over the link itself", path: `C:\nowhere`, access: rs, disposition: win32.FILE_CREATE, options: folder | win32.FILE_OPEN_REPARSE_POINT, status: win32.STATUS_OBJECT_NAME_COLLISION},
		{what: "create through a link", path: `C:\mount\made`, access: rs, disposition: win32.FILE_CREATE, options: folder},
		{what: "a directory as a file", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch | win32.FILE_NON_DIRECTORY_FILE, status: win32.STATUS_FILE_IS_A_DIRECTORY},
		{what: "a file as a directory", path: `C:\dir\file`, access: rs, disposition: win32.FILE_OPEN, options: folder, status: win32.STATUS_NOT_A_DIRECTORY},
		{what: "a directory's name for a file", path: `C:\dir\`, access: rs, disposition: win32.FILE_OPEN, options: synch | win32.FILE_NON_DIRECTORY_FILE, status: win32.STATUS_OBJECT_NAME_INVALID},

		{what: "unknown attributes", path: `C:\dir`, access: rs, objAttr: 0x2000, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_INVALID_PARAMETER},
		{what: "unknown share mode", path: `C:\dir`, access: rs, share: 8, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_INVALID_PARAMETER},
		{what: "unknown disposition", path: `C:\dir`, access: rs, disposition: 6, options: synch, status: win32.STATUS_INVALID_PARAMETER},
		{what: "unknown options", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch | 1<<24, status: win32.STATUS_INVALID_PARAMETER},
		{what: "options not emulated", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch | 0x2000, status: win32.STATUS_NOT_SUPPORTED},
		{what: "dispositions not emulated", path: `C:\dir\file`, access: rs, disposition: 5, options: synch, status: win32.STATUS_NOT_SUPPORTED},
		{what: "overwrite a directory", path: `C:\dir`, access: rs, disposition: 5, options: folder, status: win32.STATUS_INVALID_PARAMETER},
		{what: "synchronous without SYNCHRONIZE", path: `C:\dir`, access: win32.FILE_LIST_DIRECTORY, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_INVALID_PARAMETER},
		{what: "GENERIC_READ is no SYNCHRONIZE", path: `C:\dir`, access: win32.GENERIC_READ, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_INVALID_PARAMETER},
		{what: "both kinds of synchronous", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch | fileSynchronousIOAlert, status: win32.STATUS_INVALID_PARAMETER},
		{what: "delete on close without DELETE", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch | win32.FILE_DELETE_ON_CLOSE, status: win32.STATUS_INVALID_PARAMETER},
		{what: "directory and not", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: folder | win32.FILE_NON_DIRECTORY_FILE, status: win32.STATUS_INVALID_PARAMETER},
		{what: "a directory read sequentially", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: folder | fileSequentialOnly, status: win32.STATUS_INVALID_PARAMETER},
		{what: "no access", path: `C:\dir`, disposition: win32.FILE_OPEN, status: win32.STATUS_ACCESS_DENIED},
		{what: "reserved access", path: `C:\dir`, access: rs | 0x200, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_ACCESS_DENIED},
		{what: "write to a read-only file", path: `C:\readonly`, access: rs | win32.GENERIC_WRITE, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_ACCESS_DENIED},
		{what: "all that is allowed of it", path: `C:\readonly`, access: rs | maximumAllowed, disposition: win32.FILE_OPEN, options: synch},
		{what: "delete it on close", path: `C:\readonly`, access: rs | win32.DELETE, disposition: win32.FILE_OPEN, options: synch | win32.FILE_DELETE_ON_CLOSE, status: win32.STATUS_CANNOT_DELETE},
	} {
		h, err := n.NtCreateFile(0, n.nt(c.path), c.access, win32.OBJ_CASE_INSENSITIVE|c.objAttr, shareAll|c.share, c.disposition, c.options)
		wantStatus(t, c.what, err, c.status)
		if err == nil {
			n.shut(h)
		}
	}
	if _, err := n.Attributes(n.unlettered + "made"); err != nil {
		t.Errorf("a file created through a link is not in its target: %v", err)
	}
}

func basic(attributes uint32) []byte {
	b := make([]byte, sizeofBasic)
	le.PutUint32(b[basicAttributes:], attributes)
	return b
}

func TestSharing(t *testing.T) {
	n := newFileNode(t)
	held, err := n.create(0, `\??\C:\dir`, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.FILE_OPEN, folder)
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.create(0, `\??\C:\dir`, win32.DELETE|win32.SYNCHRONIZE, shareAll, win32.FILE_OPEN, folder)
	wantStatus(t, "delete what is held without FILE_SHARE_DELETE", err, win32.STATUS_SHARING_VIOLATION)
	n.shut(n.must(`C:\dir`, win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE, win32.FILE_OPEN, folder))
	n.shut(n.must(`C:\dir\new`, readable, win32.FILE_CREATE, folder)) // share modes do not apply to entries in it
	n.shut(held)
	n.shut(n.must(`C:\dir`, win32.DELETE|win32.SYNCHRONIZE, win32.FILE_OPEN, folder))
}

// list reads all names, with a buffer of size bytes.
func (n *fileNode) list(h win32.Handle, size int) ([]win32.DirEntry, error) {
	var all []win32.DirEntry
	buf := make([]byte, size)
	for first := true; ; first = false {
		for i := range buf {
			buf[i] = 0xcc
		}
		used, err := n.QueryDirectory(h, first, buf)
		if err != nil {
			return all, err
		}
		es, err := win32.DecodeDirectory(buf[:used])
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, es...)
	}
}

func names(es []win32.DirEntry) []string {
	var s []string
	for _, e := range es {
		s = append(s, e.Name)
	}
	return s
}

func TestQueryDirectory(t *testing.T) {
	n := newFileNode(t)
	n.mkdir(`C:\list`, `C:\list\B`)
	n.touch(`C:\list\a`, `C:\list\c`, `C:\list\a long name, longer than the others`)
	n.link(`C:\list\link`, n.junction(`C:\dir`))
	n.resize(`C:\list\c`, 5000)
	h := n.must(`C:\list`, readable, win32.FILE_OPEN, folder)
	defer n.shut(h)
	want := []string{".", "..", "a", "a long name, longer than the others", "B", "c", "link"}
	// The listing is the same for any buffer that is large enough for the longest
	// entry.
	for _, size := range []int{144, 145, 150, 200, 300, 500, 4096} {
		es, err := n.list(h, size)
		wantStatus(t, "at the end", err, win32.STATUS_NO_MORE_FILES)
		if got := names(es); !slices.Equal(got, want) {
			t.Errorf("%d bytes at a time: %q, want %q", size, got, want)
		}
		for _, e := range es {
			attr, tag, length := uint32(win32.FILE_ATTRIBUTE_DIRECTORY), uint32(0), int64(0)
			switch e.Name {
			case "..":
				attr |= win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM // the root's
			case "a", "a long name, longer than the others":
				attr = win32.FILE_ATTRIBUTE_ARCHIVE
			case "c":
				attr, length = win32.FILE_ATTRIBUTE_ARCHIVE, 5000
			case "link":
				attr, tag = attr|win32.FILE_ATTRIBUTE_REPARSE_POINT, win32.IO_REPARSE_TAG_MOUNT_POINT
			}
			if e.Attributes != attr || e.ReparseTag != tag || e.Size != length {
				t.Errorf("%q: attributes %#x, tag %#x, size %d; want %#x, %#x, %d", e.Name, e.Attributes, e.ReparseTag, e.Size, attr, tag, length)
			}
		}
	}
	// Nothing is left before a restart; everything is listed after it.
	_, err := n.QueryDirectory(h, false, make([]byte, 4096))
	wantStatus(t, "after the end", err, win32.STATUS_NO_MORE_FILES)
	if _, err := n.QueryDirectory(h, true, make([]byte, 4096)); err != nil {
		t.Errorf("restart: %v", err)
	}
}

func (n *fileNode) resize(path string, size int64) {
	n.t.Helper()
	h := n.must(path, fileWriteData|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	defer n.shut(h)
	if err := n.SetInformation(h, win32.FileEndOfFileInformation, le.AppendUint64(nil, uint64(size))); err != nil {
		n.t.Fatal(err)
	}
}

func TestQueryDirectoryRefusals(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`, `C:\dir\sub\`+strings.Repeat("x", 100))
	buf := make([]byte, 4096)

	h := n.must(`C:\file`, readable, win32.FILE_OPEN, synch)
	_, err := n.QueryDirectory(h, true, buf)
	wantStatus(t, "a file", err, win32.STATUS_INVALID_PARAMETER)
	n.shut(h)

	h = n.must(`C:\dir`, win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	_, err = n.QueryDirectory(h, true, buf)
	wantStatus(t, "without FILE_LIST_DIRECTORY", err, win32.STATUS_ACCESS_DENIED)
	n.shut(h)

	h = n.must(`C:\dir\sub`, readable, win32.FILE_OPEN, synch)
	_, err = n.QueryDirectory(h, true, buf[:71])
	wantStatus(t, "a buffer too small for anything", err, win32.STATUS_INFO_LENGTH_MISMATCH)
	if _, err := n.QueryDirectory(h, true, buf[:72+70+6]); err != nil { // "." and ".."
		t.Fatal(err)
	}
	used, err := n.QueryDirectory(h, false, buf[:100])
	wantStatus(t, "a buffer too small for the name", err, win32.STATUS_BUFFER_OVERFLOW)
	if used != 100 || le.Uint32(buf[60:]) != 200 {
		t.Errorf("%d bytes are filled and the name length is %d, want 100 and 200", used, le.Uint32(buf[60:]))
	}
	used, err = n.QueryDirectory(h, false, buf)
	wantStatus(t, "the same with a larger buffer", err, 0)
	if es, err := win32.DecodeDirectory(buf[:used]); err != nil || len(es) != 1 || len(es[0].Name) != 100 {
		t.Errorf("the listing is %v, %v", names(es), err)
	}
	n.shut(h)

	// The empty root of a volume does not even have "." and "..".
	h = n.must(`E:\`, readable, win32.FILE_OPEN, synch)
	_, err = n.QueryDirectory(h, false, buf)
	wantStatus(t, "an empty root", err, win32.STATUS_NO_SUCH_FILE)
	_, err = n.QueryDirectory(h, false, buf)
	wantStatus(t, "an empty root again", err, win32.STATUS_NO_MORE_FILES)
	n.shut(h)

	_, err = n.QueryDirectory(h, true, buf)
	wantStatus(t, "a closed handle", err, win32.STATUS_INVALID_HANDLE)
	disk, err := n.CreateFile(`\\.\PhysicalDrive0`, 0, shareAll, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.QueryDirectory(disk, true, buf)
	wantStatus(t, "a disk", err, win32.STATUS_INVALID_DEVICE_REQUEST)
	n.shut(disk)
}

// Entries are removed while the directory is read, as in deleting a directory.
func TestQueryDirectoryWhileDeleting(t *testing.T) {
	n := newFileNode(t)
	var want []string
	n.mkdir(`C:\many`)
	for i := range 100 {
		name := fmt.Sprintf("entry %03d", i)
		n.touch(`C:\many\` + name)
		want = append(want, name)
	}
	dir := n.must(`C:\many`, readable|win32.DELETE, win32.FILE_OPEN, folder)
	var got []string
	buf := make([]byte, 500)
	for {
		used, err := n.QueryDirectory(dir, false, buf)
		if err != nil {
			wantStatus(t, "at the end", err, win32.STATUS_NO_MORE_FILES)
			break
		}
		es, err := win32.DecodeDirectory(buf[:used])
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			if e.Name == "." || e.Name == ".." {
				continue
			}
			got = append(got, e.Name)
			h, err := n.create(dir, e.Name, win32.DELETE|win32.SYNCHRONIZE, shareAll, win32.FILE_OPEN, synch)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, "delete", n.SetInformation(h, win32.FileDispositionInformationEx, win32.EncodeDisposition(win32.FILE_DISPOSITION_DELETE)), 0)
			n.shut(h)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %d names, want %d", len(got), len(want))
	}
	wantStatus(t, "delete the empty directory", n.SetInformation(dir, win32.FileDispositionInformation, []byte{1}), 0)
	n.shut(dir)
	_, err := n.Attributes(`C:\many`)
	wantErrno(t, "look for it", err, win32.ERROR_FILE_NOT_FOUND)
}

func TestQueryInformation(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.resize(`C:\dir\file`, 77)
	file := n.must(`C:\dir\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	link := n.must(`C:\mount`, readable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	blind := n.must(`C:\dir`, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	defer n.shut(file, link, blind)
	buf := make([]byte, 64)
	query := func(h win32.Handle, class uint32) []byte {
		t.Helper()
		used, err := n.QueryInformation(h, class, buf)
		if err != nil {
			t.Fatalf("class %d: %v", class, err)
		}
		return buf[:used]
	}
	if tag, err := win32.DecodeAttributeTag(query(link, win32.FileAttributeTagInformation)); err != nil ||
		tag != (win32.AttributeTag{Attributes: win32.FILE_ATTRIBUTE_DIRECTORY | win32.FILE_ATTRIBUTE_REPARSE_POINT, ReparseTag: win32.IO_REPARSE_TAG_MOUNT_POINT}) {
		t.Errorf("link: %+v, %v", tag, err)
	}
	if got := le.Uint32(query(file, win32.FileBasicInformation)[32:]); got != win32.FILE_ATTRIBUTE_ARCHIVE {
		t.Errorf("file: attributes %#x", got)
	}
	standard := func(what string, want win32.FileStandard) {
		t.Helper()
		if got := query(file, win32.FileStandardInformation); !bytes.Equal(got, want.Encode()) {
			t.Errorf("%s: % x, want % x", what, got, want.Encode())
		}
	}
	standard("file", win32.FileStandard{EndOfFile: 77, Links: 1})
	wantStatus(t, "mark for deletion", n.SetInformation(file, win32.FileDispositionInformation, []byte{1}), 0)
	standard("file marked for deletion", win32.FileStandard{EndOfFile: 77, DeletePending: true})
	wantStatus(t, "unmark", n.SetInformation(file, win32.FileDispositionInformation, []byte{0}), 0)
	again := n.must(`C:\DIR\FILE`, readable, win32.FILE_OPEN, synch)
	if a, b := string(query(file, win32.FileInternalInformation)), string(query(again, win32.FileInternalInformation)); a != b || len(a) != 8 {
		t.Errorf("the same file has the numbers %x and %x", a, b)
	}
	n.shut(again)

	_, err := n.QueryInformation(file, 9999, buf)
	wantStatus(t, "unknown class", err, win32.STATUS_INVALID_INFO_CLASS)
	for class, size := range map[uint32]int{win32.FileBasicInformation: 40, win32.FileStandardInformation: 24, win32.FileInternalInformation: 8, win32.FileAttributeTagInformation: 8} {
		_, err := n.QueryInformation(file, class, buf[:size-1])
		wantStatus(t, fmt.Sprintf("class %d, one byte too few", class), err, win32.STATUS_INFO_LENGTH_MISMATCH)
	}
	for _, class := range []uint32{win32.FileBasicInformation, win32.FileAttributeTagInformation} {
		_, err := n.QueryInformation(blind, class, buf)
		wantStatus(t, fmt.Sprintf("class %d without FILE_READ_ATTRIBUTES", class), err, win32.STATUS_ACCESS_DENIED)
	}
	_, err = n.QueryInformation(0, win32.FileBasicInformation, buf)
	wantStatus(t, "no handle", err, win32.STATUS_INVALID_HANDLE)
}

func renameTo(root win32.Handle, name string, replace bool) []byte {
	b := make([]byte, renameName)
	if replace {
		b[0] = 1
	}
	le.PutUint64(b[renameRoot:], uint64(root))
	for _, r := range name { // letters of one unit each
		b = le.AppendUint16(b, uint16(r))
	}
	le.PutUint32(b[renameNameLength:], uint32(len(b)-renameName))
	for len(b) < sizeofRename {
		b = append(b, 0)
	}
	return b
}

func TestSetInformation(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.touch(`C:\taken`)
	all := n.must(`C:\dir\file`, readable|win32.DELETE|fileWriteData|win32.FILE_WRITE_ATTRIBUTES, win32.FILE_OPEN, synch)
	none := n.must(`C:\dir\file`, readable, win32.FILE_OPEN, synch)
	dir := n.must(`C:\dir`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	root := n.must(`E:\`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	sub := n.must(`C:\dir\sub`, readable, win32.FILE_OPEN, synch)
	strict, err := n.create(0, n.nt(`C:\empty`), readable, win32.FILE_SHARE_READ, win32.FILE_OPEN, synch)
	if err != nil {
		t.Fatal(err)
	}
	defer n.shut(all, none, dir, root, sub, strict)
	del := win32.EncodeDisposition(win32.FILE_DISPOSITION_DELETE)
	for _, c := range []struct {
		what   string
		h      win32.Handle
		class  uint32
		in     []byte
		status win32.NTStatus
	}{
		{what: "unknown class", h: all, class: 9999, in: del, status: win32.STATUS_INVALID_INFO_CLASS},
		{what: "no handle", class: win32.FileBasicInformation, in: basic(0), status: win32.STATUS_INVALID_HANDLE},
		{what: "basic, short", h: all, class: win32.FileBasicInformation, in: basic(0)[:39], status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "size, short", h: all, class: win32.FileEndOfFileInformation, in: make([]byte, 7), status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "disposition, short", h: all, class: win32.FileDispositionInformation, status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "disposition with flags, short", h: all, class: win32.FileDispositionInformationEx, in: del[:3], status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "rename, short", h: all, class: win32.FileRenameInformation, in: renameTo(0, "x", false)[:23], status: win32.STATUS_INFO_LENGTH_MISMATCH},
		{what: "basic without FILE_WRITE_ATTRIBUTES", h: none, class: win32.FileBasicInformation, in: basic(1), status: win32.STATUS_ACCESS_DENIED},
		{what: "size without FILE_WRITE_DATA", h: none, class: win32.FileEndOfFileInformation, in: make([]byte, 8), status: win32.STATUS_ACCESS_DENIED},
		{what: "disposition without DELETE", h: none, class: win32.FileDispositionInformation, in: []byte{1}, status: win32.STATUS_ACCESS_DENIED},
		{what: "disposition with flags without DELETE", h: none, class: win32.FileDispositionInformationEx, in: del, status: win32.STATUS_ACCESS_DENIED},
		{what: "rename without DELETE", h: none, class: win32.FileRenameInformation, in: renameTo(0, "x", false), status: win32.STATUS_ACCESS_DENIED},
		{what: "attributes left alone", h: all, class: win32.FileBasicInformation, in: basic(0)},
		{what: "a file made a directory", h: all, class: win32.FileBasicInformation, in: basic(win32.FILE_ATTRIBUTE_DIRECTORY), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a directory with entries", h: dir, class: win32.FileDispositionInformation, in: []byte{1}, status: win32.STATUS_DIRECTORY_NOT_EMPTY},
		{what: "the root", h: root, class: win32.FileDispositionInformation, in: []byte{1}, status: win32.STATUS_CANNOT_DELETE},
		{what: "unknown disposition flags", h: all, class: win32.FileDispositionInformationEx, in: win32.EncodeDisposition(0x41), status: win32.STATUS_INVALID_PARAMETER},

		{what: "rename in place", h: all, class: win32.FileRenameInformation, in: renameTo(0, "file2", false)},
		{what: "rename to an absolute name", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\moved`, false)},
		{what: "rename relative to a handle", h: all, class: win32.FileRenameInformation, in: renameTo(sub, `file`, false)},
		{what: "rename through a link", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\symlink\file`, false)},
		{what: "rename over something", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\taken`, true)},
		{what: "no name", h: all, class: win32.FileRenameInformation, in: renameTo(0, "", false), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a name of an odd length", h: all, class: win32.FileRenameInformation, in: oddName(renameTo(0, "ab", false), 3), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a name longer than the buffer", h: all, class: win32.FileRenameInformation, in: oddName(renameTo(0, "ab", false), 0xfffffffe), status: win32.STATUS_INVALID_PARAMETER},
		{what: "a bad name", h: all, class: win32.FileRenameInformation, in: renameTo(0, "a?", false), status: win32.STATUS_OBJECT_NAME_INVALID},
		{what: "a name that is taken", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\empty`, false), status: win32.STATUS_OBJECT_NAME_COLLISION},
		{what: "to another volume", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\E:\x`, false), status: win32.STATUS_NOT_SAME_DEVICE},
		{what: "through a mount point", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\mount\x`, false), status: win32.STATUS_NOT_SAME_DEVICE},
		{what: "to a volume's root", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\E:\`, false), status: win32.STATUS_OBJECT_NAME_INVALID},
		{what: "to nowhere", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\missing\x`, false), status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{what: "relative to no handle", h: all, class: win32.FileRenameInformation, in: renameTo(0x1234, `x`, false), status: win32.STATUS_INVALID_HANDLE},
		{what: "into a directory whose writing is not shared", h: all, class: win32.FileRenameInformation, in: renameTo(0, `\??\C:\empty\x`, false), status: win32.STATUS_SHARING_VIOLATION},
		{what: "a directory that something is open in", h: dir, class: win32.FileRenameInformation, in: renameTo(0, `dir2`, false), status: win32.STATUS_ACCESS_DENIED},
		{what: "the root", h: root, class: win32.FileRenameInformation, in: renameTo(0, `x`, false), status: win32.STATUS_INVALID_PARAMETER},
	} {
		wantStatus(t, c.what, n.SetInformation(c.h, c.class, c.in), c.status)
	}
	if got := n.final(all); got != `C:\taken` {
		t.Errorf("after the renames the file is at %q", got)
	}
}

func oddName(b []byte, length uint32) []byte {
	le.PutUint32(b[renameNameLength:], length)
	return b
}

func TestDeletion(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`)
	a := n.must(`C:\file`, readable|win32.DELETE, win32.FILE_OPEN, synch)
	b := n.must(`C:\file`, readable, win32.FILE_OPEN, synch)
	wantStatus(t, "POSIX delete", n.SetInformation(a, win32.FileDispositionInformationEx,
		win32.EncodeDisposition(win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS|win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)), 0)
	_, err := n.create(0, `\??\C:\file`, readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "open it", err, win32.STATUS_DELETE_PENDING)
	_, err = n.Attributes(`C:\file`)
	wantErrno(t, "its attributes", err, win32.ERROR_ACCESS_DENIED)
	d := n.must(`C:\doomed`, readable|win32.DELETE, win32.FILE_CREATE, folder)
	wantStatus(t, "delete a directory", n.SetInformation(d, win32.FileDispositionInformation, []byte{1}), 0)
	_, err = n.create(0, `\??\C:\doomed\x`, readable, shareAll, win32.FILE_CREATE, synch)
	wantStatus(t, "create in it", err, win32.STATUS_DELETE_PENDING)
	_, err = n.create(0, `\??\C:\doomed\x\y`, readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "open something below it", err, win32.STATUS_DELETE_PENDING)
	n.shut(d)
	n.shut(a)
	_, err = n.Attributes(`C:\file`)
	wantErrno(t, "its attributes once the handle is closed", err, win32.ERROR_FILE_NOT_FOUND)
	_, err = n.FinalPath(b, win32.VOLUME_NAME_DOS)
	wantErrno(t, "where is what has no name", err, win32.ERROR_ACCESS_DENIED)
	n.shut(b)

	h := n.must(`C:\temporary`, win32.DELETE|win32.SYNCHRONIZE, win32.FILE_CREATE, synch|win32.FILE_DELETE_ON_CLOSE)
	n.shut(h)
	_, err = n.Attributes(`C:\temporary`)
	wantErrno(t, "deleted on close", err, win32.ERROR_FILE_NOT_FOUND)
}

func TestReparseControls(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`, `C:\big`)
	n.resize(`C:\big`, 1)
	all := func(path string) win32.Handle {
		return n.must(path, writable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	}
	dir, empty, file, big := all(`C:\dir`), all(`C:\empty`), all(`C:\file`), all(`C:\big`)
	reader := n.must(`C:\empty`, readable, win32.FILE_OPEN, synch)
	attrs := n.must(`C:\empty`, win32.FILE_WRITE_ATTRIBUTES|win32.SYNCHRONIZE, win32.FILE_OPEN, synch)
	defer n.shut(dir, empty, file, big, reader, attrs)
	j := n.junction(`C:\dir`).Encode()
	s := relative(`dir`).Encode()
	mountHeader := []byte{3, 0, 0, 0xa0, 0, 0, 0, 0}
	for _, c := range []struct {
		what  string
		h     win32.Handle
		code  uint32
		in    []byte
		out   int
		n     int
		errno win32.Errno
	}{
		{what: "get where there is none", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 1000, errno: win32.ERROR_NOT_A_REPARSE_POINT},
		{what: "delete where there is none", h: empty, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader, errno: win32.ERROR_NOT_A_REPARSE_POINT},
		{what: "set without write access", h: reader, code: win32.FSCTL_SET_REPARSE_POINT, in: j, errno: win32.ERROR_ACCESS_DENIED},
		{what: "set with an output buffer", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, in: j, out: 1, errno: win32.ERROR_INVALID_PARAMETER},
		{what: "set nothing", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "set a part", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, in: j[:len(j)-2], errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "set on a directory with entries", h: dir, code: win32.FSCTL_SET_REPARSE_POINT, in: j, errno: win32.ERROR_DIR_NOT_EMPTY},
		{what: "set a junction on a file", h: file, code: win32.FSCTL_SET_REPARSE_POINT, in: j, errno: win32.ERROR_DIRECTORY},
		{what: "set a symbolic link on a file with contents", h: big, code: win32.FSCTL_SET_REPARSE_POINT, in: s, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "set a symbolic link on an empty file", h: file, code: win32.FSCTL_SET_REPARSE_POINT, in: s},
		{what: "set a junction with the right to write attributes alone", h: attrs, code: win32.FSCTL_SET_REPARSE_POINT, in: j},
		{what: "set another tag", h: empty, code: win32.FSCTL_SET_REPARSE_POINT, in: s, errno: win32.ERROR_REPARSE_TAG_MISMATCH},
		{what: "get", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 16384, n: len(j)},
		{what: "get into exactly enough", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: len(j), n: len(j)},
		{what: "get a part", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 10, n: 10, errno: win32.ERROR_MORE_DATA},
		{what: "get into too little", h: empty, code: win32.FSCTL_GET_REPARSE_POINT, out: 7, errno: win32.ERROR_INSUFFICIENT_BUFFER},
		{what: "delete without write access", h: reader, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader, errno: win32.ERROR_ACCESS_DENIED},
		{what: "delete by its data", h: empty, code: win32.FSCTL_DELETE_REPARSE_POINT, in: j, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{what: "delete another tag", h: file, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader, errno: win32.ERROR_REPARSE_TAG_MISMATCH},
		{what: "delete", h: empty, code: win32.FSCTL_DELETE_REPARSE_POINT, in: mountHeader},
		{what: "unknown code", h: empty, code: 0x90001, errno: win32.ERROR_INVALID_FUNCTION},
		{what: "a volume's code", h: empty, code: win32.FSCTL_EXTEND_VOLUME, in: make([]byte, 8), errno: win32.ERROR_INVALID_FUNCTION},
	} {
		out := make([]byte, c.out)
		got, err := n.DeviceIoControl(c.h, c.code, c.in, out)
		wantErrno(t, c.what, err, c.errno)
		if got != c.n {
			t.Errorf("%s: %d bytes, want %d", c.what, got, c.n)
		}
		if c.n > 0 && string(out[:got]) != string(j[:got]) {
			t.Errorf("%s: got %x, want the start of %x", c.what, out[:got], j)
		}
	}
}

func TestOtherCallsOnFiles(t *testing.T) {
	n := newFileNode(t)
	n.touch(`C:\file`)
	file := n.must(`C:\file`, writable, win32.FILE_OPEN, synch)
	dir := n.must(`C:\dir`, readable, win32.FILE_OPEN, synch)
	defer n.shut(file, dir)
	_, err := n.ReadAt(file, make([]byte, 1), 0)
	wantErrno(t, "read contents", err, win32.ERROR_NOT_SUPPORTED)
	_, err = n.WriteAt(file, make([]byte, 1), 0)
	wantErrno(t, "write contents", err, win32.ERROR_NOT_SUPPORTED)
	_, err = n.ReadAt(dir, make([]byte, 1), 0)
	wantErrno(t, "read a directory", err, win32.ERROR_INVALID_FUNCTION)
	wantErrno(t, "flush", n.FlushFileBuffers(file), 0)
	wantErrno(t, "flush without write access", n.FlushFileBuffers(dir), win32.ERROR_ACCESS_DENIED)
}

func TestFinalPath(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	c := n.must(`C:\junction\sub`, readable, win32.FILE_OPEN, synch)
	root := n.must(`C:\`, readable, win32.FILE_OPEN, synch)
	u := n.must(`U:\deep`, readable, win32.FILE_OPEN, synch)
	disk, err := n.CreateFile(`\\.\PhysicalDrive0`, 0, shareAll, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.shut(c, root, u, disk)
	system, err := n.VolumeNameForMountPoint(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		h     win32.Handle
		flags uint32
		want  string
		errno win32.Errno
	}{
		{what: "by letter", h: c, flags: win32.VOLUME_NAME_DOS, want: `\\?\C:\dir\sub`},
		{what: "opened name by letter", h: c, flags: win32.VOLUME_NAME_DOS | 8, want: `\\?\C:\dir\sub`},
		{what: "root by letter", h: root, flags: win32.VOLUME_NAME_DOS, want: `\\?\C:\`},
		{what: "by volume name", h: c, flags: win32.VOLUME_NAME_GUID, want: system + `dir\sub`},
		{what: "root by volume name", h: root, flags: win32.VOLUME_NAME_GUID, want: system},
		{what: "without volume", h: c, flags: win32.VOLUME_NAME_NONE, want: `\dir\sub`},
		{what: "no letter", h: u, flags: win32.VOLUME_NAME_DOS, errno: win32.ERROR_PATH_NOT_FOUND},
		{what: "no letter, by volume name", h: u, flags: win32.VOLUME_NAME_GUID, want: n.unlettered + `deep`},
		{what: "two kinds", h: c, flags: 3, errno: win32.ERROR_INVALID_PARAMETER},
		{what: "unknown flags", h: c, flags: 16, errno: win32.ERROR_INVALID_PARAMETER},
		{what: "a disk", h: disk, errno: win32.ERROR_INVALID_FUNCTION},
		{what: "no handle", errno: win32.ERROR_INVALID_HANDLE},
	} {
		got, err := n.FinalPath(c.h, c.flags)
		wantErrno(t, c.what, err, c.errno)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	// The device name opens the same file, without a link in the path.
	path, err := n.FinalPath(c, win32.VOLUME_NAME_NT)
	if err != nil || !strings.HasPrefix(path, `\Device\HarddiskVolume`) || !strings.HasSuffix(path, `\dir\sub`) {
		t.Fatalf("by device: %q, %v", path, err)
	}
	h, err := n.NtCreateFile(0, path, readable, win32.OBJ_DONT_REPARSE, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "open it by device", err, 0)
	n.shut(h)

	// A volume mounted at a folder has the folder's path.
	wantErrno(t, "mount", n.SetMountPoint(`C:\empty\`, n.unlettered), 0)
	if got, err := n.FinalPath(u, win32.VOLUME_NAME_DOS); err != nil || got != `\\?\C:\empty\deep` {
		t.Errorf("mounted in a folder: %q, %v", got, err)
	}
}

func TestAttributes(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.mkdir(`C:\trailing.`, `C:\con`, `C:\`+strings.Repeat(`long\`, 1)[:4])
	const (
		dir  = win32.FILE_ATTRIBUTE_DIRECTORY
		link = dir | win32.FILE_ATTRIBUTE_REPARSE_POINT
	)
	for _, c := range []struct {
		path  string
		want  uint32
		errno win32.Errno
	}{
		{path: `C:\dir`, want: dir},
		{path: `c:/DIR/sub`, want: dir},
		{path: `C:\dir\`, want: dir},
		{path: `C:\dir\file`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\.\dir\..\dir\\sub.`, want: dir},
		{path: `C:\..\..\dir`, want: dir},
		{path: `C:\dir  . .`, want: dir},
		{path: `C:\dir.\sub`, want: dir},
		{path: `\\?\C:\dir`, want: dir},
		{path: `\\.\C:\dir`, want: dir},
		{path: n.unlettered + `deep`, want: dir},
		{path: `C:\mount`, want: link},
		{path: `C:\nowhere`, want: link},
		{path: `C:\mount\deep`, want: dir},
		{path: `C:\filelink`, want: win32.FILE_ATTRIBUTE_ARCHIVE | win32.FILE_ATTRIBUTE_REPARSE_POINT},
		{path: `\\?\C:\trailing.`, want: dir},
		{path: `\\?\C:\con`, want: dir},
		{path: `C:\`, want: dir | win32.FILE_ATTRIBUTE_HIDDEN | win32.FILE_ATTRIBUTE_SYSTEM},
		// A reserved name is a device in any directory, with any extension.
		{path: `C:\dir\NUL`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\nowhere else\com1.txt`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\dir\Aux .x`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\dir\LPT³`, want: win32.FILE_ATTRIBUTE_ARCHIVE},
		{path: `C:\dir\COM0`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `C:\dir\console`, errno: win32.ERROR_FILE_NOT_FOUND},

		{path: `C:\trailing.`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `\\?\C:\dir.`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `\\?\C:/dir`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `\\?\C:\dir/sub`, errno: win32.ERROR_INVALID_NAME},
		{path: `\\?\C:\dir\..`, errno: win32.ERROR_INVALID_NAME},
		{path: `C:\missing`, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `C:\missing\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: `C:\dir\file\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: `C:\dir\file\`, errno: win32.ERROR_DIRECTORY},
		{path: `C:\dir\a?b`, errno: win32.ERROR_INVALID_NAME},
		{path: "C:\\a\x00b", errno: win32.ERROR_INVALID_NAME},
		{path: `C:\` + strings.Repeat("x", 256), errno: win32.ERROR_INVALID_NAME},
		{path: `C:\` + strings.Repeat("x", 40000), errno: win32.ERROR_FILENAME_EXCED_RANGE},
		{path: `Z:\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: n.blank, errno: win32.ERROR_UNRECOGNIZED_VOLUME},
		{path: `\\server\share\x`, errno: win32.ERROR_BAD_NETPATH},
		{path: `\\?\UNC\server\share\x`, errno: win32.ERROR_BAD_NETPATH},
		{path: `C:\circle\x`, errno: win32.ERROR_CANT_RESOLVE_FILENAME},
		{path: `dir`, errno: win32.ERROR_BAD_PATHNAME},
		{path: `\dir`, errno: win32.ERROR_BAD_PATHNAME},
		{path: `C:dir`, errno: win32.ERROR_BAD_PATHNAME},
		{path: `C:`, errno: win32.ERROR_BAD_PATHNAME},
		{path: ``, errno: win32.ERROR_PATH_NOT_FOUND},
	} {
		got, err := n.Attributes(c.path)
		wantErrno(t, fmt.Sprintf("attributes of %.60q", c.path), err, c.errno)
		if got != c.want {
			t.Errorf("attributes of %.60q are %#x, want %#x", c.path, got, c.want)
		}
	}
}

func TestLongPaths(t *testing.T) {
	n := newFileNode(t)
	path := `C:`
	for range 20 {
		path += `\` + strings.Repeat("d", 100)
		n.mkdir(path)
	}
	if _, err := n.Attributes(path); err != nil {
		t.Errorf("a path of %d characters: %v", len(path), err)
	}
}

func TestCreateFileOnVolume(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	const backup, reparse, onClose = win32.FILE_FLAG_BACKUP_SEMANTICS, fileFlagOpenReparsePoint, fileFlagDeleteOnClose
	for _, c := range []struct {
		path        string
		access      uint32
		disposition uint32
		flags       uint32
		errno       win32.Errno
		at          string
	}{
		{path: `C:\dir`, disposition: win32.OPEN_EXISTING, flags: backup, at: `C:\dir`},
		{path: `C:/dir/../dir/file`, access: win32.GENERIC_READ, disposition: win32.OPEN_EXISTING, at: `C:\dir\file`},
		{path: `C:\junction`, disposition: win32.OPEN_EXISTING, flags: backup, at: `C:\dir`},
		{path: `C:\junction`, disposition: win32.OPEN_EXISTING, flags: backup | reparse, at: `C:\junction`},
		{path: n.unlettered, disposition: win32.OPEN_EXISTING, flags: backup | fileFlagOverlapped, at: `U:\`},
		{path: `C:\brief`, disposition: win32.CREATE_NEW, flags: onClose | win32.FILE_ATTRIBUTE_NORMAL, at: `C:\brief`},
		{path: `C:\made`, disposition: openAlways, at: `C:\made`},
		{path: `C:\made`, disposition: win32.CREATE_NEW, errno: win32.ERROR_FILE_EXISTS},
		{path: `C:\dir`, disposition: win32.OPEN_EXISTING, errno: win32.ERROR_ACCESS_DENIED},
		{path: `C:\dir\file\`, disposition: win32.OPEN_EXISTING, errno: win32.ERROR_INVALID_NAME},
		{path: `C:\dir\file\x`, disposition: win32.OPEN_EXISTING, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: `C:\missing`, disposition: win32.OPEN_EXISTING, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `C:\brief`, disposition: win32.OPEN_EXISTING, errno: win32.ERROR_FILE_NOT_FOUND},
		{path: `C:\dir\file`, disposition: 2, errno: win32.ERROR_INVALID_PARAMETER},
		{path: `C:\dir\file`, disposition: win32.OPEN_EXISTING, flags: 1, errno: win32.ERROR_INVALID_PARAMETER},
		{path: n.blank, disposition: win32.OPEN_EXISTING, flags: backup, errno: win32.ERROR_UNRECOGNIZED_VOLUME},
	} {
		h, err := n.CreateFile(c.path, c.access, shareAll, c.disposition, c.flags)
		what := fmt.Sprintf("CreateFile %q with flags %#x", c.path, c.flags)
		wantErrno(t, what, err, c.errno)
		if err != nil {
			continue
		}
		if got := n.final(h); got != c.at {
			t.Errorf("%s is %q, want %q", what, got, c.at)
		}
		n.shut(h)
	}
}

func TestWindowsDirectory(t *testing.T) {
	n := newFileNode(t)
	dir, err := n.WindowsDirectory()
	if err != nil || dir != `C:\Windows` {
		t.Fatalf("%q, %v", dir, err)
	}
	if attr, err := n.Attributes(dir); err != nil || attr&win32.FILE_ATTRIBUTE_DIRECTORY == 0 {
		t.Errorf("its attributes: %#x, %v", attr, err)
	}
}

// FuzzNtCreateFile: no name makes the node panic or corrupts the tree, and an
// entry is found under the name with which it was created.
func FuzzNtCreateFile(f *testing.F) {
	for _, s := range []string{
		`\??\C:\dir`, `\??\C:\new`, `\??\C:\mount\new`, `\??\C:\high\x`, `\Device\HarddiskVolume1\x`, `\??\GLOBALROOT\Device\HarddiskVolume2\`,
		`\??\UNC\a\b`, `\??\Volume{`, `\??\`, `\`, ``, `dir`, "\\??\\C:\\\xff", `\??\C:\a\..\b`, `\??\c:\\x`, `\??\C:\x\`,
	} {
		f.Add(s, uint32(win32.OBJ_CASE_INSENSITIVE), uint32(win32.FILE_OPEN_IF), uint32(synch), false)
		f.Add(s, uint32(win32.OBJ_DONT_REPARSE), uint32(win32.FILE_CREATE), uint32(folder), true)
	}
	f.Fuzz(func(t *testing.T, name string, objAttr, disposition, options uint32, relative bool) {
		n := newFileNode(t)
		n.populate()
		root := win32.Handle(0)
		if relative {
			root = n.must(`C:\dir`, readable, win32.FILE_OPEN, folder)
			defer n.shut(root)
		}
		h, err := n.NtCreateFile(root, name, writable, objAttr, shareAll, disposition, options)
		if err != nil {
			if _, ok := err.(win32.NTStatus); !ok {
				t.Errorf("%q: %v (%T), want an NTSTATUS", name, err, err)
			}
			return
		}
		again, err := n.NtCreateFile(root, name, writable, objAttr, shareAll, win32.FILE_OPEN, options)
		if err != nil && options&win32.FILE_DELETE_ON_CLOSE == 0 {
			t.Errorf("%q was opened, and a second time: %v", name, err)
		}
		if err == nil {
			if a, b := n.final(h), n.final(again); a != b {
				t.Errorf("%q is %q and %q", name, a, b)
			}
			n.shut(again)
		}
		n.shut(h)
		for _, tree := range n.trees {
			if err := tree.Verify(); err != nil {
				t.Errorf("after %q: %v", name, err)
			}
		}
	})
}

// FuzzAttributes: no path makes the node panic, and the two queries agree.
func FuzzAttributes(f *testing.F) {
	for _, s := range []string{`C:\dir`, `\\?\C:\dir`, `c:/dir/.`, `\\.\C:\`, `\\server\share\`, `C:\CON`, ``, `\\?\`, `C:\ . .`, "C:\\\xff\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		n := newFileNode(t)
		n.populate()
		attributes, err := n.Attributes(path)
		if _, ok := err.(win32.Errno); err != nil && !ok {
			t.Errorf("%q: %v (%T), want an Errno", path, err, err)
		}
		if err == nil && attributes == 0 {
			t.Errorf("%q has the attributes 0", path)
		}
		if root, err := n.VolumePathName(path); err == nil && !strings.HasSuffix(root, `\`) {
			t.Errorf("%q is on %q", path, root)
		}
	})
}
