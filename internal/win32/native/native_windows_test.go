package native

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// These tests run on any Windows, including Wine, without rights other than
// writing to the temporary directory. They use no disk and no mount point.

const (
	shareAll = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	syncIO   = win32.FILE_SYNCHRONOUS_IO_NONALERT | win32.FILE_OPEN_FOR_BACKUP_INTENT
)

// openDir opens an existing directory by its plain absolute path.
func openDir(t *testing.T, api win32.API, path string) win32.Handle {
	t.Helper()
	h, err := api.NtCreateFile(0, `\??\`+path, win32.FILE_LIST_DIRECTORY|win32.FILE_TRAVERSE|win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE,
		win32.OBJ_CASE_INSENSITIVE, shareAll, win32.FILE_OPEN, syncIO|win32.FILE_DIRECTORY_FILE)
	if err != nil {
		t.Fatalf("open %q: %v", path, err)
	}
	t.Cleanup(func() { closeHandle(t, api, h) })
	return h
}

func closeHandle(t *testing.T, api win32.API, h win32.Handle) {
	t.Helper()
	if err := api.CloseHandle(h); err != nil {
		t.Errorf("close: %v", err)
	}
}

// create creates a file or directory relative to dir.
func create(api win32.API, dir win32.Handle, name string, options uint32) (win32.Handle, error) {
	return api.NtCreateFile(dir, name, win32.GENERIC_READ|win32.GENERIC_WRITE|win32.DELETE|win32.SYNCHRONIZE,
		win32.OBJ_CASE_INSENSITIVE, shareAll, win32.FILE_CREATE, syncIO|options)
}

func mustCreate(t *testing.T, api win32.API, dir win32.Handle, name string, options uint32) win32.Handle {
	t.Helper()
	h, err := create(api, dir, name, options)
	if err != nil {
		t.Fatalf("create %q: %v", name, err)
	}
	return h
}

// list reads a whole directory through a buffer of size bytes.
func list(t *testing.T, api win32.API, dir win32.Handle, size int) []win32.DirEntry {
	t.Helper()
	var all []win32.DirEntry
	buf := make([]byte, size)
	for restart := true; ; restart = false {
		n, err := api.QueryDirectory(dir, restart, buf)
		if errors.Is(err, win32.STATUS_NO_MORE_FILES) {
			return all
		}
		if err != nil {
			t.Fatalf("QueryDirectory: %v", err)
		}
		es, err := win32.DecodeDirectory(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, es...)
	}
}

func TestDirectory(t *testing.T) {
	api := New(Options{})
	dir := openDir(t, api, t.TempDir())
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("file with a name of some length %02d \U0001F517", i)
		h := mustCreate(t, api, dir, name, win32.FILE_NON_DIRECTORY_FILE)
		if n, err := api.WriteAt(h, make([]byte, i), 0); n != i || err != nil {
			t.Errorf("WriteAt of %d bytes: %d, %v", i, n, err)
		}
		closeHandle(t, api, h)
		want = append(want, name)
	}
	closeHandle(t, api, mustCreate(t, api, dir, "sub", win32.FILE_DIRECTORY_FILE))

	for _, size := range []int{256, 4096, 64 << 10} {
		var got []string
		for _, e := range list(t, api, dir, size) {
			isDir := e.Attributes&win32.FILE_ATTRIBUTE_DIRECTORY != 0
			switch e.Name {
			case ".", "..", "sub":
				if !isDir {
					t.Errorf("%q has attributes %#x, want a directory", e.Name, e.Attributes)
				}
			default:
				got = append(got, e.Name)
				if i := slices.Index(want, e.Name); isDir || e.Size != int64(i) {
					t.Errorf("%q has attributes %#x and %d bytes, want a file of %d", e.Name, e.Attributes, e.Size, i)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("listed with a buffer of %d bytes: %q, want %q", size, got, want)
		}
	}
	if n, err := api.QueryDirectory(dir, true, nil); err == nil {
		t.Errorf("QueryDirectory without a buffer returned %d bytes", n)
	}
}

func TestReadWrite(t *testing.T) {
	api := New(Options{})
	dir := openDir(t, api, t.TempDir())
	h := mustCreate(t, api, dir, "file", win32.FILE_NON_DIRECTORY_FILE)
	defer closeHandle(t, api, h)

	const at = 1<<32 + 5 // both halves of the offset
	if err := setSparse(api, h); err != nil {
		t.Logf("the file is not sparse: %v", err)
	}
	if n, err := api.WriteAt(h, []byte("hello"), at); n != 5 || err != nil {
		t.Fatalf("WriteAt: %d, %v", n, err)
	}
	if err := api.FlushFileBuffers(h); err != nil {
		t.Errorf("FlushFileBuffers: %v", err)
	}
	p := make([]byte, 3)
	if n, err := api.ReadAt(h, p, at+1); n != 3 || err != nil || string(p) != "ell" {
		t.Errorf("ReadAt: %d, %v, %q", n, err, p)
	}
	if n, err := api.ReadAt(h, p, 0); n != 3 || err != nil || string(p) != "\x00\x00\x00" {
		t.Errorf("ReadAt in the hole: %d, %v, %q", n, err, p)
	}
	if n, err := api.ReadAt(h, p, at+5); n != 0 || err != win32.ERROR_HANDLE_EOF {
		t.Errorf("ReadAt at the end: %d, %v; want ERROR_HANDLE_EOF", n, err)
	}
	for _, off := range []int64{-1, -2} {
		if n, err := api.WriteAt(h, []byte("x"), off); n != 0 || err != win32.ERROR_INVALID_PARAMETER {
			t.Errorf("WriteAt %d: %d, %v; want ERROR_INVALID_PARAMETER", off, n, err)
		}
	}
	if n, err := api.WriteAt(h, nil, 0); n != 0 || err != nil {
		t.Errorf("WriteAt of nothing: %d, %v", n, err)
	}
	if n, err := api.ReadAt(h, nil, 0); n != 0 || err != nil {
		t.Errorf("ReadAt of nothing: %d, %v", n, err)
	}

	b := make([]byte, win32.SizeofFileStandard)
	n, err := api.QueryInformation(h, win32.FileStandardInformation, b)
	if err != nil {
		t.Fatalf("QueryInformation: %v", err)
	}
	// How much is allocated, in the first eight bytes, is for Windows to decide.
	want := win32.FileStandard{EndOfFile: at + 5, Links: 1}.Encode()
	if n < 22 || !bytes.Equal(b[8:22], want[8:22]) {
		t.Errorf("FileStandardInformation = % x, want % x behind the allocation size", b[:n], want)
	}
	if n, err := api.QueryInformation(h, win32.FileStandardInformation, b[:1]); err == nil {
		t.Errorf("QueryInformation into one byte returned %d bytes", n)
	}
	if n, err := api.QueryInformation(h, win32.FileStandardInformation, nil); err == nil {
		t.Errorf("QueryInformation without a buffer returned %d bytes", n)
	}
}

// setSparse makes a file with a hole of 4 GiB use little space.
func setSparse(api win32.API, h win32.Handle) error {
	const fsctlSetSparse = 0x900C4
	_, err := api.DeviceIoControl(h, fsctlSetSparse, nil, nil)
	return err
}

func TestOpenErrors(t *testing.T) {
	api := New(Options{})
	path := t.TempDir()
	dir := openDir(t, api, path)
	closeHandle(t, api, mustCreate(t, api, dir, "file", win32.FILE_NON_DIRECTORY_FILE))

	open := func(name string, options uint32) error {
		h, err := api.NtCreateFile(dir, name, win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE,
			shareAll, win32.FILE_OPEN, options)
		if err == nil {
			closeHandle(t, api, h)
		}
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"a NUL", open("fi\x00le", syncIO), win32.STATUS_OBJECT_NAME_INVALID},
		{"a name beyond 64 KiB", open(strings.Repeat("x", 1<<15), syncIO), win32.STATUS_NAME_TOO_LONG},
		{"an asynchronous handle", open("file", win32.FILE_OPEN_FOR_BACKUP_INTENT), win32.STATUS_INVALID_PARAMETER},
	} {
		if c.err != c.want {
			t.Errorf("open %s: %v, want %v", c.name, c.err, c.want)
		}
	}
	for name, want := range map[string]win32.Errno{`\missing`: win32.ERROR_FILE_NOT_FOUND, `\missing\file`: win32.ERROR_PATH_NOT_FOUND} {
		if attrs, err := api.Attributes(path + name); err != want {
			t.Errorf("Attributes of %s: %#x, %v; want %s", name, attrs, err, want.Name())
		}
	}
	if h, err := api.CreateFile(`\\.\PhysicalDrive4711`, 0, 3, win32.OPEN_EXISTING, 0); err != win32.ERROR_FILE_NOT_FOUND {
		t.Errorf("open a disk that does not exist: handle %d, %v; want ERROR_FILE_NOT_FOUND", h, err)
	}
	if _, err := api.CreateFile(path, 0, 3, win32.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_BACKUP_SEMANTICS); err != win32.ERROR_INVALID_PARAMETER {
		t.Errorf("an overlapped handle: %v, want ERROR_INVALID_PARAMETER", err)
	}
	if err := api.CloseHandle(0); err != win32.ERROR_INVALID_HANDLE {
		t.Errorf("CloseHandle(0): %v, want ERROR_INVALID_HANDLE", err)
	}
	if n, err := api.DeviceIoControl(0, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, nil); n != 0 || err != win32.ERROR_INVALID_HANDLE {
		t.Errorf("DeviceIoControl of no handle: %d, %v; want ERROR_INVALID_HANDLE", n, err)
	}
	if n, err := api.DeviceIoControl(dir, 0x12345678, []byte{}, []byte{}); n != 0 || err == nil {
		t.Errorf("an unknown control code: %d, %v; want an error", n, err)
	}
}

func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

func TestFinalPath(t *testing.T) {
	api := New(Options{})
	const tail = `\a\b`
	short := t.TempDir() + tail
	if err := os.MkdirAll(short, 0o755); err != nil {
		t.Fatal(err)
	}
	h := openDir(t, api, short)
	for flags, prefix := range map[uint32]string{win32.VOLUME_NAME_DOS: `\\?\`, win32.VOLUME_NAME_GUID: `\\?\Volume{`} {
		got, err := api.FinalPath(h, flags)
		if err != nil || !strings.HasPrefix(got, prefix) || !strings.HasSuffix(got, tail) {
			t.Errorf("FinalPath(%d) = %q, %v; want %s…%s", flags, got, err, prefix, tail)
		}
	}
	if got, err := api.FinalPath(0, win32.VOLUME_NAME_DOS); err != win32.ERROR_INVALID_HANDLE {
		t.Errorf("FinalPath of no handle: %q, %v; want ERROR_INVALID_HANDLE", got, err)
	}
}

// A path longer than the first buffer.
func TestFinalPathLong(t *testing.T) {
	if underWine() {
		t.Skip("needs real Windows: Wine 10 does not return a final path beyond MAX_PATH")
	}
	api := New(Options{})
	tail := strings.Repeat(`\`+strings.Repeat("d", 50), 6)
	long := t.TempDir() + tail
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	h := openDir(t, api, long)
	for _, flags := range []uint32{win32.VOLUME_NAME_DOS, win32.VOLUME_NAME_GUID} {
		if got, err := api.FinalPath(h, flags); err != nil || !strings.HasSuffix(got, tail) {
			t.Errorf("FinalPath(%d) = %q, %v; want …%s", flags, got, err, tail)
		}
	}
}

// A name with half of a surrogate pair, which UTF-8 cannot represent, is listed
// in a form that can be opened again.
func TestHalfSurrogate(t *testing.T) {
	api := New(Options{})
	dir := openDir(t, api, t.TempDir())
	name := win32.FromUTF16([]uint16{'a', 0xD83D, 'b'})
	h, err := create(api, dir, name, win32.FILE_NON_DIRECTORY_FILE)
	if err != nil && underWine() {
		t.Skipf("needs real Windows: Wine keeps names in UTF-8 (%v)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	closeHandle(t, api, h)
	var names []string
	for _, e := range list(t, api, dir, 4096) {
		names = append(names, e.Name)
	}
	if !slices.Contains(names, name) {
		t.Fatalf("listed %q, want %q among them", names, name)
	}
	h, err = api.NtCreateFile(dir, name, win32.DELETE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareAll, win32.FILE_OPEN, syncIO)
	if err != nil {
		t.Fatalf("open %q: %v", name, err)
	}
	if err := api.SetInformation(h, win32.FileDispositionInformation, []byte{1}); err != nil {
		t.Errorf("remove %q: %v", name, err)
	}
	closeHandle(t, api, h)
	if es := list(t, api, dir, 4096); slices.ContainsFunc(es, func(e win32.DirEntry) bool { return e.Name == name }) {
		t.Errorf("%q is still there", name)
	}
}

// A function gets the API and returns its error whether or not the account holds the
// privilege, and afterwards the thread has the process's token again.
func TestWithPrivilege(t *testing.T) {
	api := New(Options{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	impersonates := func() bool {
		var token windows.Token
		if err := windows.OpenThreadToken(windows.CurrentThread(), windows.TOKEN_QUERY, true, &token); err != nil {
			if !errors.Is(err, windows.ERROR_NO_TOKEN) {
				t.Errorf("OpenThreadToken: %v", err)
			}
			return false
		}
		if err := token.Close(); err != nil {
			t.Error(err)
		}
		return true
	}
	for _, name := range []string{win32.SE_CREATE_SYMBOLIC_LINK_NAME, win32.SE_LOAD_DRIVER_NAME, "SeNoSuchPrivilege", "a\x00b"} {
		inside := false
		err := api.WithPrivilege(name, func(api win32.API) error {
			inside = impersonates()
			if held, enabled := privilegeOf(t, name); held != enabled {
				t.Errorf("the thread holds %s, which is not enabled", name)
			}
			if _, err := api.WindowsDirectory(); err != nil {
				t.Errorf("%q: WindowsDirectory: %v", name, err)
			}
			return win32.ERROR_BUSY
		})
		if err != win32.ERROR_BUSY || !inside {
			t.Errorf("WithPrivilege(%q) = %v, with a token of its own %t; want the function's error, true", name, err, inside)
		}
		if impersonates() {
			t.Errorf("after WithPrivilege(%q) the thread has a token of its own", name)
		}
	}
}

// privilegeOf returns whether the token of this thread has a privilege, and whether it is enabled.
func privilegeOf(t *testing.T, name string) (held, enabled bool) {
	t.Helper()
	var token windows.Token
	if err := windows.OpenThreadToken(windows.CurrentThread(), windows.TOKEN_QUERY, true, &token); err != nil {
		t.Fatal(err)
	}
	defer token.Close()
	u, err := windows.UTF16PtrFromString(name)
	var id windows.LUID
	if err != nil || windows.LookupPrivilegeValue(nil, u, &id) != nil {
		return false, false
	}
	var size uint32
	windows.GetTokenInformation(token, windows.TokenPrivileges, nil, 0, &size)
	list := make([]uint32, size/4+1) // aligned as the structure is
	all := (*windows.Tokenprivileges)(unsafe.Pointer(&list[0]))
	if err := windows.GetTokenInformation(token, windows.TokenPrivileges, (*byte)(unsafe.Pointer(all)), size, &size); err != nil {
		t.Fatal(err)
	}
	for _, p := range all.AllPrivileges() {
		if p.Luid == id {
			return true, p.Attributes&windows.SE_PRIVILEGE_ENABLED != 0
		}
	}
	return false, false
}

// Texts of the registry name the files that keep a disk in use, such as page files.
func TestRegistryText(t *testing.T) {
	const path = `Software\csi-proxy-test`
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS)
	if err != nil {
		t.Skipf("needs an administrator: %v", err)
	}
	defer registry.DeleteKey(registry.LOCAL_MACHINE, path)
	defer k.Close()
	list := []string{"one", "two"}
	if err := errors.Join(k.SetStringValue("text", "%SystemRoot%"), k.SetExpandStringValue("path", `%SystemRoot%\x`), k.SetStringsValue("list", list), k.SetDWordValue("number", 1)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"text": {"%SystemRoot%"}, "path": {os.Getenv("SystemRoot") + `\x`}, "list": list} {
		if got, err := New(Options{}).RegistryText(path, name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for _, c := range []struct {
		key, name string
		want      error
	}{{path, "number", win32.Errno(windows.ERROR_INVALID_DATA)}, {path, "none", win32.ERROR_FILE_NOT_FOUND}, {path + `\none`, "text", win32.ERROR_FILE_NOT_FOUND}} {
		if got, err := New(Options{}).RegistryText(c.key, c.name); !errors.Is(err, c.want) {
			t.Errorf("%s of %s: %q, %v, want %v", c.name, c.key, got, err, c.want)
		}
	}
}

// A service that every Windows runs.
func TestService(t *testing.T) {
	const name = "RpcSs"
	config, err := New(Options{}).ServiceConfig(name)
	if err != nil || config.DisplayName == "" || config.DisplayName == name || config.StartType < win32.SERVICE_AUTO_START || config.StartType > win32.SERVICE_DEMAND_START {
		t.Errorf("%s: %+v, %v", name, config, err)
	}
	if status, err := New(Options{}).ServiceStatus(name); err != nil || status.State < win32.SERVICE_STOPPED || status.State > win32.SERVICE_PAUSED {
		t.Errorf("%s: %+v, %v", name, status, err)
	}
	if status, err := New(Options{}).ServiceStatus("no such service"); !errors.Is(err, win32.ERROR_SERVICE_DOES_NOT_EXIST) {
		t.Errorf("no such service: %+v, %v", status, err)
	}
}

func TestComputerName(t *testing.T) {
	api := New(Options{})
	for _, kind := range []uint32{
		win32.ComputerNameNetBIOS, win32.ComputerNameDnsHostname, win32.ComputerNameDnsFullyQualified,
		win32.ComputerNamePhysicalNetBIOS, win32.ComputerNamePhysicalDnsHostname, win32.ComputerNamePhysicalDnsFullyQualified,
	} {
		name, err := api.ComputerName(kind)
		if err != nil || name == "" || strings.ContainsRune(name, 0) {
			t.Errorf("name of kind %d = %q, %v", kind, name, err)
		}
	}
	if name, err := api.ComputerName(99); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
		t.Errorf("an unknown kind: %q, %v, want ERROR_INVALID_PARAMETER", name, err)
	}
}

func TestVolumes(t *testing.T) {
	api := New(Options{})
	windir, err := api.WindowsDirectory()
	if err != nil {
		t.Fatal(err)
	}
	if attrs, err := api.Attributes(windir); err != nil || attrs&win32.FILE_ATTRIBUTE_DIRECTORY == 0 {
		t.Errorf("WindowsDirectory = %q with attributes %#x, %v; want a directory", windir, attrs, err)
	}
	root := windir[:len(`C:\`)]
	if got, err := api.VolumePathName(windir + `\not\there`); err != nil || got != root {
		t.Errorf("VolumePathName below %q = %q, %v; want %q", windir, got, err, root)
	}
	vol, err := api.VolumeNameForMountPoint(root)
	if err != nil || !strings.HasPrefix(vol, `\\?\Volume{`) || !strings.HasSuffix(vol, `}\`) {
		t.Fatalf("VolumeNameForMountPoint(%q) = %q, %v", root, vol, err)
	}
	names, err := api.VolumeNames()
	if err != nil || !slices.Contains(names, vol) {
		t.Errorf("VolumeNames = %q, %v; want %q among them", names, err, vol)
	}
	paths, err := api.VolumePathNames(vol)
	if err != nil || !slices.Contains(paths, root) {
		t.Errorf("VolumePathNames(%q) = %q, %v; want %q among them", vol, paths, err, root)
	}
	for _, where := range []string{root, vol} {
		info, err := api.VolumeInformation(where)
		if err != nil || info.FileSystem == "" || info.MaxComponent == 0 {
			t.Errorf("VolumeInformation(%q) = %+v, %v; want a file system", where, info, err)
		}
		avail, total, free, err := api.FreeSpace(where)
		if err != nil || total == 0 || free > total || avail > total {
			t.Errorf("FreeSpace(%q) = %d, %d, %d, %v", where, avail, total, free, err)
		}
	}
	const unknown = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
	if info, err := api.VolumeInformation(unknown); !errors.Is(err, win32.ERROR_PATH_NOT_FOUND) && !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("VolumeInformation of an unknown volume: %+v, %v; want not found", info, err)
	}
	if paths, err := api.VolumePathNames(unknown); err == nil {
		t.Errorf("VolumePathNames of an unknown volume = %q", paths)
	}
}

func TestInterfaces(t *testing.T) {
	disks, err := New(Options{}).Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range disks {
		if !strings.HasPrefix(d.Path, `\\?\`) || !strings.HasSuffix(strings.ToLower(d.Path), win32.GUID_DEVINTERFACE_DISK.String()) {
			t.Errorf("disk interface %q, want \\\\?\\…%s", d.Path, win32.GUID_DEVINTERFACE_DISK)
		}
	}
	t.Logf("%d disks", len(disks))
}

// No string with a NUL inside reaches Windows, which would use only the part
// before it (docs/drivers/compared.md#d23).
func TestNUL(t *testing.T) {
	api := New(Options{})
	const s = "C:\\a\x00b"
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	_, err := api.CreateFile(s, 0, 0, win32.OPEN_EXISTING, 0)
	add(err)
	_, err = api.VolumeInformation(s)
	add(err)
	_, _, _, err = api.FreeSpace(s)
	add(err)
	_, err = api.VolumePathName(s)
	add(err)
	_, err = api.VolumeNameForMountPoint(s)
	add(err)
	_, err = api.VolumePathNames(s)
	add(err)
	add(api.SetMountPoint(s, "v"))
	add(api.SetMountPoint("d", s))
	add(api.DeleteMountPoint(s))
	add(api.Format(s, win32.FormatOptions{}))
	_, err = api.NtCreateFile(0, s, 0, 0, 0, win32.FILE_OPEN, syncIO)
	add(err)
	_, err = api.Attributes(s)
	add(err)
	add(netUse{}.UseAdd(win32.NewUse{Remote: s}))
	add(netUse{}.UseAdd(win32.NewUse{Remote: `\\server\share`, User: s}))
	add(netUse{}.UseDel(s))
	if err := (netUse{}).UseAdd(win32.NewUse{Remote: `\\server\share`, User: "a", Password: win32.NewSecret(s)}); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
		t.Errorf("a password with a NUL: %v", err)
	}
	for i, err := range errs {
		if !errors.Is(err, win32.ERROR_INVALID_NAME) {
			t.Errorf("call %d: %v, want ERROR_INVALID_NAME", i, err)
		}
	}
}

// Every NTSTATUS in package win32 maps to the same Errno as in Windows.
func TestStatusMapping(t *testing.T) {
	known := 0
	for _, class := range []uint32{0x80000000, 0xC0000000} {
		for s := class; s < class+0x600; s++ {
			ours := win32.NTStatus(s)
			if strings.HasPrefix(ours.Name(), "STATUS_0x") {
				continue
			}
			known++
			if want := win32.Errno(windows.NTStatus(s).Errno()); ours.Errno() != want {
				t.Errorf("%s maps to %d here, to %d by Windows", ours.Name(), ours.Errno(), want)
			}
		}
	}
	if known < 35 {
		t.Errorf("found only %d statuses", known)
	}
}

// The access control list of a directory is replaced, as that of a volume's root is. Wine
// keeps what of it the rights of the host's file system can express.
func TestSetSecurity(t *testing.T) {
	api, dir := New(Options{}), t.TempDir()
	const both = win32.OBJECT_INHERIT_ACE | win32.CONTAINER_INHERIT_ACE
	everyone := win32.ACE{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 1, Sub: []uint32{0}}}
	list := win32.EncodeDACL([]win32.ACE{everyone, {Flags: both, Mask: 0x1301BF, SID: win32.SID{Authority: 5, Sub: []uint32{32, 545}}}})
	open := func(access uint32) win32.Handle {
		h, err := api.NtCreateFile(0, `\??\`+dir, access|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareAll, win32.FILE_OPEN, syncIO|win32.FILE_DIRECTORY_FILE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeHandle(t, api, h) })
		return h
	}
	h := open(win32.WRITE_DAC | win32.READ_CONTROL)
	if err := api.SetSecurity(h, list[:len(list)-1]); !errors.Is(err, win32.STATUS_INVALID_SECURITY_DESCR) {
		t.Errorf("half a descriptor: %v", err)
	}
	if err := api.SetSecurity(h, list); err != nil {
		t.Fatal(err)
	}
	if err := api.SetSecurity(open(win32.FILE_READ_ATTRIBUTES), list); !errors.Is(err, win32.STATUS_ACCESS_DENIED) {
		t.Errorf("without WRITE_DAC: %v", err)
	}
	got := make([]byte, 4096)
	n, err := api.QuerySecurity(h, got)
	if err != nil {
		t.Fatal(err)
	}
	if aces, err := win32.DecodeDACL(got[:n]); err != nil || len(aces) == 0 {
		t.Errorf("the list that is read: %+v, %v", aces, err)
	}
	if _, err := api.QuerySecurity(h, got[:8]); !errors.Is(err, win32.STATUS_BUFFER_TOO_SMALL) {
		t.Errorf("with a short buffer: %v", err)
	}
	sd, err := windows.GetSecurityInfo(windows.Handle(h), windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the list is now %s", sd)
	if !underWine() && !strings.Contains(sd.String(), "0x1301bf;;;BU") {
		t.Errorf("the list is %s, want one with rights of Users", sd)
	}
}
