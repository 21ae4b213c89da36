package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
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

func TestDirsCheck(t *testing.T) {
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

func TestParseDirsRefusesRelativePath(t *testing.T) {
	if _, err := policy.ParseDirs([]string{`C:\ok`, `var\lib`}); !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), `var\lib`) {
		t.Errorf("ParseDirs = %v, want ErrInvalid with the directory", err)
	}
	var none policy.Dirs
	if err := none.Check(`C:\a`); !errors.Is(err, hosterr.ErrPermissionDenied) {
		t.Errorf("without working directories Check = %v, want ErrPermissionDenied", err)
	}
}

func TestCheckReportsLinkBeforeTarget(t *testing.T) {
	r := policy.Rules{Dirs: dirs(t, `C:\var\lib\kubelet`)}
	err := r.Check(&filesystem.CreateSymlinkRequest{SourcePath: `C:\source`, TargetPath: `C:\target`})
	if err == nil || !strings.Contains(err.Error(), `path: C:\target is not within`) {
		t.Errorf("Check of a link with both paths outside = %v, want an error with the target", err)
	}
}

// The services return published errors for an empty path; LocalPath may be empty.
func TestCheckAcceptsEmptyPath(t *testing.T) {
	r := policy.Rules{Dirs: dirs(t, `C:\var\lib\kubelet`)}
	for _, in := range []any{
		&volume.MountVolumeRequest{}, &volume.UnmountVolumeRequest{}, &volume.GetVolumeIDFromTargetPathRequest{}, &volume.GetClosestVolumeIDFromTargetPathRequest{},
		&smb.NewSMBGlobalMappingRequest{RemotePath: `\\files\data`},
	} {
		if err := r.Check(in); err != nil {
			t.Errorf("Check(%T) without a path = %v, want nil", in, err)
		}
	}
}

// The directory of all pods is neither removed nor emptied, and may be used.
func TestPodsDirectoryIsKept(t *testing.T) {
	r := policy.Rules{Dirs: dirs(t, `D:\data`, `C:\var\lib\kubelet`)}
	for _, path := range []string{`C:\var\lib\kubelet\pods`, `c:\VAR\LIB\kubelet\PODS\`, `/var/lib/kubelet/pods`, `\var\lib\kubelet\pods`, `C:/var/lib/kubelet//pods/`} {
		for _, in := range []any{&filesystem.RmdirRequest{Path: path}, &filesystem.RmdirRequest{Path: path, Force: true}, &filesystem.RmdirContentsRequest{Path: path}} {
			if err := r.Check(in); !errors.Is(err, hosterr.ErrPermissionDenied) || !strings.Contains(err.Error(), path) {
				t.Errorf("Check(%+v) = %v, want ErrPermissionDenied with the path", in, err)
			}
		}
		for _, in := range []any{&filesystem.PathExistsRequest{Path: path}, &filesystem.MkdirRequest{Path: path}, &filesystem.RmdirRequest{Path: path + `\8d9f`}, &filesystem.RmdirContentsRequest{Path: path + `/8d9f`}} {
			if err := r.Check(in); err != nil {
				t.Errorf("Check(%+v) = %v, want nil", in, err)
			}
		}
	}
}

// The text of a path in the directories of Windows and of the programs that run containers is
// refused for whatever changes something, whatever the working directories are.
func TestOwnDirectoriesAreKept(t *testing.T) {
	r := policy.Rules{Dirs: dirs(t, `C:\`, `C:\ProgramData\containerd`, `C:\ProgramData\Kubernetes\kubelet`)}
	for path, want := range map[string]struct{ made, removed error }{
		`C:\Windows`:                               {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied},
		`c:/WINDOWS//System32`:                     {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied},
		`\Windows\Temp`:                            {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied},
		`C:\Program Files (x86)\a`:                 {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied},
		`C:\ProgramData\containerd\root`:           {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied},
		`C:\ProgramData\Kubernetes\logs`:           {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied},
		`C:\ProgramData`:                           {nil, hosterr.ErrPermissionDenied}, // with all that is in it
		`C:\ProgramData\csi`:                       {nil, nil},
		`C:\ProgramData\Kubernetes\kubelet\pods\a`: {nil, nil},
		`C:\Windows2`:                              {nil, nil},
		`D:\Windows`:                               {hosterr.ErrPermissionDenied, hosterr.ErrPermissionDenied}, // outside
	} {
		for _, in := range []any{&filesystem.MkdirRequest{Path: path}, &filesystem.CreateSymlinkRequest{SourcePath: `C:\a`, TargetPath: path}, &filesystem.CreateSymlinkRequest{SourcePath: path, TargetPath: `C:\a`},
			&volume.MountVolumeRequest{TargetPath: path}, &volume.UnmountVolumeRequest{TargetPath: path}, &smb.NewSMBGlobalMappingRequest{RemotePath: `\\files\data`, LocalPath: path}} {
			if err := r.Check(in); !errors.Is(err, want.made) {
				t.Errorf("Check(%+v) = %v, want %v", in, err, want.made)
			}
		}
		for _, in := range []any{&filesystem.RmdirRequest{Path: path, Force: true}, &filesystem.RmdirContentsRequest{Path: path}} {
			if err := r.Check(in); !errors.Is(err, want.removed) {
				t.Errorf("Check(%+v) = %v, want %v", in, err, want.removed)
			}
		}
		if err := r.Check(&filesystem.PathExistsRequest{Path: path}); (err != nil) != strings.HasPrefix(path, `D:`) {
			t.Errorf("Check of a look at %q = %v", path, err)
		}
	}
}
