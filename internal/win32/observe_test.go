package win32

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// recorder is an API that records its calls and returns results that differ from
// the zero value.
type recorder struct {
	calls [][]any // method name and arguments
	err   error   // of every method
}

func (a *recorder) record(args ...any) { a.calls = append(a.calls, args) }

func (a *recorder) CreateFile(path string, access, share, disposition, flags uint32) (Handle, error) {
	a.record("CreateFile", path, access, share, disposition, flags)
	return 11, a.err
}

func (a *recorder) CloseHandle(h Handle) error { a.record("CloseHandle", h); return a.err }

func (a *recorder) DeviceIoControl(h Handle, code uint32, in, out []byte) (int, error) {
	a.record("DeviceIoControl", h, code, in, out)
	return copy(out, "io"), a.err
}

func (a *recorder) ReadAt(h Handle, p []byte, off int64) (int, error) {
	a.record("ReadAt", h, p, off)
	return copy(p, "r"), a.err
}

func (a *recorder) WriteAt(h Handle, p []byte, off int64) (int, error) {
	a.record("WriteAt", h, p, off)
	return 3, a.err
}

func (a *recorder) FlushFileBuffers(h Handle) error { a.record("FlushFileBuffers", h); return a.err }

func (a *recorder) Interfaces() ([]Interface, error) {
	a.record("Interfaces")
	return []Interface{{"interface"}}, a.err
}

func (a *recorder) Reenumerate() error { a.record("Reenumerate"); return a.err }

func (a *recorder) OfflineReasons() (map[uint32]uint16, error) {
	a.record("OfflineReasons")
	return map[uint32]uint16{3: VDSDiskOfflineReasonPolicy}, a.err
}

func (a *recorder) VolumeNames() ([]string, error) {
	a.record("VolumeNames")
	return []string{"volume"}, a.err
}

func (a *recorder) VolumeInformation(root string) (VolumeInfo, error) {
	a.record("VolumeInformation", root)
	return VolumeInfo{FileSystem: "NTFS"}, a.err
}

func (a *recorder) FreeSpace(root string) (avail, total, free uint64, err error) {
	a.record("FreeSpace", root)
	return 1, 2, 3, a.err
}

func (a *recorder) VolumePathName(p string) (string, error) {
	a.record("VolumePathName", p)
	return "path", a.err
}

func (a *recorder) VolumeNameForMountPoint(root string) (string, error) {
	a.record("VolumeNameForMountPoint", root)
	return "name", a.err
}

func (a *recorder) VolumePathNames(vol string) ([]string, error) {
	a.record("VolumePathNames", vol)
	return []string{"paths"}, a.err
}

func (a *recorder) SetMountPoint(dir, vol string) error {
	a.record("SetMountPoint", dir, vol)
	return a.err
}

func (a *recorder) DeleteMountPoint(dir string) error {
	a.record("DeleteMountPoint", dir)
	return a.err
}

func (a *recorder) Format(vol string, o FormatOptions) error {
	a.record("Format", vol, o)
	return a.err
}

func (a *recorder) UpdateStorageCache() error { a.record("UpdateStorageCache"); return a.err }

func (a *recorder) NtCreateFile(root Handle, name string, access, objAttr, share, disposition, options uint32) (Handle, error) {
	a.record("NtCreateFile", root, name, access, objAttr, share, disposition, options)
	return 12, a.err
}

func (a *recorder) QueryDirectory(h Handle, restart bool, buf []byte) (int, error) {
	a.record("QueryDirectory", h, restart, buf)
	return copy(buf, "dir"), a.err
}

func (a *recorder) QueryInformation(h Handle, class uint32, buf []byte) (int, error) {
	a.record("QueryInformation", h, class, buf)
	return copy(buf, "info"), a.err
}

func (a *recorder) SetInformation(h Handle, class uint32, in []byte) error {
	a.record("SetInformation", h, class, in)
	return a.err
}

func (a *recorder) QuerySecurity(h Handle, buf []byte) (int, error) {
	a.record("QuerySecurity", h, buf)
	return copy(buf, "list"), a.err
}

func (a *recorder) SetSecurity(h Handle, descriptor []byte) error {
	a.record("SetSecurity", h, descriptor)
	return a.err
}

func (a *recorder) FinalPath(h Handle, flags uint32) (string, error) {
	a.record("FinalPath", h, flags)
	return "final", a.err
}

