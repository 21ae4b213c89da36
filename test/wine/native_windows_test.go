package wine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fsapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// native returns the local Windows, confined to dir if that is not empty. At the
// end of the test no handle may be open.
func native(t *testing.T, dir string) *node.Node {
	t.Helper()
	n, err := node.Native()
	if err != nil {
		t.Fatal(err)
	}
	var handles nodetest.Handles
	here := node.New(win32.Observe(n.API, handles.Hook))
	if dir != "" {
		here.WorkingDirs = []string{dir}
	}
	t.Cleanup(func() {
		if open := handles.Open(); len(open) > 0 {
			t.Errorf("handles left open: %q", open)
		}
	})
	return here
}

// A short name leads where the long one does, and that is asked of a handle.
func TestShortName(t *testing.T) {
	dir := `C:\var\lib\kubelet\` + t.Name()
	long := dir + `\volumes of a pod\kubernetes.io~csi`
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := native(t, dir)
	t.Cleanup(winfs.KeepSystemRoot(n))
	asked := false
	n.API = win32.Observe(n.API, func(c *win32.Call) error {
		asked = asked || c.Name == "FinalPath"
		return c.Do()
	})
	u, err := windows.UTF16FromString(long)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]uint16, windows.MAX_PATH)
	size, err := windows.GetShortPathName(&u[0], &buf[0], uint32(len(buf)))
	if err != nil {
		t.Fatal(err)
	}
	short := windows.UTF16ToString(buf[:size])
	if len(short) == len(long) {
		t.Fatalf("the short name of %q is %q", long, short)
	}
	// The directory of the test has a short name, too, which is not in the working directory.
	short = dir + short[strings.LastIndex(short[:strings.LastIndex(short, `\`)], `\`):]
	for path, want := range map[string]bool{long: false, short: true} {
		asked = false
		if exists, err := winfs.Exists(t.Context(), n, path); !exists || err != nil || asked != want {
			t.Errorf("Exists(%q) = %t, %v; where it leads was asked: %t, want %t", path, exists, err, asked, want)
		}
	}
}

// The filesystem group on real files, checked with package os.
func TestFilesystem(t *testing.T) {
	dir := `C:\var\lib\kubelet\` + t.Name()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := filesystem.New(filesystemapi.On(native(t, dir)))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	exists := func(path string) bool {
		t.Helper()
		out, err := s.PathExists(ctx, &filesystem.PathExistsRequest{Path: path})
		if err != nil {
			t.Errorf("PathExists(%q): %v", path, err)
			return false
		}
		_, statErr := os.Stat(path)
		if (statErr == nil) != out.Exists {
			t.Errorf("PathExists(%q) = %t, but os.Stat returns %v", path, out.Exists, statErr)
		}
		return out.Exists
	}
	deep := dir + `\a\b\c`
	for range 2 { // the second call changes nothing
		if _, err := s.Mkdir(ctx, &filesystem.MkdirRequest{Path: deep}); err != nil {
			t.Fatalf("Mkdir(%q): %v", deep, err)
		}
	}
	if !exists(deep) || !exists(strings.ToUpper(deep)) || exists(dir+`\z`) || exists(dir+`\z\z`) {
		t.Error("want the new directory, in upper case too, and no others")
	}
	for i := range 300 { // more than one buffer of names
		if err := os.WriteFile(filepath.Join(deep, fmt.Sprintf("a file with a long name, number %d", i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if link, err := s.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: deep}); err != nil || link.IsSymlink {
		t.Errorf("IsSymlink of a directory = %+v, %v", link, err)
	}
	if _, err := s.Rmdir(ctx, &filesystem.RmdirRequest{Path: dir + `\a`}); !errors.Is(err, hosterr.ErrFailedPrecondition) || !exists(deep) {
		t.Errorf("Rmdir of a full directory: %v, want a failed precondition", err)
	}
	if err := os.WriteFile(dir+`\a\read only`, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RmdirContents(ctx, &filesystem.RmdirContentsRequest{Path: dir + `\a`}); err != nil {
		t.Errorf("RmdirContents: %v", err)
	}
	if left, err := os.ReadDir(dir + `\a`); err != nil || len(left) > 0 {
		t.Errorf("RmdirContents left %v, %v", left, err)
	}
	if _, err := s.Mkdir(ctx, &filesystem.MkdirRequest{Path: deep}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rmdir(ctx, &filesystem.RmdirRequest{Path: dir + `\a`, Force: true}); err != nil || exists(dir+`\a`) {
		t.Errorf("Rmdir with force: %v", err)
	}
	if _, err := s.Rmdir(ctx, &filesystem.RmdirRequest{Path: dir + `\a`}); !errors.Is(err, hosterr.ErrNotFound) {
		t.Errorf("Rmdir of a missing directory: %v, want not found", err)
	}
	if _, err := s.Rmdir(ctx, &filesystem.RmdirRequest{Path: dir + `\a`, Force: true}); err != nil {
		t.Errorf("Rmdir with force of a missing directory: %v, want success", err)
	}
	for _, outside := range []string{`C:\var\lib\kubelet\elsewhere`, `C:\windows\system32`, dir + `2`} {
		if _, err := s.Mkdir(ctx, &filesystem.MkdirRequest{Path: outside}); !errors.Is(err, hosterr.ErrPermissionDenied) {
			t.Errorf("Mkdir(%q) outside the working directory: %v, want a permission error", outside, err)
		}
	}
}

// The group through a pipe of the real daemon.
func TestFilesystemThroughPipe(t *testing.T) {
	start(t, csiProxy, `-working-dir=C:\wine`)
	c, err := fsclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const dir = `C:\wine\a\b`
	if err := os.MkdirAll(`C:\wine`, 0o755); err != nil {
		t.Fatal(err)
	}
	exists := func(want bool) {
		t.Helper()
		out, err := c.PathExists(t.Context(), &fsapi.PathExistsRequest{Path: dir})
		if err != nil || out.Exists != want {
			t.Errorf("PathExists = %v, %v, want %t", out, err, want)
		}
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("os.Stat: %v, want it to exist: %t", err, want)
		}
	}
	exists(false)
	if _, err := c.Mkdir(t.Context(), &fsapi.MkdirRequest{Path: dir}); err != nil {
		t.Errorf("Mkdir: %v", err)
	}
	exists(true)
	if _, err := c.Rmdir(t.Context(), &fsapi.RmdirRequest{Path: dir}); err != nil {
		t.Errorf("Rmdir: %v", err)
	}
	exists(false)
	_, err = c.Mkdir(t.Context(), &fsapi.MkdirRequest{Path: `C:\elsewhere`})
	if text := `path: C:\elsewhere is not within the working directories: [C:\wine C:\var\lib\kubelet]`; status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), text) {
		t.Errorf("Mkdir outside: %v, want PermissionDenied, %s", err, text)
	}
}

// The volume of C:, with calls that every Windows supports.
func TestVolumeOfDriveLetter(t *testing.T) {
	n := native(t, "")
	s, err := volume.New(volumeapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	want, err := n.API.VolumeNameForMountPoint(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.GetClosestVolumeIDFromTargetPath(t.Context(), &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: `C:\windows\system32`})
	if err != nil || id.VolumeID != want {
		t.Errorf("the volume of C:\\windows\\system32 is %+v, %v, want %s", id, err, want)
	}
	stats, err := s.GetVolumeStats(t.Context(), &volume.GetVolumeStatsRequest{VolumeID: want})
	_, total, _, spaceErr := n.API.FreeSpace(`C:\`)
	if err != nil || spaceErr != nil || stats.TotalBytes != int64(total) || stats.UsedBytes <= 0 || stats.UsedBytes > stats.TotalBytes {
		t.Errorf("stats %+v, %v; C: has %d bytes, %v", stats, err, total, spaceErr)
	}
	formatted, err := s.IsVolumeFormatted(t.Context(), &volume.IsVolumeFormattedRequest{VolumeID: want})
	if err != nil || !formatted.Formatted {
		t.Errorf("C: is formatted: %+v, %v", formatted, err)
	}
}
