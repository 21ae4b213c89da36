package wine

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
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

// A short name leads where the long one does.
func TestShortName(t *testing.T) {
	dir := `C:\var\lib\kubelet\` + t.Name()
	long := dir + `\volumes of a pod\kubernetes.io~csi`
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := native(t, dir)
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
	for _, path := range []string{long, short} {
		if exists, err := winfs.Exists(t.Context(), n, path); !exists || err != nil {
			t.Errorf("Exists(%q) = %t, %v", path, exists, err)
		}
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