func (a *recorder) Attributes(path string) (uint32, error) {
	a.record("Attributes", path)
	return 0x10, a.err
}

func (a *recorder) UseAdd(u NewUse) error { a.record("UseAdd", u); return a.err }

func (a *recorder) UseEnum() ([]Use, error) {
	a.record("UseEnum")
	return []Use{{Remote: "share"}}, a.err
}

func (a *recorder) UseDel(remote string) error {
	a.record("UseDel", remote)
	return a.err
}

func (a *recorder) LogonToServer(server string, c Credentials) error {
	a.record("LogonToServer", server, c)
	return a.err
}

func (a *recorder) WithPrivilege(privilege string, f func(API) error) error {
	a.record("WithPrivilege", privilege)
	if a.err != nil {
		return a.err
	}
	return f(a)
}

func (a *recorder) ComputerName(kind uint32) (string, error) {
	a.record("ComputerName", kind)
	return "name", a.err
}

func (a *recorder) RegistryText(key, name string) ([]string, error) {
	a.record("RegistryText", key, name)
	return []string{"text"}, a.err
}

func (a *recorder) WindowsDirectory() (string, error) {
	a.record("WindowsDirectory")
	return `C:\Windows`, a.err
}

// methods returns the methods of API.
func methods() []reflect.Method {
	var ms []reflect.Method
	api := reflect.TypeFor[API]()
	for i := range api.NumMethod() {
		ms = append(ms, api.Method(i))
	}
	return ms
}

// arguments returns values for m's parameters, all different.
func arguments(t *testing.T, m reflect.Method) []reflect.Value {
	t.Helper()
	var args []reflect.Value
	for i := range m.Type.NumIn() {
		var v any
		switch typ := m.Type.In(i); typ {
		case reflect.TypeFor[string]():
			v = fmt.Sprintf(`%s\%d`, m.Name, i)
		case reflect.TypeFor[uint32]():
			v = uint32(100 + i)
		case reflect.TypeFor[int64]():
			v = int64(1000 + i)
		case reflect.TypeFor[bool]():
			v = true
		case reflect.TypeFor[Handle]():
			v = Handle(10000 + i)
		case reflect.TypeFor[[]byte]():
			v = []byte(fmt.Sprintf("buffer %d", i))
		case reflect.TypeFor[GUID]():
			v = PARTITION_BASIC_DATA_GUID
		case reflect.TypeFor[Credentials]():
			v = Credentials{"user", "domain", NewSecret("password")}
		case reflect.TypeFor[NewUse]():
			v = NewUse{`\\server\share`, "user", "domain", NewSecret("password"), 8}
		case reflect.TypeFor[func(API) error]():
			v = func(API) error { return nil }
		case reflect.TypeFor[FormatOptions]():
			v = FormatOptions{4096, true}
		default:
			if v = iscsiArgument(typ.String()); v != nil {
				break
			}
			t.Fatalf("%s has a parameter of type %s: give it a value here", m.Name, typ)
		}
		args = append(args, reflect.ValueOf(v))
	}
	return args
}

func call(api API, m reflect.Method, args []reflect.Value) (results []any, err error) {
	out := reflect.ValueOf(api).MethodByName(m.Name).Call(args)
	for _, r := range out[:len(out)-1] {
		results = append(results, r.Interface())
	}
	err, _ = out[len(out)-1].Interface().(error)
	return results, err
}

func values(args []reflect.Value) []any {
	var vs []any
	for _, a := range args {
		if a.Kind() != reflect.Func { // functions cannot be compared
			vs = append(vs, a.Interface())
		}
	}
	return vs
}

// Every method calls the hook once, under its own name, and then the API once
// with the same arguments, and returns the API's results.
func TestObserveEveryMethod(t *testing.T) {
	if len(methods()) < 20 {
		t.Fatalf("API has %d methods", len(methods()))
	}
	for _, m := range methods() {
		for _, failure := range []error{nil, ERROR_MORE_DATA} {
			behind := &recorder{err: failure}
			var seen []string
			api := Observe(behind, func(c *Call) error {
				seen = append(seen, c.Name)
				if len(behind.calls) != 0 {
					t.Errorf("%s was called before its hook called Do", m.Name)
				}
				return c.Do()
			})
			args := arguments(t, m)
			got, err := call(api, m, args)

			if !slices.Equal(seen, []string{m.Name}) {
				t.Errorf("the hook saw %q, want %s once", seen, m.Name)
			}
			if want := append([]any{m.Name}, values(args)...); len(behind.calls) != 1 || !reflect.DeepEqual(behind.calls[0], want) {
				t.Errorf("%s reached the API as %v, want %v", m.Name, behind.calls, want)
			}
			want, _ := call(&recorder{err: failure}, m, arguments(t, m))
			if !reflect.DeepEqual(got, want) || err != failure {
				t.Errorf("%s returned %v, %v; want %v, %v", m.Name, got, err, want, failure)
			}
		}
	}
}

