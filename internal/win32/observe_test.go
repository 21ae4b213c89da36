package win32

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// answers is an API that notes what it was asked and answers something that can
// be told from nothing.
type answers struct {
	calls [][]any // method name and arguments
	err   error   // of every method
}

func (a *answers) note(args ...any) { a.calls = append(a.calls, args) }

func (a *answers) CreateFile(path string, access, share, disposition, flags uint32) (Handle, error) {
	a.note("CreateFile", path, access, share, disposition, flags)
	return 11, a.err
}

func (a *answers) CloseHandle(h Handle) error { a.note("CloseHandle", h); return a.err }

func (a *answers) DeviceIoControl(h Handle, code uint32, in, out []byte) (int, error) {
	a.note("DeviceIoControl", h, code, in, out)
	return copy(out, "io"), a.err
}

func (a *answers) ReadAt(h Handle, p []byte, off int64) (int, error) {
	a.note("ReadAt", h, p, off)
	return copy(p, "r"), a.err
}

func (a *answers) WriteAt(h Handle, p []byte, off int64) (int, error) {
	a.note("WriteAt", h, p, off)
	return 3, a.err
}

func (a *answers) FlushFileBuffers(h Handle) error { a.note("FlushFileBuffers", h); return a.err }

func (a *answers) Interfaces(class GUID) ([]Interface, error) {
	a.note("Interfaces", class)
	return []Interface{{"interface"}}, a.err
}

func (a *answers) Reenumerate() error { a.note("Reenumerate"); return a.err }

func (a *answers) VolumeNames() ([]string, error) {
	a.note("VolumeNames")
	return []string{"volume"}, a.err
}

func (a *answers) VolumeInformation(root string) (VolumeInfo, error) {
	a.note("VolumeInformation", root)
	return VolumeInfo{FileSystem: "NTFS"}, a.err
}

func (a *answers) FreeSpace(root string) (avail, total, free uint64, err error) {
	a.note("FreeSpace", root)
	return 1, 2, 3, a.err
}

func (a *answers) VolumePathName(p string) (string, error) {
	a.note("VolumePathName", p)
	return "path", a.err
}

func (a *answers) VolumeNameForMountPoint(root string) (string, error) {
	a.note("VolumeNameForMountPoint", root)
	return "name", a.err
}

func (a *answers) VolumePathNames(vol string) ([]string, error) {
	a.note("VolumePathNames", vol)
	return []string{"paths"}, a.err
}

func (a *answers) SetMountPoint(dir, vol string) error {
	a.note("SetMountPoint", dir, vol)
	return a.err
}

func (a *answers) DeleteMountPoint(dir string) error { a.note("DeleteMountPoint", dir); return a.err }

func (a *answers) Format(vol string, o FormatOptions) error {
	a.note("Format", vol, o)
	return a.err
}

func (a *answers) NtCreateFile(root Handle, name string, access, objAttr, share, disposition, options uint32) (Handle, error) {
	a.note("NtCreateFile", root, name, access, objAttr, share, disposition, options)
	return 12, a.err
}

func (a *answers) QueryDirectory(h Handle, restart bool, buf []byte) (int, error) {
	a.note("QueryDirectory", h, restart, buf)
	return copy(buf, "dir"), a.err
}

func (a *answers) QueryInformation(h Handle, class uint32, buf []byte) (int, error) {
	a.note("QueryInformation", h, class, buf)
	return copy(buf, "info"), a.err
}

func (a *answers) SetInformation(h Handle, class uint32, in []byte) error {
	a.note("SetInformation", h, class, in)
	return a.err
}

func (a *answers) FinalPath(h Handle, flags uint32) (string, error) {
	a.note("FinalPath", h, flags)
	return "final", a.err
}

func (a *answers) Attributes(path string) (uint32, error) {
	a.note("Attributes", path)
	return 0x10, a.err
}

func (a *answers) UseAdd(u NewUse) error { a.note("UseAdd", u); return a.err }

func (a *answers) UseEnum() ([]Use, error) {
	a.note("UseEnum")
	return []Use{{Remote: "share"}}, a.err
}

func (a *answers) UseDel(remote string, force uint32) error {
	a.note("UseDel", remote, force)
	return a.err
}

func (a *answers) WindowsDirectory() (string, error) {
	a.note("WindowsDirectory")
	return `C:\Windows`, a.err
}

