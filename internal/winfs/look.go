package winfs

import (
	"context"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// Kind is what [Look] finds at a path.
type Kind uint32

// The kinds. The numbers are those of the API.
const (
	Absent    Kind = 1 + iota
	File           // or a link to a file that only its driver can follow
	Directory      // on which nothing is mounted
	Mounted        // a mount point of a volume that the node has
	Linked         // a symbolic link or a junction
	Broken         // a mount point or a link whose target the node does not have
)

// Look returns what is at path, and the volume of a mount point. It does not open the file
// system of that volume, whose disk may not respond, and no share to which a link leads, also by
// the letter of a drive, whose server may not respond: of these it asks only whether the node has
// the volume, and a mapping of the share. Of the target of any other link it asks whether it exists, as [LinkTargetExists]
// does; it fails if that is outside the working directories.
func Look(ctx context.Context, n *node.Node, path string) (kind Kind, volume string, err error) {
	err = run(ctx, n, "look at", path, func(o *op, p winpath.Path) (err error) {
		kind, volume, err = o.lookAt(p)
		return err
	})
	return kind, volume, err
}

func (o *op) lookAt(p winpath.Path) (Kind, string, error) {
	e, err := o.entry(p, win32.FILE_READ_ATTRIBUTES, reading)
	switch {
	case isMissing(err):
		return Absent, "", nil
	case err != nil:
		return 0, "", err
	}
	defer e.close()
	info, err := o.info(e.h)
	switch {
	case err != nil:
		return 0, "", err
	case !info.IsLink() && info.IsDir():
		return Directory, "", nil
	case !info.IsLink():
		return File, "", nil
	}
	link, linked, err := o.link(e.h)
	switch {
	case err != nil:
		return 0, "", err
	case !linked:
		return Directory, "", nil // unmounted meanwhile
	case link.Volume != "":
		kind, err := o.lookForVolume(link.Volume)
		return kind, link.Volume, err
	}
	kind, err := o.lookForTarget(e, link)
	return kind, "", err
}

// lookForVolume asks the mount manager for the volume of a mount point.
func (o *op) lookForVolume(volume string) (Kind, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	_, err := o.n.API.VolumeNameForMountPoint(volume)
	switch {
	case win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND):
		return Broken, nil
	case err != nil:
		return 0, err
	}
	return Mounted, nil
}

// lookForTarget looks for the direct target of a link.
func (o *op) lookForTarget(e entry, link Link) (Kind, error) {
	target, err := link.from(e.at.Dir())
	if err != nil {
		return 0, err
	}
	o.closed = true
	defer func() { o.closed = false }()
	t, err := o.entry(target, win32.FILE_READ_ATTRIBUTES, reading)
	var share *closedError
	switch {
	case errors.As(err, &share) && share.mapped:
		return Linked, nil
	case share != nil, isMissing(err):
		return Broken, nil
	case err != nil:
		return 0, err
	}
	t.close()
	return Linked, nil
}

// closedError is the error for a share that is not opened, because op.closed is set.
type closedError struct {
	error
	mapped bool // on this node
}
