package emulated

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	shareAll = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	synch    = win32.FILE_SYNCHRONOUS_IO_NONALERT
	folder   = synch | win32.FILE_DIRECTORY_FILE
	readable = win32.FILE_LIST_DIRECTORY | win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE
	writable = readable | win32.FILE_WRITE_ATTRIBUTES | kernel.FileWriteData
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
	return newFileNodeOn(t, behavior.Windows{})
}

func newFileNodeOn(t *testing.T, windows behavior.Windows) *fileNode {
	t.Helper()
	windows.Automount = nodespec.AutomountDisabled // the tests give the volumes their letters
	n := &fileNode{t: t, Node: start(t, nodespec.Config{
		Disks: []nodespec.Disk{
			{Content: nodespec.ContentSystem},
			{Content: nodespec.ContentGPT, ID: "data", Size: 4 << 30, Partitions: []nodespec.Partition{
				{Size: 1 << 30, FileSystem: "NTFS", Letter: "E"},
				{Size: 1 << 30, FileSystem: "NTFS"},
				{Size: 1 << 30},
			}},
		},
		Directories: []string{`C:\dir\sub`, `C:\empty`},
		World:       behavior.In("", windows),
		Log:         quiet,
	})}
	for _, v := range n.Volumes.List {
		switch {
		case len(v.Ranges) != 1 || v.Disk != "data":
		case v.Ranges[0].Off < 1<<30:
			n.lettered = v.Name()
		case v.Ranges[0].Off < 2<<30:
			n.unlettered = v.Name()
		default:
			n.blank = v.Name()
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

// setReparse makes a link, as an account that holds the privilege to.
func setReparse(n win32.API, h win32.Handle, b []byte) error {
	return n.WithPrivilege(win32.SE_CREATE_SYMBOLIC_LINK_NAME, func(n win32.API) error {
		_, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, b, nil)
		return err
	})
}

func (n *fileNode) link(path string, r win32.Reparse) {
	n.t.Helper()
	options := uint32(folder)
	if file, ok := strings.CutPrefix(path, "file:"); ok {
		path, options = file, synch|win32.FILE_NON_DIRECTORY_FILE
	}
	h := n.must(path, writable, win32.FILE_CREATE, options)
	defer n.shut(h)
	if err := setReparse(n, h, r.Encode()); err != nil {
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
	ok(n.t, err)
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

// What the table of package filestatus does not have: links, drives, and other absolute names.
func TestNtCreateFileNames(t *testing.T) {
	n := newFileNode(t)
	n.populate()
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

		{name: `C:\\\dir`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\dir\file:stream`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: "C:\\dir\x00", status: win32.STATUS_OBJECT_NAME_INVALID},
		{name: `C:\` + strings.Repeat(`x\`, 20000), status: win32.STATUS_NAME_TOO_LONG},
		{name: `C:\dir.`, status: win32.STATUS_OBJECT_NAME_NOT_FOUND}, // NT names are not normalized
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

// What the table of package filestatus does not have.
func TestRelativeNames(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	dir := n.must(`C:\dir`, readable, win32.FILE_OPEN, folder)
	file := n.must(`C:\dir\file`, readable, win32.FILE_OPEN, synch)
	link := n.must(`C:\junction`, writable, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	disk, err := n.CreateFile(`\\.\PhysicalDrive0`, 0, shareAll, win32.OPEN_EXISTING, 0)
	ok(t, err)
	defer n.shut(dir, file, link, disk)
	system, _, _ := n.OfName(`\??\C:\`)
	device := system.NTDevice()
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

		{root: dir, name: `C:\dir`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{root: dir, name: `\??\C:\dir`, status: win32.STATUS_OBJECT_NAME_INVALID},
		{root: file, name: `x`, status: win32.STATUS_INVALID_PARAMETER},
		{root: link, name: "", objAttr: win32.OBJ_DONT_REPARSE, status: win32.STATUS_REPARSE_POINT_ENCOUNTERED},
		{root: link, name: "file", status: win32.STATUS_OBJECT_NAME_NOT_FOUND}, // a link has no entries of its own
		{root: link, name: "x", create: true, status: win32.STATUS_DIRECTORY_IS_A_REPARSE_POINT},
		{root: disk, name: "x", status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{root: 0x1234, name: "x", status: win32.STATUS_INVALID_HANDLE},

		// With OBJ_DONT_REPARSE no link is followed, neither in the path nor at
		// its end.
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

// What the table of package filestatus does not have.
func TestNtCreateFileParameters(t *testing.T) {
	n := newFileNode(t)
	n.populate()
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
		{what: "create if not there", path: `C:\new`, access: rs, disposition: win32.FILE_OPEN_IF, options: folder},
		{what: "create over a dangling link", path: `C:\nowhere`, access: rs, disposition: win32.FILE_CREATE, options: folder, status: win32.STATUS_OBJECT_PATH_NOT_FOUND},
		{what: "create over the link itself", path: `C:\nowhere`, access: rs, disposition: win32.FILE_CREATE, options: folder | win32.FILE_OPEN_REPARSE_POINT, status: win32.STATUS_OBJECT_NAME_COLLISION},
		{what: "create through a link", path: `C:\mount\made`, access: rs, disposition: win32.FILE_CREATE, options: folder},

		{what: "options that no host passes", path: `C:\dir`, access: rs, disposition: win32.FILE_OPEN, options: synch | 0x2000, status: win32.STATUS_NOT_SUPPORTED},
		{what: "GENERIC_READ is no SYNCHRONIZE", path: `C:\dir`, access: win32.GENERIC_READ, disposition: win32.FILE_OPEN, options: synch, status: win32.STATUS_INVALID_PARAMETER},
		{what: "no access", path: `C:\dir`, disposition: win32.FILE_OPEN, status: win32.STATUS_ACCESS_DENIED},
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

// An access control list that grants only DELETE grants neither generic rights nor reading
// attributes.
func TestRights(t *testing.T) {
	const only = win32.DELETE | win32.SYNCHRONIZE
	n := newFileNode(t)
	n.populate()
	ok(t, n.SetRights(`C:\dir\file`, only))
	for access, status := range map[uint32]win32.NTStatus{
		only:                              0,
		only | win32.FILE_READ_ATTRIBUTES: win32.STATUS_ACCESS_DENIED, win32.GENERIC_READ | win32.SYNCHRONIZE: win32.STATUS_ACCESS_DENIED,
	} {
		h, err := n.create(0, n.nt(`C:\dir\file`), access, shareAll, win32.FILE_OPEN, synch)
		wantStatus(t, fmt.Sprintf("open with %#x", access), err, status)
		if err == nil {
			_, err := n.QueryInformation(h, win32.FileAttributeTagInformation, make([]byte, 8))
			wantStatus(t, fmt.Sprintf("read attributes with %#x", access), err, win32.STATUS_ACCESS_DENIED)
			_, err = n.QueryInformation(h, win32.FileStandardInformation, make([]byte, win32.SizeofFileStandard))
			wantStatus(t, "read what needs no right", err, 0)
			n.shut(h)
		}
	}
	if err := n.SetRights(`C:\dir\missing`, only); err == nil {
		t.Error("set the rights of a missing file")
	}
}

func TestComputerName(t *testing.T) {
	n := newFileNode(t)
	for kind, want := range map[uint32]string{
		win32.ComputerNameNetBIOS: "SIMULATED-NODE", win32.ComputerNamePhysicalDnsFullyQualified: "simulated-node",
	} {
		if got, err := n.ComputerName(kind); err != nil || got != want {
			t.Errorf("name of kind %d = %q, %v, want %q", kind, got, err, want)
		}
	}
	if name, err := n.ComputerName(8); err != win32.ERROR_INVALID_PARAMETER { // ComputerNameMax
		t.Errorf("an unknown kind: %q, %v", name, err)
	}
}

// FuzzNtCreateFile: no name makes the node panic, and an entry is found under the name with
// which it was created.
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
		if err != nil {
			t.Errorf("%q was opened, and a second time: %v", name, err)
		}
		if err == nil {
			if a, b := n.final(h), n.final(again); a != b {
				t.Errorf("%q is %q and %q", name, a, b)
			}
			n.shut(again)
		}
		n.shut(h)
	})
}