// methods are those of API.
func methods() []reflect.Method {
	var ms []reflect.Method
	api := reflect.TypeFor[API]()
	for i := range api.NumMethod() {
		ms = append(ms, api.Method(i))
	}
	return ms
}

// arguments are values of m's parameters, each unlike the others.
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
		case reflect.TypeFor[NewUse]():
			v = NewUse{`\\server\share`, "user", "domain", NewSecret("password"), 8}
		case reflect.TypeFor[FormatOptions]():
			v = FormatOptions{"NTFS", "label", true, 4096}
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
		vs = append(vs, a.Interface())
	}
	return vs
}

// Every method goes through the hook once, under its own name, and to the API
// behind once, with the arguments that it was given; the answer comes back.
func TestObserveEveryMethod(t *testing.T) {
	if len(methods()) < 20 {
		t.Fatalf("API has %d methods", len(methods()))
	}
	for _, m := range methods() {
		for _, failure := range []error{nil, ERROR_MORE_DATA} {
			behind := &answers{err: failure}
			var seen []string
			api := Observe(behind, func(c *Call) error {
				seen = append(seen, c.Name)
				if len(behind.calls) != 0 {
					t.Errorf("%s was called before its hook let it", m.Name)
				}
				return c.Do()
			})
			args := arguments(t, m)
			got, err := call(api, m, args)

			if !slices.Equal(seen, []string{m.Name}) {
				t.Errorf("the hook saw %q, want %s once", seen, m.Name)
			}
			if want := append([]any{m.Name}, values(args)...); len(behind.calls) != 1 || !reflect.DeepEqual(behind.calls[0], want) {
				t.Errorf("%s arrived as %v, want %v", m.Name, behind.calls, want)
			}
			want, _ := call(&answers{err: failure}, m, arguments(t, m))
			if !reflect.DeepEqual(got, want) || err != failure {
				t.Errorf("%s answered %v, %v; want %v, %v", m.Name, got, err, want, failure)
			}
		}
	}
}

// A hook that does not call Do has answered in the place of the API, be it with
// an error or with success.
func TestObserveReplace(t *testing.T) {
	for _, m := range methods() {
		for _, answer := range []error{nil, ERROR_IO_DEVICE, STATUS_ACCESS_DENIED} {
			behind := &answers{}
			got, err := call(Observe(behind, func(*Call) error { return answer }), m, arguments(t, m))
			if err != answer {
				t.Errorf("%s answered %v, want the hook's %v", m.Name, err, answer)
			}
			for _, r := range got {
				if !reflect.ValueOf(r).IsZero() {
					t.Errorf("%s, replaced, answered %v", m.Name, r)
				}
			}
			if len(behind.calls) != 0 {
				t.Errorf("%s was called although the hook did not", m.Name)
			}
		}
	}
}

// A hook may do the call and then say that it failed, as a lost answer does.
func TestObserveAfter(t *testing.T) {
	behind := &answers{}
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

// The hook sees what the call is about, and after it what it answered.
func TestObserveCall(t *testing.T) {
	var calls []Call
	var after []string
	api := Observe(&answers{}, func(c *Call) error {
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
	api.FinalPath(5, VOLUME_NAME_GUID)
	want := []struct {
		code    uint32
		in, out string
	}{
		{IOCTL_DISK_GET_LENGTH_INFO, "in", "io"}, {0, "", "r"}, {0, "data", ""}, {0, "", "dir"},
		{FileStandardInformation, "", "info"}, {FileDispositionInformation, "\x01", ""}, {VOLUME_NAME_GUID, "", ""},
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

// A call on a handle says what the handle was opened with, until it is closed.
func TestObservePaths(t *testing.T) {
	var last Call
	behind := &answers{}
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

	// What failed to open has no path.
	behind.err = ERROR_FILE_NOT_FOUND
	api.CreateFile(`\\.\PhysicalDrive9`, 0, 0, OPEN_EXISTING, 0)
	api.FlushFileBuffers(disk)
	path("FlushFileBuffers", `\\.\PhysicalDrive1`)
}

// Observers stand around each other, the last one outside, and may be used by
// several goroutines.
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
	api := Observe(Observe(&answers{err: ERROR_CRC}, note("inner")), note("outer"))
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

// opener answers without noting anything, so that it may be shared.
type opener struct{ API }

func (opener) CreateFile(string, uint32, uint32, uint32, uint32) (Handle, error) { return 1, nil }
func (opener) FlushFileBuffers(Handle) error                                     { return nil }
func (opener) CloseHandle(Handle) error                                          { return nil }
