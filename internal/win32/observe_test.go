package win32

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// recorder is an API that records calls of some methods, and returns results that differ from the
// zero value.
type recorder struct {
	API
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

func (a *recorder) Reenumerate() error { a.record("Reenumerate"); return a.err }

func (a *recorder) SetMountPoint(dir, vol string) error {
	a.record("SetMountPoint", dir, vol)
	return a.err
}

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

func (a *recorder) SetSecurity(h Handle, descriptor []byte) error {
	a.record("SetSecurity", h, descriptor)
	return a.err
}

func (a *recorder) FinalPath(h Handle, flags uint32) (string, error) {
	a.record("FinalPath", h, flags)
	return "final", a.err
}

func (a *recorder) UseAdd(u NewUse) error { a.record("UseAdd", u); return a.err }

func (a *recorder) WithPrivilege(privilege string, f func(API) error) error {
	a.record("WithPrivilege", privilege)
	if a.err != nil {
		return a.err
	}
	return f(a)
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

// Every method passes its arguments on, in their order, to the method of the same name, and calls
// itself by that name. (What the results are, every test of a node sees.)
func TestObserveEveryMethod(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || types.ExprString(fn.Recv.List[0].Type) != "*observed" || !fn.Name.IsExported() {
				continue
			}
			var want []string
			for _, p := range fn.Type.Params.List {
				for _, n := range p.Names {
					want = append(want, n.Name)
				}
			}
			seen = append(seen, fn.Name.Name)
			calls := 0
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if method, ok := strings.CutPrefix(types.ExprString(n.Fun), "o.api."); ok {
						calls++
						var have []string
						for i, a := range n.Args {
							have = append(have, types.ExprString(a))
							if _, ok := a.(*ast.FuncLit); ok { // that of WithPrivilege calls f with what it observes
								have[i] = "f"
							}
						}
						if method != fn.Name.Name || !slices.Equal(have, want) {
							t.Errorf("%s%q calls %s%q", fn.Name.Name, want, method, have)
						}
					}
				case *ast.KeyValueExpr:
					if types.ExprString(n.Key) == "Name" && types.ExprString(n.Value) != strconv.Quote(fn.Name.Name) {
						t.Errorf("%s calls itself %s", fn.Name.Name, types.ExprString(n.Value))
					}
				}
				return true
			})
			if calls == 0 {
				t.Errorf("%s calls nothing", fn.Name.Name)
			}
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, CallNames()) {
		t.Errorf("the methods are %q, want %q", seen, CallNames())
	}
}

// A hook that does not call Do replaces the call, both with an error and with
// success.
func TestObserveReplacesCall(t *testing.T) {
	for _, m := range methods() {
		for _, answer := range []error{nil, ERROR_IO_DEVICE, STATUS_ACCESS_DENIED} {
			hooked := 0
			got, err := call(Observe(nil, func(*Call) error { hooked++; return answer }), m, arguments(t, m))
			if err != answer || hooked != 1 {
				t.Errorf("%s returned %v after %d calls of its hook, want its %v after one", m.Name, err, hooked, answer)
			}
			for _, r := range got {
				if !reflect.ValueOf(r).IsZero() {
					t.Errorf("%s, replaced by its hook, returned %v", m.Name, r)
				}
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