// A hook that does not call Do replaces the call, both with an error and with
// success.
func TestObserveReplacesCall(t *testing.T) {
	for _, m := range methods() {
		for _, answer := range []error{nil, ERROR_IO_DEVICE, STATUS_ACCESS_DENIED} {
			behind := &recorder{}
			got, err := call(Observe(behind, func(*Call) error { return answer }), m, arguments(t, m))
			if err != answer {
				t.Errorf("%s returned %v, want the hook's %v", m.Name, err, answer)
			}
			for _, r := range got {
				if !reflect.ValueOf(r).IsZero() {
					t.Errorf("%s, replaced by its hook, returned %v", m.Name, r)
				}
			}
			if len(behind.calls) != 0 {
				t.Errorf("%s was called, but its hook did not call Do", m.Name)
			}
		}
	}
}

// A hook may make the call and still return an error, like a lost response.
func TestObserveFailureAfterCall(t *testing.T) {
	behind := &recorder{}
	api := Observe(behind, func(c *Call) error {
		if err := c.Do(); err != nil {
			return err
		}
		return ERROR_BUSY
	})
	if err := api.SetMountPoint("d", "v"); err != ERROR_BUSY || len(behind.calls) != 1 {
		t.Errorf("got %v after %d calls, want ERROR_BUSY after one", err, len(behind.calls))
	}
}

// The hook gets the arguments of a call, and after Do its results.
func TestObserveCall(t *testing.T) {
	var calls []Call
	var after []string
	api := Observe(&recorder{}, func(c *Call) error {
		calls = append(calls, *c)
		err := c.Do()
		after = append(after, string(c.Out[:c.N]))
		return err
	})
	api.DeviceIoControl(5, IOCTL_DISK_GET_LENGTH_INFO, []byte("in"), make([]byte, 8))
	api.ReadAt(5, make([]byte, 8), 0)
	api.WriteAt(5, []byte("data"), 0)
	api.QueryDirectory(5, true, make([]byte, 8))
	api.QueryInformation(5, FileStandardInformation, make([]byte, 8))
	api.SetInformation(5, FileDispositionInformation, []byte{1})
	api.SetSecurity(5, []byte{1})
	api.FinalPath(5, VOLUME_NAME_GUID)
	want := []struct {
		code    uint32
		in, out string
	}{
		{IOCTL_DISK_GET_LENGTH_INFO, "in", "io"}, {0, "", "r"}, {0, "data", ""}, {0, "", "dir"},
		{FileStandardInformation, "", "info"}, {FileDispositionInformation, "\x01", ""}, {0, "\x01", ""}, {VOLUME_NAME_GUID, "", ""},
	}
	for i, w := range want {
		c := calls[i]
		if c.Handle != 5 || c.Code != w.code || string(c.In) != w.in || after[i] != w.out {
			t.Errorf("the hook saw %s of handle %d, in %q, and then %q; want code %#x, in %q, then %q", &c, c.Handle, c.In, after[i], w.code, w.in, w.out)
		}
	}
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{Name: "Reenumerate"}, "Reenumerate"},
		{Call{Name: "DeviceIoControl", Path: `\\.\PhysicalDrive1`, Code: 0x7405C}, `DeviceIoControl "\\\\.\\PhysicalDrive1" 0x7405c`},
	} {
		if got := c.call.String(); got != c.want {
			t.Errorf("Call.String() = %s, want %s", got, c.want)
		}
	}
}

