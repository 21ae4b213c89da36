package utils

import (
	"errors"
	"io/fs"
	"runtime"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestEnsureLongPath(t *testing.T) {
	for in, want := range map[string]string{
		`C:\a\`:                     `\\?\C:\a\`,
		`\\?\C:\a`:                  `\\?\C:\a`,
		`\\server\share\`:           `\\?\UNC\server\share\`,
		`\\?\UNC\server\share`:      `\\?\UNC\server\share`,
		`\\?\Volume{a}\`:            `\\?\Volume{a}\`,
		`\\.\pipe\csi-proxy-smb-v1`: `\\.\pipe\csi-proxy-smb-v1`,
		``:                          `\\?\`,
	} {
		if got := EnsureLongPath(in); got != want {
			t.Errorf("EnsureLongPath(%q) = %q, want %q", in, got, want)
		}
	}
}

// emulatedHost returns a node with the directory C:\a and a data volume
// mounted at C:\mounted.
func emulatedHost(t *testing.T) host {
	t.Helper()
	const gib = 1 << 30
	em := nodetest.Open(t, nodespec.Config{
		Directories: []string{`C:\a`, `C:\mounted`},
		Disks: []nodespec.Disk{{Content: nodespec.ContentSystem},
			{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}},
	}, emulated.Machine{})
	id, err := em.VolumeNameForMountPoint(`E:\`)
	if err != nil {
		t.Fatal(err)
	}
	if err := em.SetMountPoint(`C:\mounted\`, id); err != nil {
		t.Fatal(err)
	}
	return host{node: node.New(em)}
}

func TestLinksAndMounts(t *testing.T) {
	h := emulatedHost(t)
	for _, link := range []struct {
		at, to string
		isDir  bool
	}{{`C:\toDir`, `C:\a`, true}, {`C:\toFile`, `C:\missing`, false}, {`C:\toMissing`, `C:\missing`, true}, {`C:\toShare`, `\\server\share\`, true}} {
		for range 2 { // making the same link again succeeds
			if err := createSymlink(h, link.at, link.to, link.isDir); err != nil {
				t.Fatalf("CreateSymlink(%q, %q, %t): %v", link.at, link.to, link.isDir, err)
			}
		}
		if err := createSymlink(h, link.at, link.to, !link.isDir); hosterr.KindOf(err) != hosterr.ErrAlreadyExists {
			t.Errorf("a link of the other kind at %q: %v, want already-exists", link.at, err)
		}
	}
	for _, c := range []struct {
		path                string
		link, exists, valid bool
		missing             bool
	}{
		{path: `C:\a`, exists: true, valid: true},
		{path: `C:\mounted`, link: true, exists: true, valid: true},
		{path: `C:\toDir`, link: true, exists: true, valid: true},
		{path: `\\?\C:\toDir`, link: true, exists: true, valid: true},
		{path: `C:\toMissing`, link: true, exists: true, valid: true},
		{path: `C:\toFile`, link: true, exists: true, valid: true},
		{path: `C:\toMissing\b`, missing: true},
		{path: `C:\nothing`, missing: true},
	} {
		is, err := isLink(h, c.path)
		if is != c.link || c.missing != errors.Is(err, fs.ErrNotExist) || !c.missing && err != nil {
			t.Errorf("IsMountedFolder(%q) = %t, %v, want %t", c.path, is, err, c.link)
		}
		if exists, err := pathExists(h, c.path); exists != c.exists || err != nil {
			t.Errorf("PathExists(%q) = %t, %v, want %t", c.path, exists, err, c.exists)
		}
		if valid, err := isPathValid(h, c.path); valid != c.valid || err != nil {
			t.Errorf("IsPathValid(%q) = %t, %v, want %t", c.path, valid, err, c.valid)
		}
	}
	if err := createSymlink(h, `C:\rel`, `a`, true); hosterr.KindOf(err) != hosterr.ErrInvalid {
		t.Errorf("a relative target: %v, want invalid", err)
	}
	if err := createSymlink(h, `C:\none\link`, `C:\a`, true); !errors.Is(err, win32.ERROR_PATH_NOT_FOUND) && hosterr.KindOf(err) != hosterr.ErrNotFound {
		t.Errorf("a link in a directory that is missing: %v", err)
	}
}

func TestPathsOffWindows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a system that is not Windows")
	}
	_, valid := IsPathValid(`C:\`)
	_, exists := PathExists(`C:\`)
	_, mounted := IsMountedFolder(`C:\`)
	_, link := IsPathSymlink(`C:\`)
	for _, err := range []error{valid, exists, mounted, link, CreateSymlink(`C:\a`, `C:\b`, true)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, want errors.ErrUnsupported", err)
		}
	}
}
