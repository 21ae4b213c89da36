package winfs

import (
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// allow tells whether the operation may do u at rest below h, which is open and
// therefore cannot become something else.
func (o *op) allow(h win32.Handle, rest []string, u use) error {
	if len(o.dirs) == 0 {
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
		if u == reading {
			return nil
		}
		return o.denied(dos.Join(rest...), "which is on a share; shares may be looked at only")
	}
	var places []winpath.Path
	if named {
		places = append(places, dos.Join(rest...))
		if u != changing && anyWithin(places, o.dirs) {
			return nil
		}
	}
	vol, ok, err := o.finalPath(h, win32.VOLUME_NAME_GUID)
	if err != nil {
		return err
	}
	if ok {
		places = append(places, vol.Join(rest...))
	}
	if len(places) == 0 {
		return o.denied(winpath.Path{}, "which is on no volume")
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
		return o.denied(places[0], "which is or holds one of the working directories "+fmt.Sprint(o.n.WorkingDirs))
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
		return hosterr.Text(hosterr.ErrPermissionDenied, "leads to a place %s", why)
	}
	return hosterr.Text(hosterr.ErrPermissionDenied, "leads to %s, %s", hosterr.Quote(p.String()), why)
}

// finalPath asks where h is. ok is false if the place has no name of that sort: a
// share has no volume name, a volume that is mounted nowhere no DOS name.
func (o *op) finalPath(h win32.Handle, sort uint32) (p winpath.Path, ok bool, err error) {
	s, err := o.n.API.FinalPath(h, sort)
	if win32.IsCode(err, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED) {
		return winpath.Path{}, false, nil
	}
	if err != nil {
		return winpath.Path{}, false, err
	}
	p, err = winpath.Parse(s)
	return p, err == nil, err
}

// dirNames are the working directories under all their names: as configured and,
// where they can be reached at present, where links on the way lead.
func (o *op) dirNames() ([]winpath.Path, error) {
	if o.known {
		return o.names, nil
	}
	o.names = append(o.names, o.dirs...)
	free := &op{ctx: o.ctx, n: o.n} // they lead where the administrator says
	for _, d := range o.dirs {
		s, err := free.walk(d, look, shareAll, plain, reading)
		if err != nil {
			if o.ctx.Err() != nil {
				return nil, err
			}
			continue // a working directory that is out of reach allows nothing
		}
		for _, sort := range []uint32{win32.VOLUME_NAME_DOS, win32.VOLUME_NAME_GUID} {
			p, ok, err := o.finalPath(s.h, sort)
			if err != nil {
				o.close(s.h)
				return nil, err
			}
			if ok {
				o.names = append(o.names, p.Join(s.rest...))
			}
		}
		o.close(s.h)
	}
	o.known = true
	return o.names, nil
}

// mounts are the paths at which a data volume is mounted. The volume of Windows
// and those that hold the working directories have none here: a mount
// point of such a volume inside a working directory was planted, and Windows
// learns of planted ones too when it starts.
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
