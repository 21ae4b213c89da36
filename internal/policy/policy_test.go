package policy_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

func dirs(t *testing.T, texts ...string) policy.Dirs {
	t.Helper()
	d, err := policy.ParseDirs(texts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPathsOfRequests(t *testing.T) {
	const kubelet = `C:\var\lib\kubelet`
	for _, c := range []struct {
		name, path, want string
		kind             error
	}{
		{"pods", kubelet + `\pods\pv1`, "", nil},
		{"plugins", kubelet + `\plugins\pv1`, "", nil},
		{"other case", `c:\VAR\LIB\KUBELET\pods`, "", nil},
		{"the directory itself", kubelet, "", nil},
		{"second directory", `D:\data\x`, "", nil},
		{"outside", `C:\foo\bar`, `path: C:\foo\bar is not within the working directories: [D:\data C:\var\lib\kubelet\]`, hosterr.ErrPermissionDenied},
		{"longer name", kubelet + `-evil\pods`, `path: C:\var\lib\kubelet-evil\pods is not within the working directories: [D:\data C:\var\lib\kubelet\]`, hosterr.ErrPermissionDenied},
		{"above", `C:\var\lib`, `path: C:\var\lib is not within the working directories: [D:\data C:\var\lib\kubelet\]`, hosterr.ErrPermissionDenied},
		{"outside and malformed", `C:\foo:bar`, `path contains invalid characters: C:\foo:bar`, hosterr.ErrInvalid},
		{"stream", kubelet + `\plugins\csi-plugin\pv1:foo`, `path contains invalid characters: C:\var\lib\kubelet\plugins\csi-plugin\pv1:foo`, hosterr.ErrInvalid},
		{"up", kubelet + `\pods\pv1\..\..\..\system32`, `path contains invalid characters: C:\var\lib\kubelet\pods\pv1\..\..\..\system32`, hosterr.ErrInvalid},
		{"share", `\\csi-plugin\..\..\..\system32`, `invalid character \ at beginning of path: \\csi-plugin\..\..\..\system32`, hosterr.ErrInvalid},
		{"relative", `pv1\foo`, `not an absolute Windows path: pv1\foo`, hosterr.ErrInvalid},
		{"too long", kubelet + strings.Repeat("a", 243), `path length 261 exceeds maximum characters: 260`, hosterr.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := dirs(t, `D:\data`, kubelet+`\`).Check(c.path)
			if c.kind == nil {
				if err != nil {
					t.Errorf("Check(%q) = %v, want nil", c.path, err)
				}
				return
			}
			if !errors.Is(err, c.kind) || err.Error() != c.want {
				t.Errorf("Check(%q) = %v\nwant %v: %s", c.path, err, c.kind, c.want)
			}
		})
	}
}

func TestWorkingDirectoriesMustBeAbsolute(t *testing.T) {
	if _, err := policy.ParseDirs([]string{`C:\ok`, `var\lib`}); !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), `var\lib`) {
		t.Errorf("ParseDirs = %v, want ErrInvalid that names the directory", err)
	}
	var none policy.Dirs
	if err := none.Check(`C:\a`); !errors.Is(err, hosterr.ErrPermissionDenied) {
		t.Errorf("without working directories Check = %v, want ErrPermissionDenied", err)
	}
}

// The services below: they remember that they were asked.
type fakeFS struct {
	filesystem.Interface
	asked *int
}
type fakeVolume struct {
	volume.Interface
	asked *int
}

func (f fakeFS) PathExists(context.Context, *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeFS) PathValid(context.Context, *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeFS) Mkdir(context.Context, *filesystem.MkdirRequest) (*filesystem.MkdirResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeFS) Rmdir(context.Context, *filesystem.RmdirRequest) (*filesystem.RmdirResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeFS) RmdirContents(context.Context, *filesystem.RmdirContentsRequest) (*filesystem.RmdirContentsResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeFS) CreateSymlink(context.Context, *filesystem.CreateSymlinkRequest) (*filesystem.CreateSymlinkResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeFS) IsSymlink(context.Context, *filesystem.IsSymlinkRequest) (*filesystem.IsSymlinkResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeVolume) MountVolume(context.Context, *volume.MountVolumeRequest) (*volume.MountVolumeResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeVolume) UnmountVolume(context.Context, *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeVolume) GetVolumeIDFromTargetPath(context.Context, *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	*f.asked++
	return nil, nil
}
func (f fakeVolume) GetClosestVolumeIDFromTargetPath(context.Context, *volume.GetClosestVolumeIDFromTargetPathRequest) (*volume.GetClosestVolumeIDFromTargetPathResponse, error) {
	*f.asked++
	return nil, nil
}

// TestEveryMethodWithAPathObeys finds the paths in the requests by their names, so
// that a method that is added without a check is found.
func TestEveryMethodWithAPathObeys(t *testing.T) {
	const inside, outside = `C:\var\lib\kubelet\pods`, `C:\Windows`
	d := dirs(t, `C:\var\lib\kubelet`)
	asked := 0
	checked := 0
	for _, group := range []reflect.Value{
		reflect.ValueOf(policy.Filesystem(fakeFS{asked: &asked}, d)),
		reflect.ValueOf(policy.Volume(fakeVolume{asked: &asked}, d)),
	} {
		for i := range group.NumMethod() {
			name := group.Type().Method(i).Name
			method := group.Method(i)
			request := method.Type().In(1)
			var paths []int
			for j := range request.Elem().NumField() {
				if f := request.Elem().Field(j); f.Type.Kind() == reflect.String && strings.HasSuffix(f.Name, "Path") {
					paths = append(paths, j)
				}
			}
			if len(paths) == 0 || name == "PathValid" {
				continue
			}
			call := func(in reflect.Value) error {
				out := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), in})
				err, _ := out[1].Interface().(error)
				return err
			}
			fill := func(bad int) reflect.Value {
				in := reflect.New(request.Elem())
				for _, j := range paths {
					in.Elem().Field(j).SetString(inside)
				}
				if bad >= 0 {
					in.Elem().Field(bad).SetString(outside)
				}
				return in
			}
			asked = 0
			for _, j := range paths {
				checked++
				if err := call(fill(j)); !errors.Is(err, hosterr.ErrPermissionDenied) || asked != 0 {
					t.Errorf("%s with %s %q = %v, service asked %d times; want ErrPermissionDenied and 0", name, request.Elem().Field(j).Name, outside, err, asked)
				}
			}
			if err := call(fill(-1)); err != nil || asked != 1 {
				t.Errorf("%s with all paths inside = %v, service asked %d times; want nil and 1", name, err, asked)
			}
			if err := call(reflect.Zero(request)); err != nil || asked != 2 {
				t.Errorf("%s(nil) = %v, service asked %d times; want it to decide", name, err, asked)
			}
		}
	}
	if checked != 11 {
		t.Errorf("checked %d paths, want 11: 7 of filesystem, 4 of volume", checked)
	}
}

func TestALinkIsCheckedBeforeWhatItLeadsTo(t *testing.T) {
	asked := 0
	fs := policy.Filesystem(fakeFS{asked: &asked}, dirs(t, `C:\var\lib\kubelet`))
	_, err := fs.CreateSymlink(t.Context(), &filesystem.CreateSymlinkRequest{SourcePath: `C:\source`, TargetPath: `C:\target`})
	if err == nil || !strings.Contains(err.Error(), `path: C:\target is not within`) {
		t.Errorf("CreateSymlink with both paths outside = %v, want the target named", err)
	}
}

func TestAnEmptyTargetPathIsForTheVolumeService(t *testing.T) {
	asked := 0
	v := policy.Volume(fakeVolume{asked: &asked}, dirs(t, `C:\var\lib\kubelet`))
	if _, err := v.MountVolume(t.Context(), &volume.MountVolumeRequest{}); err != nil || asked != 1 {
		t.Errorf("MountVolume without a path = %v, service asked %d times; want it to answer with its own text", err, asked)
	}
}
