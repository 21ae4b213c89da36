package volume_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Rights of directories (winnt.h).
const (
	addFile   = 0x2
	listFiles = 0x1
	modify    = 0x1301BF
)

// rootSecurity returns the security descriptor of a volume's root directory.
func (f *fixture) rootSecurity(id string) []byte {
	f.t.Helper()
	s, err := f.Windows.Show()
	if err != nil {
		f.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Volumes, func(v nodespec.VolumeInfo) bool { return v.ID == id })
	if i < 0 || s.Volumes[i].RootSecurity == nil {
		f.t.Fatalf("no root directory of %s", id)
	}
	return s.Volumes[i].RootSecurity
}

// Users, and so ordinary containers, may change everything on a volume that this process
// formats, if that is chosen. By default they may not.
func TestFormatLetsUsersModify(t *testing.T) {
	if exec.Command("/usr/bin/python3", "-c", "import samba.security").Run() != nil {
		t.Skip("needs Debian with python3-samba, which make test installs: apt-get install python3-samba")
	}
	for _, chosen := range []bool{false, true} {
		f := newFixture(t, nodespec.Config{}, data(gib, ""))
		f.Node.UsersModify = chosen
		id := f.id(1)
		if err := f.format(id); err != nil {
			t.Fatal(err)
		}
		asked, want := []uint32{listFiles, addFile, modify, win32.WRITE_DAC, win32.FILE_ALL_ACCESS}, []bool{true, chosen, chosen, false, false}
		if got := usersMay(t, f.rootSecurity(id), asked); !slices.Equal(got, want) {
			t.Errorf("chosen %t: users have %#x: %t, want %t", chosen, asked, got, want)
		}
	}
}

// usersModify reports whether the rights of a root directory let Users modify it.
func (f *fixture) usersModify(id string) bool {
	return bytes.Contains(f.rootSecurity(id), []byte{0xbf, 0x01, 0x13, 0})
}

