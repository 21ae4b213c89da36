package winfs

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// keptRoot is the root of the drive of Windows, which stays open.
type keptRoot struct {
	h      win32.Handle
	volume string // "C:"
}

func keptOf(n *node.Node) *atomic.Pointer[keptRoot] {
	return node.Shared(n, "root of the drive of Windows", func() *atomic.Pointer[keptRoot] { return &atomic.Pointer[keptRoot]{} })
}

// KeepSystemRoot opens the root of the drive of Windows, below which operations on n open
// paths from then on, until release, which must not be called while an operation runs. That is
// for a server, which ends with its process and needs no release.
//
// An open handle keeps a volume from being locked and dismounted. The volume of Windows
// never can be (FSCTL_LOCK_VOLUME), so nothing is lost; no other root is kept. Nor does
// Windows change the letter of this drive (diskpart, assign). If something else does, the
// handle still leads to the volume of Windows, as the letter did when the process started.
//
// If that fails, operations open the root themselves, as that of any other drive.
func KeepSystemRoot(n *node.Node) (release func()) {
	o := &op{ctx: context.Background(), n: n}
	k, err := o.openSystemRoot()
	if err != nil {
		n.Log.Warn("Cannot keep the drive of Windows open, so operations on paths take a little longer", "err", err)
		return func() {}
	}
	keptOf(n).Store(k)
	return func() {
		keptOf(n).Store(nil)
		o.close(k.h)
	}
}

func (o *op) openSystemRoot() (*keptRoot, error) {
	windows, err := o.n.API.WindowsDirectory()
	if err != nil {
		return nil, err
	}
	dir, err := winpath.Parse(windows)
	if err != nil {
		return nil, err
	}
	h, err := o.openRootNow(dir.Root(), traverse, shareAll)
	return &keptRoot{h, dir.Volume}, err
}

// isLiteral reports whether a path without links on its way leads to where its text says, and
// may be read. Where another path leads must be asked of a handle.
//
// It is for paths on the drive of Windows, opened below the root that the process keeps. If
// there are no links, the location has the names of the path, except for:
//
//   - Names that Win32 changes, such as one that ends in a dot. They were refused before.
//   - Upper and lower case. Which letters differ in case only is certain for ASCII.
//   - Short names. One that Windows makes has a tilde and the form 8.3 (Microsoft: "Naming
//     Files, Paths, and Namespaces"). Another one can only be chosen by an account with
//     SeRestorePrivilege ([MS-FSCC], FileShortNameInformation). It may replace any file, also this
//     program, so it gains nothing by another name for a directory.
func (o *op) isLiteral(p winpath.Path) bool {
	if o.kept == nil || p.Volume != o.kept.volume {
		return false
	}
	for _, name := range p.Elems {
		if !winpath.IsASCII(name) || len(name) <= len("12345678.123") && strings.Contains(name, "~") {
			return false
		}
	}
	places := []winpath.Path{p}
	return len(o.dirs) == 0 || anyWithin(places, o.dirs) && o.allowInKubelet(places, o.dirs, reading) == nil
}