// A call on a handle has the path that the handle was opened with, until it is
// closed.
func TestObservePaths(t *testing.T) {
	var last Call
	behind := &recorder{}
	api := Observe(behind, func(c *Call) error {
		err := c.Do()
		last = *c
		return err
	})
	path := func(name, want string) {
		t.Helper()
		if last.Name != name || last.Path != want {
			t.Errorf("the hook saw %s of %q, want %s of %q", last.Name, last.Path, name, want)
		}
	}

	disk, _ := api.CreateFile(`\\.\PhysicalDrive1`, 0, 0, OPEN_EXISTING, 0)
	path("CreateFile", `\\.\PhysicalDrive1`)
	if last.Handle != disk || disk == 0 {
		t.Errorf("the hook saw the handle %d, the caller %d", last.Handle, disk)
	}
	api.FlushFileBuffers(disk)
	path("FlushFileBuffers", `\\.\PhysicalDrive1`)

	file, _ := api.NtCreateFile(disk, `a\b`, 0, 0, 0, FILE_OPEN, 0)
	path("NtCreateFile", `\\.\PhysicalDrive1\a\b`)
	api.QueryInformation(file, FileStandardInformation, nil)
	path("QueryInformation", `\\.\PhysicalDrive1\a\b`)
	api.CloseHandle(file)
	path("CloseHandle", `\\.\PhysicalDrive1\a\b`)
	api.CloseHandle(file)
	path("CloseHandle", "")

	file, _ = api.NtCreateFile(0, `\??\C:\dir`, 0, 0, 0, FILE_OPEN, 0)
	path("NtCreateFile", `\??\C:\dir`)
	api.SetInformation(file, FileDispositionInformation, nil)
	path("SetInformation", `\??\C:\dir`)

	// A handle that failed to open has no path.
	behind.err = ERROR_FILE_NOT_FOUND
	api.CreateFile(`\\.\PhysicalDrive9`, 0, 0, OPEN_EXISTING, 0)
	api.FlushFileBuffers(disk)
	path("FlushFileBuffers", `\\.\PhysicalDrive1`)
}

// The hook sees the calls that a function makes with a privilege, and they know the
// paths of handles.
func TestObserveWithPrivilege(t *testing.T) {
	var seen []string
	behind := &recorder{}
	api := Observe(behind, func(c *Call) error {
		seen = append(seen, c.Name+" "+c.Path)
		return c.Do()
	})
	h, _ := api.NtCreateFile(0, `\??\C:\link`, 0, 0, 0, FILE_CREATE, 0)
	err := api.WithPrivilege(SE_CREATE_SYMBOLIC_LINK_NAME, func(api API) error {
		if _, err := api.DeviceIoControl(h, FSCTL_SET_REPARSE_POINT, nil, nil); err != nil {
			return err
		}
		return ERROR_PRIVILEGE_NOT_HELD
	})
	want := []string{`NtCreateFile \??\C:\link`, "WithPrivilege SeCreateSymbolicLinkPrivilege", `DeviceIoControl \??\C:\link`}
	if err != ERROR_PRIVILEGE_NOT_HELD || !slices.Equal(seen, want) {
		t.Errorf("got %v and the calls %q, want the error of the function and %q", err, seen, want)
	}
}

// Observers nest, the last one outermost, and are safe for concurrent use.
func TestObserveNested(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(who string) func(*Call) error {
		return func(c *Call) error {
			mu.Lock()
			seen = append(seen, who+" before")
			mu.Unlock()
			err := c.Do()
			mu.Lock()
			seen = append(seen, who+" after")
			mu.Unlock()
			return err
		}
	}
	api := Observe(Observe(&recorder{err: ERROR_CRC}, note("inner")), note("outer"))
	if err := api.Reenumerate(); !errors.Is(err, ERROR_CRC) {
		t.Errorf("got %v, want ERROR_CRC", err)
	}
	if want := []string{"outer before", "inner before", "inner after", "outer after"}; !slices.Equal(seen, want) {
		t.Errorf("the hooks ran %q, want %q", seen, want)
	}

	quiet := Observe(opener{}, func(c *Call) error { return c.Do() })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				h, _ := quiet.CreateFile("x", 0, 0, OPEN_EXISTING, 0)
				quiet.FlushFileBuffers(h)
				quiet.CloseHandle(h)
			}
		})
	}
	wg.Wait()
}

// opener records nothing, so that it may be used concurrently.
type opener struct{ API }

func (opener) CreateFile(string, uint32, uint32, uint32, uint32) (Handle, error) { return 1, nil }
func (opener) FlushFileBuffers(Handle) error                                     { return nil }
func (opener) CloseHandle(Handle) error                                          { return nil }