// otherRights sets a list that Windows does not give a new volume.
func (f *fixture) otherRights(id string) {
	f.t.Helper()
	h, err := f.Windows.NtCreateFile(0, `\??\`+id[4:], win32.WRITE_DAC|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, 7, win32.FILE_OPEN,
		win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	if err != nil {
		f.t.Fatal(err)
	}
	list := win32.EncodeDACL([]win32.ACE{{Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 5, Sub: []uint32{18}}}})
	if err := errors.Join(f.Windows.SetSecurity(h, list), f.Windows.CloseHandle(h)); err != nil {
		f.t.Fatal(err)
	}
}

// A volume with files keeps its rights, and so does one whose rights are not those of a new
// volume: an administrator has chosen them.
func TestFormatKeepsTheRightsOfAnExistingFileSystem(t *testing.T) {
	target := kubelet + `\m`
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	id := f.id(1)
	f.mkdir(target)
	if err := f.mount(id, target); err != nil {
		t.Fatal(err)
	}
	f.mkdir(target + `\precious`)
	if err := f.unmount(id, target); err != nil {
		t.Fatal(err)
	}
	before := f.rootSecurity(id)
	f.Node.UsersModify = true
	wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "precious")
	if err := f.mount(id, target); err != nil || !bytes.Equal(f.rootSecurity(id), before) {
		t.Errorf("%v, the rights of a root directory with files are %x", err, f.rootSecurity(id))
	}

	f = newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	f.Node.UsersModify = true
	id = f.id(1)
	f.otherRights(id)
	before = f.rootSecurity(id)
	f.mkdir(target)
	if err := errors.Join(f.format(id), f.mount(id, target)); err != nil || !bytes.Equal(f.rootSecurity(id), before) {
		t.Errorf("%v, the rights that were chosen are %x", err, f.rootSecurity(id))
	}
}

// The process ends between the format and the rights, or Windows refuses them: the next
// FormatVolume sets them, and so does MountVolume, because drivers do not format what
// is formatted.
func TestRightsThatWereNotSetAreSetLater(t *testing.T) {
	target := kubelet + `\m`
	for name, later := range map[string]func(*fixture, string) error{
		"FormatVolume": (*fixture).format,
		"MountVolume":  func(f *fixture, id string) error { return f.mount(id, target) },
	} {
		f := newFixture(t, nodespec.Config{}, data(gib, ""))
		f.Node.UsersModify = true
		id := f.id(1)
		f.mkdir(target)
		f.Fail("SetSecurity", 0, win32.STATUS_IO_DEVICE_ERROR)
		if err := f.format(id); !win32.IsCode(err, win32.ERROR_IO_DEVICE) {
			t.Errorf("format: %v", err)
		}
		f.Observe(nil)
		f.restart()
		if ok, err := f.formatted(id); !ok || err != nil || f.usersModify(id) {
			t.Errorf("formatted: %t, %v, rights %x", ok, err, f.rootSecurity(id))
		}
		if err := later(f, id); err != nil || !f.usersModify(id) {
			t.Errorf("%s: %v, rights %x", name, err, f.rootSecurity(id))
		}
	}
}

// MountVolume leaves the rights of storage that cannot be written, and mounts a volume without
// NTFS as it is.
func TestMountWithoutRights(t *testing.T) {
	target := kubelet + `\m`
	for name, c := range map[string]struct {
		disk  nodespec.Disk
		fails error
	}{
		"write-protected": {data(gib, "NTFS"), win32.STATUS_MEDIA_WRITE_PROTECTED},
		"not formatted":   {data(gib, ""), nil},
	} {
		f := newFixture(t, nodespec.Config{}, c.disk)
		f.Node.UsersModify = true
		f.mkdir(target)
		f.Observe(func(call *win32.Call) error {
			if call.Name == "SetSecurity" && c.fails != nil {
				return c.fails
			}
			return call.Do()
		})
		if err := f.mount(f.id(1), target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A format that Windows reports as failed may have succeeded. The next try finds the new file
// system, and sets the rights.
func TestRightsAfterAFormatThatOnlySeemedToFail(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, ""))
	f.Node.UsersModify = true
	id := f.id(1)
	formats, rights := 0, 0
	f.Observe(func(c *win32.Call) error {
		err := c.Do()
		switch c.Name {
		case "Format":
			if formats++; err == nil {
				return win32.ERROR_BUSY
			}
		case "SetSecurity":
			rights++
		}
		return err
	})
	if err := f.format(id); err != nil || rights != 1 {
		t.Errorf("%v, %d formats, rights set %d times", err, formats, rights)
	}
}

// usersMay asks samba's access check which of some rights a descriptor gives to an account that is
// in the group Users only.
func usersMay(t *testing.T, descriptor []byte, rights []uint32) (may []bool) {
	t.Helper()
	const script = `
import sys
from samba.dcerpc import security
from samba.ndr import ndr_unpack
from samba.security import access_check
token = security.token()
sids = [security.dom_sid(s) for s in ("S-1-5-21-1-2-3-1000", "S-1-1-0", "S-1-5-11", "S-1-5-32-545")]
token.sids, token.num_sids = sids, len(sids)
sd = ndr_unpack(security.descriptor, bytes.fromhex(sys.argv[1]))
# An owner has rights of its own: here it is another account.
sd.owner_sid = security.dom_sid("S-1-5-18")
sd.group_sid = security.dom_sid("S-1-5-18")
for rights in sys.argv[2:]:
    try:
        access_check(sd, token, int(rights))
        print("yes")
    except Exception as e:
        if "access denied" not in str(e).lower():
            raise
        print("no")
`
	args := []string{"-c", script, hex.EncodeToString(descriptor)}
	for _, r := range rights {
		args = append(args, fmt.Sprint(r))
	}
	out, err := exec.Command("/usr/bin/python3", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("samba's access check: %v\n%s", err, out)
	}
	for answer := range strings.FieldsSeq(string(out)) {
		may = append(may, answer == "yes")
	}
	return may
}
