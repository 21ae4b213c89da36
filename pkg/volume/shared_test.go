package volume_test

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const discovery = `C:\mnt\disks`

// shared is a node with an NTFS volume that is mounted in the discovery directory, and has
// the directories a and b.
func shared(t *testing.T) (f *fixture, id string) {
	t.Helper()
	f = newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	f.Node.WorkingDirs, f.Node.FormatExisting = []string{`C:\mnt`, kubelet}, true
	for _, dir := range []string{`C:\mnt\all`, discovery, kubelet + `\pods`} {
		f.mkdir(dir)
	}
	id = f.id(1)
	if err := f.mount(id, `C:\mnt\all`); err != nil {
		t.Fatal(err)
	}
	f.mkdir(`C:\mnt\all\a`, `C:\mnt\all\b`)
	return f, id
}

// A volume is not formatted, whatever the flags are, while a part of it is in use as a volume
// of its own.
func TestFormatVolumeKeepsPartsInUse(t *testing.T) {
	const pod = kubelet + `\pods\1`
	for name, c := range map[string]struct {
		path, to string
		kept     bool
	}{
		"discovery directory":             {discovery + `\pv-b`, `C:\mnt\all\b`, true},
		"other case":                      {discovery + `\pv-b`, `c:\MNT\ALL\B`, true},
		"local volume of a pod":           {pod + `\volumes\kubernetes.io~local-volume\pv-b`, `C:\mnt\all\b`, true},
		"CSI volume of a pod":             {pod + `\volumes\kubernetes.io~csi\pv-b\mount`, `C:\mnt\all\b`, true},
		"subpath of a pod":                {pod + `\volume-subpaths\pv\container\0`, `C:\mnt\all\b`, true},
		"staged volume":                   {kubelet + `\plugins\kubernetes.io\csi\x\y\globalmount`, `C:\mnt\all\b`, true},
		"the root, as before":             {discovery + `\pv-b`, `C:\mnt\all`, false},
		"nothing":                         {discovery + `\pv-b`, `C:\mnt\all\missing`, false},
		"another volume":                  {discovery + `\pv-b`, kubelet, false},
		"outside the working directories": {discovery + `\pv-b`, `C:\`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, id := shared(t)
			f.mkdir(c.path[:strings.LastIndex(c.path, `\`)])
			link := func(path, to string) {
				if err := winfs.Symlink(t.Context(), node.New(f.Windows), to, path); err != nil {
					t.Fatal(err)
				}
			}
			link(c.path, c.to)
			if !c.kept {
				if err := f.format(id); err != nil {
					t.Error(err)
				}
				return
			}
			f.unchanged(func() {
				err := f.format(id)
				wantKind(t, err, hosterr.ErrFailedPrecondition, c.path[len(`C:\`):])
			})
			link(discovery+`\through`, c.path) // the first one that is found is named
			f.unchanged(func() { wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "leads to a part of it") })
			if err := winfs.Remove(t.Context(), node.New(f.Windows), c.path); err != nil {
				t.Fatal(err)
			}
			if err := f.format(id); err != nil { // the other link leads nowhere
				t.Errorf("without the link: %v", err)
			}
		})
	}
}

// A link that leads through too many directories ends the search, and the error says which link it
// is and what to do.
func TestFormatVolumeNamesTheLinkThatCannotBeFollowed(t *testing.T) {
	f, id := shared(t)
	pod := kubelet + `\pods\1\volumes\kubernetes.io~empty-dir\x`
	f.mkdir(pod)
	if err := winfs.Symlink(t.Context(), node.New(f.Windows), pod+`\w`+strings.Repeat(`\x`, 100), pod+`\w`); err != nil {
		t.Fatal(err)
	}
	f.unchanged(func() {
		err := f.format(id)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "cannot find out whether a part of it is in use", hosterr.Quote(pod+`\w`), "leads through more than 1000 directories")
		if hint := hosterr.HintOf(err); !strings.Contains(hint, "remove the link") {
			t.Errorf("hint %q of %v", hint, err)
		}
	})
	if err := winfs.Remove(t.Context(), node.New(f.Windows), pod+`\w`); err != nil {
		t.Fatal(err)
	}
	if err := f.format(id); err != nil {
		t.Errorf("without the link: %v", err)
	}
}

// What was not looked at may lead to a part of the volume.
func TestFormatVolumeRefusesAfterIncompleteSearch(t *testing.T) {
	for name, fails := range map[string]func(c *win32.Call) error{
		"a directory that cannot be opened": func(c *win32.Call) error {
			if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, "pods") {
				return win32.STATUS_ACCESS_DENIED
			}
			return nil
		},
		"a directory that cannot be listed": func(c *win32.Call) error {
			if c.Name == "QueryDirectory" && strings.HasSuffix(c.Path, "pods") {
				return win32.ERROR_IO_DEVICE
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, id := shared(t)
			failed := false
			f.Observe(func(c *win32.Call) error {
				if err := fails(c); err != nil {
					failed = true
					return err
				}
				return c.Do()
			})
			err := f.format(id)
			f.Observe(nil)
			wantKind(t, err, hosterr.ErrFailedPrecondition, "cannot find out whether a part of it is in use", kubelet)
			if !failed {
				t.Error("nothing failed, so this test shows nothing")
			}
		})
	}
}
