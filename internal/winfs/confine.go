package winfs

import (
	"fmt"
	"sync/atomic"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// allow returns an error if confinement forbids u at rest below h. h is an open
// handle, so its location is final.
func (o *op) allow(h win32.Handle, rest []string, u intent) error {
	if len(o.dirs) == 0 && u == reading {
		return nil
	}
	if err := o.ctx.Err(); err != nil {
		return err
	}
	dos, named, err := o.finalPath(h, win32.VOLUME_NAME_DOS)
	if err != nil {
		return err
	}
	if named && dos.IsUNC() {
		if u <= linking || len(o.dirs) == 0 {
			return nil
		}
		return o.denied(dos.Join(rest...), "which is on a share; shares can only be read")
	}
	var places []winpath.Path
	if named {
		places = append(places, dos.Join(rest...))
		if err := o.allowInOwn(places[0], u); err != nil || len(o.dirs) == 0 {
			return err
		}
		if u != changing && anyWithin(places, o.dirs) {
			return o.allowInKubelet(places, o.dirs, u)
		}
	}
	if len(o.dirs) == 0 {
		return nil // the drive of Windows has a letter
	}
	vol, ok, err := o.finalPath(h, win32.VOLUME_NAME_GUID)
	if err != nil {
		return err
	}
	if ok {
		places = append(places, vol.Join(rest...))
	}
	if len(places) == 0 {
		return o.denied(winpath.Path{}, "which is not on a volume")
	}
	names, err := o.dirNames()
	if err != nil {
		return err
	}
	if ok {
		mounts, err := o.mounts(vol.Root())
		if err != nil {
			return err
		}
		for _, m := range mounts {
			places = append(places, m.Join(vol.Elems...).Join(rest...))
		}
	}
	if !anyWithin(places, names) {
		return o.denied(places[0], "which is not within the working directories "+fmt.Sprint(o.n.WorkingDirs))
	}
	if u == changing && anyWithin(names, places) {
		return o.denied(places[0], "which is or contains a working directory "+fmt.Sprint(o.n.WorkingDirs))
	}
	return o.allowInKubelet(places, names, u)
}

// allowInOwn returns an error if u would change something in the directories of Windows and of
// the programs that run containers ([winpath.Own]), or remove what contains one. p is a location
// by its DOS name, in which Windows prefers the letter of a drive to a folder.
func (o *op) allowInOwn(p winpath.Path, u intent) error {
	if u == reading {
		return nil
	}
	windows := node.Shared(o.n, "directory of Windows", func() *atomic.Pointer[winpath.Path] { return &atomic.Pointer[winpath.Path]{} })
	at := windows.Load()
	if at == nil {
		text, err := o.n.API.WindowsDirectory()
		if err != nil {
			return hosterr.Wrap("find the directory of Windows", "", err)
		}
		dir, err := winpath.Parse(text)
		if err != nil {
			return err
		}
		at = &dir
		windows.Store(at)
	}
	kubelet := at.Root().Join("ProgramData", "Kubernetes") // no flag of a driver in process says where it is
	if len(o.dirs) > 0 {
		kubelet = o.dirs[len(o.dirs)-1]
	}
	dir, own := winpath.OwnOf(*at, kubelet).Of(p, u == changing)
	if own && len(o.dirs) > 0 { // the kubelet's directory may be a link into one of them
		if _, err := o.dirNames(); err != nil {
			return err
		}
		dir, own = winpath.OwnOf(*at, o.kubelet).Of(p, u == changing)
	}
	if own {
		return o.denied(p, winpath.OwnDenied(dir))
	}
	return nil
}

// allowInKubelet returns an error if places are in the directory of the kubelet's keys, or
// if u would remove the directory of all pods.
func (o *op) allowInKubelet(places, dirs []winpath.Path, u intent) error {
	for _, p := range places {
		for _, dir := range dirs {
			if p.KubeletKeys(dir) {
				return o.denied(p, "which is in the directory of the kubelet's keys")
			}
			if u == changing && p.KubeletPods(dir) {
				return o.denied(p, "which is the kubelet's directory of all pods")
			}
		}
	}
	return nil
}

func anyWithin(ps, roots []winpath.Path) bool {
	for _, p := range ps {
		for _, r := range roots {
			if p.Within(r) {
				return true
			}
		}
	}
	return false
}

func (o *op) denied(p winpath.Path, why string) error {
	if p.Volume == "" {
		return hosterr.Text(hosterr.ErrPermissionDenied, "leads to a location %s", why)
	}
	return hosterr.Text(hosterr.ErrPermissionDenied, "leads to %s, %s", hosterr.Quote(p.String()), why)
}

// finalPath returns the location of h. ok is false if it has no name of that kind: a
// share has no volume name, and a volume that is not mounted has no DOS name. For a file
// that was deleted, the error is STATUS_FILE_DELETED; if its volume is mounted on a
// folder, that is so for VOLUME_NAME_GUID only.
func (o *op) finalPath(h win32.Handle, kind uint32) (p winpath.Path, ok bool, err error) {
	s, err := o.n.API.FinalPath(h, kind)
	if kind == win32.VOLUME_NAME_DOS && win32.IsCode(err, win32.ERROR_ACCESS_DENIED) {
		// A normalized path needs the right to list each directory above. On a share,
		// where a location only has to be on it, the path as it was opened will do.
		if p, ok := o.openedOnShare(h); ok {
			return p, true, nil
		}
	}
	if win32.IsCode(err, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED) {
		return winpath.Path{}, false, nil
	}
	if err != nil {
		return winpath.Path{}, false, err
	}
	p, err = winpath.Parse(s)
	if err == nil && len(p.Elems) >= 2 && winpath.SameName(p.Elems[0], "$Extend") && winpath.SameName(p.Elems[1], "$Deleted") {
		return winpath.Path{}, false, win32.STATUS_FILE_DELETED
	}
	return p, err == nil, err
}

// openedOnShare returns the path with which h was opened, if h is on a share.
func (o *op) openedOnShare(h win32.Handle) (winpath.Path, bool) {
	s, err := o.n.API.FinalPath(h, win32.VOLUME_NAME_DOS|win32.FILE_NAME_OPENED)
	if err != nil {
		return winpath.Path{}, false
	}
	p, err := winpath.Parse(s)
	return p, err == nil && p.IsUNC()
}

// dirNames returns all names of the working directories: as configured and, if they
// exist, with links resolved.
func (o *op) dirNames() ([]winpath.Path, error) {
	if o.resolved {
		return o.names, nil
	}
	o.names, o.kubelet = append(o.names, o.dirs...), winpath.Path{}
	unconfined := &op{ctx: o.ctx, n: o.n} // the administrator chose the directories
	defer unconfined.closeRoot()
	for i, d := range o.dirs {
		s, err := unconfined.walk(d, look, shareAll, plain, reading)
		if err != nil {
			if o.ctx.Err() != nil {
				return nil, err
			}
			continue // a working directory that cannot be opened allows nothing
		}
		for _, kind := range []uint32{win32.VOLUME_NAME_DOS, win32.VOLUME_NAME_GUID} {
			p, ok, err := o.finalPath(s.h, kind)
			if err != nil {
				unconfined.close(s.h)
				return nil, err
			}
			if ok {
				o.names = append(o.names, p.Join(s.rest...))
				if kind == win32.VOLUME_NAME_DOS && i == len(o.dirs)-1 {
					o.kubelet = p.Join(s.rest...)
				}
			}
		}
		unconfined.close(s.h)
	}
	o.resolved = true
	return o.names, nil
}

// mounts returns the paths at which a data volume is mounted. It returns none for the
// volume of Windows and for volumes that contain working directories: a mount point of
// such a volume inside a working directory was created by an attacker, and Windows
// registers such mount points, too, when it starts.
func (o *op) mounts(vol winpath.Path) ([]winpath.Path, error) {
	for _, name := range o.names {
		if name.Root().Equal(vol) {
			return nil, nil
		}
	}
	windows, err := o.n.API.WindowsDirectory()
	if err != nil {
		return nil, err
	}
	dir, err := winpath.Parse(windows)
	if err != nil {
		return nil, err
	}
	system, err := o.n.API.VolumeNameForMountPoint(dir.Root().String())
	if err != nil {
		return nil, err
	}
	if winpath.Fold(system) == winpath.Fold(vol.String()) {
		return nil, nil
	}
	names, err := o.n.API.VolumePathNames(vol.String())
	if err != nil {
		return nil, err
	}
	var ps []winpath.Path
	for _, name := range names {
		p, err := winpath.Parse(name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}
