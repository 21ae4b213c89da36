package emulated

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestSetMountPoint(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	const none = `\\?\Volume{00000000-0000-0000-0000-000000000000}\`
	for _, c := range []struct {
		what     string
		dir, vol string
		errno    win32.Errno
	}{
		{what: "a directory with entries", dir: `C:\dir\`, vol: n.unlettered, errno: win32.ERROR_DIR_NOT_EMPTY},
		{what: "a mount point", dir: `C:\mount\`, vol: n.unlettered, errno: win32.ERROR_DIR_NOT_EMPTY},
		{what: "a junction", dir: `C:\junction\`, vol: n.unlettered, errno: win32.ERROR_DIR_NOT_EMPTY},
		{what: "a root with entries", dir: n.unlettered, vol: n.lettered, errno: win32.ERROR_DIR_NOT_EMPTY},
		{what: "a file", dir: `C:\dir\file\`, vol: n.unlettered, errno: win32.ERROR_DIRECTORY},
		{what: "nothing", dir: `C:\missing\`, vol: n.unlettered, errno: win32.ERROR_FILE_NOT_FOUND},
		{what: "nothing in nothing", dir: `C:\missing\x\`, vol: n.unlettered, errno: win32.ERROR_PATH_NOT_FOUND},
		{what: "a path without backslash at its end", dir: `C:\empty`, vol: n.unlettered, errno: win32.ERROR_INVALID_NAME},
		{what: "a device's name", dir: `C:\nul\`, vol: n.unlettered, errno: win32.ERROR_INVALID_NAME},
		{what: "a relative path", dir: `empty\`, vol: n.unlettered, errno: win32.ERROR_BAD_PATHNAME},
		{what: "a volume without file system", dir: n.blank + `x\`, vol: n.unlettered, errno: win32.ERROR_UNRECOGNIZED_VOLUME},
		{what: "a volume that is not there", dir: `C:\empty\`, vol: none, errno: win32.ERROR_FILE_NOT_FOUND},
		{what: "a volume's name without backslash", dir: `C:\empty\`, vol: strings.TrimSuffix(n.unlettered, `\`), errno: win32.ERROR_INVALID_PARAMETER},
		{what: "a drive letter for the volume", dir: `C:\empty\`, vol: `E:\`, errno: win32.ERROR_INVALID_PARAMETER},
		{what: "a volume's NT name", dir: `C:\empty\`, vol: `\??\` + n.unlettered[4:], errno: win32.ERROR_INVALID_PARAMETER},
		{what: "a directory on a volume", dir: `C:\empty\`, vol: n.unlettered + `deep\`, errno: win32.ERROR_INVALID_PARAMETER},
		{what: "a name with an extra brace", dir: `C:\empty\`, vol: strings.Replace(n.unlettered, "{", "{{", 1), errno: win32.ERROR_INVALID_PARAMETER},
		{what: "no volume", dir: `C:\empty\`, vol: "", errno: win32.ERROR_INVALID_PARAMETER},
	} {
		wantErrno(t, "mount at "+c.what, n.SetMountPoint(c.dir, c.vol), c.errno)
	}
	if attr, err := n.Attributes(`C:\empty`); err != nil || attr != win32.FILE_ATTRIBUTE_DIRECTORY {
		t.Errorf("after the errors: attributes %#x, %v", attr, err)
	}

	wantErrno(t, "mount", n.SetMountPoint(`C:\empty\`, n.unlettered), 0)
	wantErrno(t, "mount a volume that is not formatted", n.SetMountPoint(`C:\var\lib\kubelet\pods\`, n.blank), 0)
	_, err := n.Attributes(`C:\var\lib\kubelet\pods\x`)
	wantErrno(t, "look into it", err, win32.ERROR_UNRECOGNIZED_VOLUME)

	got, err := n.VolumePathNames(n.unlettered)
	if want := []string{`C:\empty\`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("mounted at %q, %v, want %q", got, err, want)
	}
}

// Handles that can read, write or delete the directory are in the way of a mount. Handles
// that only read attributes are not.
func TestMountOpensDirectory(t *testing.T) {
	const both = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE
	for _, c := range []struct {
		access, share uint32
		errno         win32.Errno
	}{
		{readable, both, win32.ERROR_SHARING_VIOLATION},
		{readable, shareAll, win32.ERROR_SHARING_VIOLATION},
		{win32.FILE_READ_ATTRIBUTES | win32.SYNCHRONIZE, 0, 0},
	} {
		n := newFileNode(t)
		held, err := n.create(0, n.nt(`C:\empty`), c.access, c.share, win32.FILE_OPEN, folder)
		ok(t, err)
		wantErrno(t, fmt.Sprintf("mount while access %#x and share %d are open", c.access, c.share), n.SetMountPoint(`C:\empty\`, n.unlettered), c.errno)
		n.shut(held)
	}
}

func TestDeleteMountPoint(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.mkdir(`C:\here`)
	wantErrno(t, "mount", n.SetMountPoint(`C:\here\`, n.unlettered), 0)
	for dir, errno := range map[string]win32.Errno{
		`C:\dir\`:      win32.ERROR_NOT_A_REPARSE_POINT,
		`C:\symlink\`:  win32.ERROR_NOT_A_REPARSE_POINT,
		`C:\junction\`: win32.ERROR_INVALID_PARAMETER,
		`C:\missing\`:  win32.ERROR_FILE_NOT_FOUND,
		`C:\no\dir\`:   win32.ERROR_PATH_NOT_FOUND,
		`C:\here`:      win32.ERROR_INVALID_NAME,
		`Q:\`:          win32.ERROR_FILE_NOT_FOUND,
	} {
		wantErrno(t, fmt.Sprintf("unmount %q", dir), n.DeleteMountPoint(dir), errno)
	}
	open := n.must(`C:\here\deep`, readable, win32.FILE_OPEN, folder)
	wantErrno(t, "unmount while something is open on the volume", n.DeleteMountPoint(`C:\here\`), 0)
	if got := n.final(open); got != `U:\deep` {
		t.Errorf("the open directory is %q", got)
	}
	n.shut(open)
	wantErrno(t, "unmount again", n.DeleteMountPoint(`C:\here\`), win32.ERROR_NOT_A_REPARSE_POINT)
	if attr, err := n.Attributes(`C:\here`); err != nil || attr != win32.FILE_ATTRIBUTE_DIRECTORY {
		t.Errorf("the directory has attributes %#x, %v", attr, err)
	}
	if names, err := n.VolumePathNames(n.unlettered); err != nil || len(names) != 0 {
		t.Errorf("still mounted at %q, %v", names, err)
	}
}

func TestVolumeNameForMountPoint(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.link(`C:\gone`, win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\Volume{00000000-0000-0000-0000-000000000000}\`})
	for _, c := range []struct {
		root, want string
		errno      win32.Errno
	}{
		{root: `E:\`, want: n.lettered},
		{root: `e:\`, want: n.lettered},
		{root: n.unlettered, want: n.unlettered},
		{root: `C:\mount\`, want: n.unlettered},
		{root: `\\?\C:\mount\`, want: n.unlettered},
		{root: `C:\toraw\`, want: n.blank},
		{root: `C:\dir\`, errno: win32.ERROR_NOT_A_REPARSE_POINT},
		{root: `C:\symlink\`, errno: win32.ERROR_NOT_A_REPARSE_POINT},
		{root: `C:\junction\`, errno: win32.ERROR_INVALID_PARAMETER},
		{root: `C:\gone\`, errno: win32.ERROR_FILE_NOT_FOUND},
		{root: `C:\missing\`, errno: win32.ERROR_FILE_NOT_FOUND},
		{root: `C:\mount`, errno: win32.ERROR_INVALID_NAME},
		{root: `Q:\`, errno: win32.ERROR_FILE_NOT_FOUND},
	} {
		got, err := n.VolumeNameForMountPoint(c.root)
		wantErrno(t, fmt.Sprintf("volume at %q", c.root), err, c.errno)
		if got != c.want {
			t.Errorf("volume at %q is %q, want %q", c.root, got, c.want)
		}
	}
}

func TestVolumePathName(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.link(`U:\deep\back`, n.junction(`C:\dir`))
	n.mkdir(`U:\deep\nested`)
	wantErrno(t, "mount", n.SetMountPoint(`C:\mount\deep\nested\`, n.lettered), 0)
	n.link(`C:\todrive`, n.junction(`E:\`))
	n.link(`E:\sideways`, relative(`there`))
	n.link(`U:\own`, relative(`\deep`))
	n.link(`C:\gone`, win32.Reparse{Tag: win32.IO_REPARSE_TAG_MOUNT_POINT, Substitute: `\??\Volume{00000000-0000-0000-0000-000000000000}\`})
	for _, c := range []struct {
		path, want string
		errno      win32.Errno
	}{
		{path: `C:\`, want: `C:\`},
		{path: `C:\dir\sub`, want: `C:\`},
		{path: `c:/dir/../dir`, want: `c:\`},
		{path: `C:\missing\and\more`, want: `C:\`},
		{path: `C:\mount`, want: `C:\mount\`},
		{path: `C:\mount\`, want: `C:\mount\`},
		{path: `C:\mount\deep\er\missing`, want: `C:\mount\`},
		{path: `C:\mount\deep\nested\there`, want: `C:\mount\deep\nested\`},
		{path: `\\?\C:\mount\deep`, want: `\\?\C:\mount\`},
		{path: n.unlettered + `deep`, want: n.unlettered},
		{path: n.unlettered + `deep\nested\x`, want: n.unlettered + `deep\nested\`},
		{path: n.blank, want: n.blank},
		{path: n.blank + `x`, want: n.blank},
		{path: `C:\toraw\x`, want: `C:\toraw\`},
		{path: `C:\gone\x`, want: `C:\gone\`},
		// Links that are not mount points are followed.
		{path: `C:\junction\x`, want: `C:\`},
		{path: `C:\mount\deep\back\sub`, want: `C:\`},
		{path: `C:\todrive\x`, want: `E:\`},
		{path: `C:\dir\up`, want: `C:\`},
		{path: `C:\nowhere`, want: `C:\`},
		{path: `E:\sideways`, want: `E:\`},
		{path: n.unlettered + `own\x`, want: n.unlettered},
		{path: `C:\mount\own\x`, want: n.unlettered},

		{path: `C:\circle`, errno: win32.ERROR_CANT_RESOLVE_FILENAME},
		{path: `C:\high`, errno: win32.ERROR_INVALID_REPARSE_DATA},
		{path: `C:\toshare`, errno: win32.ERROR_BAD_NETPATH},
		{path: `\\server\share\x`, errno: win32.ERROR_BAD_NETPATH},
		{path: `Q:\x`, errno: win32.ERROR_PATH_NOT_FOUND},
		{path: `C:\x\nul`, errno: win32.ERROR_INVALID_NAME},
		{path: `x`, errno: win32.ERROR_BAD_PATHNAME},
		{path: ``, errno: win32.ERROR_PATH_NOT_FOUND},
	} {
		got, err := n.VolumePathName(c.path)
		wantErrno(t, fmt.Sprintf("volume path of %q", c.path), err, c.errno)
		if got != c.want {
			t.Errorf("volume path of %q is %q, want %q", c.path, got, c.want)
		}
	}
}

// A handle of a removed volume can only be closed. When the volume comes back,
// the handle is still invalid.
func TestVolumeGoesAway(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	dir, err := n.create(0, n.nt(`E:\`), readable, 0, win32.FILE_OPEN, folder)
	ok(t, err)
	doomed := n.must(`E:\there`, writable|win32.DELETE, win32.FILE_OPEN, synch)
	wantStatus(t, "mark for deletion", n.SetInformation(doomed, win32.FileDispositionInformation, []byte{1}), 0)
	ok(t, n.Detach(1))
	buf := make([]byte, 4096)
	_, err = n.create(dir, "x", readable, shareAll, win32.FILE_CREATE, folder)
	wantStatus(t, "create", err, win32.STATUS_VOLUME_DISMOUNTED)
	_, err = n.QueryDirectory(dir, true, buf)
	wantStatus(t, "list", err, win32.STATUS_VOLUME_DISMOUNTED)
	_, err = n.QueryInformation(dir, win32.FileStandardInformation, buf)
	wantStatus(t, "query", err, win32.STATUS_VOLUME_DISMOUNTED)
	wantStatus(t, "set", n.SetInformation(doomed, win32.FileDispositionInformation, []byte{0}), win32.STATUS_VOLUME_DISMOUNTED)
	_, err = n.DeviceIoControl(dir, win32.FSCTL_GET_REPARSE_POINT, nil, buf)
	wantErrno(t, "reparse point", err, win32.STATUS_VOLUME_DISMOUNTED.Errno())
	_, err = n.FinalPath(dir, win32.VOLUME_NAME_GUID)
	wantErrno(t, "path", err, win32.STATUS_VOLUME_DISMOUNTED.Errno())
	wantErrno(t, "flush", n.FlushFileBuffers(doomed), win32.STATUS_VOLUME_DISMOUNTED.Errno())
	_, err = n.create(0, n.nt(`C:\mount\x`), readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "pass through the mount point", err, win32.STATUS_OBJECT_PATH_NOT_FOUND)

	attach(t, n.Node, nodespec.Disk{ID: "data"})
	again, err := n.create(0, n.nt(`E:\`), readable, shareAll, win32.FILE_OPEN, folder)
	wantStatus(t, "open the root that an old handle does not share", err, 0)
	n.shut(dir, doomed, again)
	if _, err := n.Attributes(`E:\there`); err != nil {
		t.Errorf("a pending deletion was completed: %v", err)
	}
}

func TestReadOnlyVolume(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	n.link(`E:\mount`, n.junction(`U:\`))
	n.mkdir(`E:\empty`)
	early := n.must(`E:\there`, writable|win32.DELETE, win32.FILE_OPEN, synch)
	defer n.shut(early)
	disk, err := n.CreateFile(`\\.\PhysicalDrive1`, win32.GENERIC_READ|win32.GENERIC_WRITE, shareAll, win32.OPEN_EXISTING, 0)
	ok(t, err)
	defer n.shut(disk)
	set := win32.SetDiskAttributes{Attributes: win32.DISK_ATTRIBUTE_READ_ONLY, Mask: win32.DISK_ATTRIBUTE_READ_ONLY}
	if _, err := n.DeviceIoControl(disk, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, set.Encode(), nil); err != nil {
		t.Fatal(err)
	}
	n.shut(n.must(`E:\there`, readable, win32.FILE_OPEN, synch))
	for what, err := range map[string]error{
		"create":        fail(n.create(0, n.nt(`E:\new`), readable, shareAll, win32.FILE_CREATE, folder)),
		"open if":       fail(n.create(0, n.nt(`E:\new`), readable, shareAll, win32.FILE_OPEN_IF, folder)),
		"open writing":  fail(n.create(0, n.nt(`E:\there`), writable, shareAll, win32.FILE_OPEN, synch)),
		"open deleting": fail(n.create(0, n.nt(`E:\there`), win32.DELETE|win32.SYNCHRONIZE, shareAll, win32.FILE_OPEN, synch)),
		"delete":        n.SetInformation(early, win32.FileDispositionInformation, []byte{1}),
	} {
		wantStatus(t, what, err, win32.STATUS_MEDIA_WRITE_PROTECTED)
	}
	_, err = n.DeviceIoControl(early, win32.FSCTL_SET_REPARSE_POINT, relative("x").Encode(), nil)
	wantErrno(t, "make a link", err, win32.ERROR_WRITE_PROTECT)
	wantErrno(t, "mount", n.SetMountPoint(`E:\empty\`, n.unlettered), win32.ERROR_WRITE_PROTECT)
	wantErrno(t, "unmount", n.DeleteMountPoint(`E:\mount\`), win32.ERROR_WRITE_PROTECT)
}

// volumeDevice opens the volume vol for reading and writing its bytes.
func (n *fileNode) volumeDevice(vol string) win32.Handle {
	n.t.Helper()
	h, err := n.CreateFile(strings.TrimSuffix(vol, `\`), win32.GENERIC_READ|win32.GENERIC_WRITE, shareAll, win32.OPEN_EXISTING, 0)
	ok(n.t, err)
	return h
}

func TestOfflineVolume(t *testing.T) {
	n := newFileNode(t)
	n.populate()
	there := n.must(`E:\there`, writable, win32.FILE_OPEN, synch)
	device := n.volumeDevice(n.lettered)
	defer n.shut(there, device)
	if _, err := n.DeviceIoControl(device, win32.IOCTL_VOLUME_OFFLINE, nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err := n.create(0, n.nt(`E:\there`), readable, shareAll, win32.FILE_OPEN, synch)
	wantStatus(t, "open", err, win32.STATUS_DEVICE_NOT_READY)
	_, err = n.QueryInformation(there, win32.FileStandardInformation, make([]byte, win32.SizeofFileStandard))
	wantStatus(t, "ask an open file", err, win32.STATUS_DEVICE_NOT_READY)
	if _, err := n.DeviceIoControl(device, win32.IOCTL_VOLUME_ONLINE, nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err = n.QueryInformation(there, win32.FileStandardInformation, make([]byte, win32.SizeofFileStandard))
	wantStatus(t, "ask it when the volume is back", err, 0)
}

// A file system that Windows reads but that has no reparse points.
func TestFileSystemWithoutReparsePoints(t *testing.T) {
	n := newFileNode(t)
	device := n.volumeDevice(n.blank)
	boot := make([]byte, 512)
	copy(boot[3:], "EXFAT   ")
	le.PutUint64(boot[72:], 1<<20)
	le.PutUint32(boot[92:], 1<<17)
	le.PutUint32(boot[100:], 0x12345678)
	boot[108], boot[109], boot[510], boot[511] = 9, 3, 0x55, 0xaa
	if _, err := n.WriteAt(device, boot, 0); err != nil {
		t.Fatal(err)
	}
	n.shut(device)
	h := n.must(`B:\dir`, writable, win32.FILE_CREATE, folder)
	_, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, n.junction(`C:\`).Encode(), nil)
	wantErrno(t, "make a junction", err, win32.ERROR_INVALID_FUNCTION)
	_, err = n.DeviceIoControl(h, win32.FSCTL_GET_REPARSE_POINT, nil, make([]byte, 100))
	wantErrno(t, "ask for a reparse point", err, win32.ERROR_INVALID_FUNCTION)
	n.shut(h)
	wantErrno(t, "mount", n.SetMountPoint(n.blank+`dir\`, n.unlettered), win32.ERROR_NOT_SUPPORTED)
}

func TestMountPointHeldOpen(t *testing.T) {
	n := newFileNode(t)
	wantErrno(t, "mount", n.SetMountPoint(`C:\empty\`, n.unlettered), 0)
	held, err := n.create(0, n.nt(`C:\empty`), readable, win32.FILE_SHARE_READ, win32.FILE_OPEN, synch|win32.FILE_OPEN_REPARSE_POINT)
	ok(t, err)
	wantErrno(t, "unmount while writing is not shared", n.DeleteMountPoint(`C:\empty\`), win32.ERROR_SHARING_VIOLATION)
	n.shut(held)
	wantErrno(t, "unmount", n.DeleteMountPoint(`C:\empty\`), 0)
}

// fail drops a handle that should not have been opened.
func fail(_ win32.Handle, err error) error { return err }
