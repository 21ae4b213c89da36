package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// Describe implements [admin.AdminServer]. Facts that Windows does not report are left out,
// and the error of the disk or volume says why.
func (s *Server) Describe(ctx context.Context, in *admin.DescribeRequest) (*admin.DescribeResponse, error) {
	if s.disks == nil || s.disks.Node().API == nil {
		return nil, hosterr.Text(hosterr.ErrUnimplemented, "this disk service cannot describe its node")
	}
	n := s.disks.Node()
	if in.Mappings {
		return s.mappings(ctx, n)
	}
	out := &admin.DescribeResponse{WorkingDirs: n.WorkingDirs}
	if s.problems != nil {
		out.Problems = s.problems()
	}
	// What hangs keeps nothing else from being described.
	var disks, volumes, links error
	path := in.Path
	if in.Name != "" {
		var found []string
		found, links = s.inDirs(ctx, n, "name "+in.Name, func(ctx context.Context, dir string) ([]string, error) { return find(ctx, n, dir, in.Name) })
		if len(found) > 0 {
			path, links = found[0], nil
			out.OtherPaths = found[1:]
		}
	}
	var way, sessions error
	var group sync.WaitGroup
	if path != "" {
		group.Go(func() {
			out.Way, way = ask(ctx, &s.questions, "path "+path, func(ctx context.Context) (*admin.Way, error) { return follow(ctx, n, path, smbapi.On(n).Mappings) })
			if errors.Is(way, hosterr.ErrUnavailable) {
				out.Way, way = &admin.Way{Path: path, Location: path, Error: way.Error()}, nil
			}
		})
	}
	if in.Links {
		group.Go(func() { out.Links, links = s.links(ctx, n) })
	}
	group.Go(func() {
		out.Disks, disks = s.describeDisks(ctx, n)
		s.addOfflineReasons(ctx, n, out.Disks)
	})
	group.Go(func() { out.Volumes, volumes = s.describeVolumes(ctx, n) })
	if in.Sessions {
		group.Go(func() { out.Sessions, sessions = s.sessions(ctx, n) })
	}
	group.Wait()
	if way != nil {
		return nil, way
	}
	out.SessionsError = textOf(sessions)
	out.DisksError, out.VolumesError, out.LinksError = textOf(disks), textOf(volumes), textOf(links)
	return out, ctx.Err()
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return node.Typed(err).Error()
}

// describeDisks describes all disks. One that does not report its number is left out, with an
// error if it does not answer at all.
func (s *Server) describeDisks(ctx context.Context, n *node.Node) ([]*admin.Disk, error) {
	paths, err := ask(ctx, &s.questions, "disks", func(context.Context) ([]string, error) { return storage.DiskPaths(n) })
	if err != nil {
		return nil, err
	}
	found, silent := make([]*admin.Disk, len(paths)), make([]error, len(paths))
	admin.EachDevice(len(paths), func(i int) {
		path := paths[i]
		number, err := ask(ctx, &s.questions, "number of "+path, func(ctx context.Context) (*uint32, error) {
			var is *uint32
			err := storage.VisitDisk(ctx, n, path, storage.Query, func(number uint32, _ *storage.Disk) { is = &number })
			return is, err
		})
		if err != nil {
			n.Log.Warn("Skipped a disk that does not respond", "device", path, "err", err)
		}
		if err != nil && !errors.Is(storage.Gone(err), hosterr.ErrNotFound) {
			silent[i] = hosterr.Wrap("ask for the number of", hosterr.Quote(path), err)
		}
		if err != nil || number == nil {
			return
		}
		out, err := ask(ctx, &s.questions, "disk "+path, func(ctx context.Context) (*admin.Disk, error) {
			out := &admin.Disk{}
			err := storage.VisitDisk(ctx, n, path, storage.Query, func(number uint32, d *storage.Disk) {
				out.Number = number
				if err := describe(ctx, d, out); err != nil {
					out.Error = err.Error()
				}
			})
			return out, err
		})
		if err != nil {
			out = &admin.Disk{Number: *number, Error: err.Error()}
		}
		found[i] = out
	})
	return slices.DeleteFunc(found, func(d *admin.Disk) bool { return d == nil }), cmp.Or(ctx.Err(), cmp.Or(silent...))
}

// describe adds to out what is known of a disk, until something fails.
func describe(ctx context.Context, d *storage.Disk, out *admin.Disk) error {
	desc, err := d.Descriptor(ctx)
	if err != nil {
		return err
	}
	out.Bus = storage.BusName(desc.BusType)
	geometry, err := d.Geometry(ctx)
	if err != nil {
		return err
	}
	out.SizeBytes = geometry.DiskSize
	attrs, err := d.Attributes(ctx)
	if err != nil {
		return err
	}
	out.Online = attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0
	out.ReadOnly = attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0
	if out.Online && !out.ReadOnly {
		if out.WriteProtected, err = d.WriteProtected(ctx); err != nil {
			return err
		}
	}
	if out.Clustered, err = d.Clustered(ctx); err != nil {
		return err
	}
	l, err := d.Layout(ctx)
	if err != nil {
		return err
	}
	out.Style, out.Identity = styleName(l), storage.Identity(l)
	for _, p := range storage.Used(l) {
		out.Partitions = append(out.Partitions, &admin.Partition{Number: p.Number, OffsetBytes: p.Offset, LengthBytes: p.Length})
	}
	return nil
}

func styleName(l win32.Layout) string {
	switch {
	case l.Style == win32.PARTITION_STYLE_GPT:
		return "GPT"
	case storage.Uninitialized(l):
		return "RAW"
	}
	return "MBR"
}

// describeVolumes describes all volumes that lie on disks.
func (s *Server) describeVolumes(ctx context.Context, n *node.Node) ([]*admin.Volume, error) {
	ids, err := ask(ctx, &s.questions, "volumes", func(context.Context) ([]string, error) { return n.API.VolumeNames() })
	if err != nil {
		return nil, err
	}
	found := make([]*admin.Volume, len(ids))
	admin.EachDevice(len(ids), func(i int) { found[i] = s.describeVolume(ctx, n, ids[i]) })
	return slices.DeleteFunc(found, func(v *admin.Volume) bool { return v == nil }), ctx.Err()
}

// describeVolume describes a volume, or returns nil if it is on no disk, such as a CD drive, or
// gone. It asks three times, so that of a volume that hangs it is known where it is.
func (s *Server) describeVolume(ctx context.Context, n *node.Node, id string) *admin.Volume {
	out := &admin.Volume{Id: id}
	mounted, err := ask(ctx, &s.questions, "mount points of "+id, func(context.Context) ([]string, error) { return n.API.VolumePathNames(id) })
	if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) {
		return nil
	}
	out.MountedAt, err = mounted, hosterr.Wrap("list its mount points", "", err)
	extents, failed := ask(ctx, &s.questions, "place of "+id, func(ctx context.Context) ([]win32.Extent, error) {
		extents, offline, err := storage.Locate(ctx, n, id)
		if offline {
			err = errOffline
		}
		return extents, err
	})
	if errors.Is(failed, errOffline) {
		out.Offline, out.Error = true, textOf(err)
		return out
	}
	if win32.IsCode(failed, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_FILE_NOT_FOUND) {
		return nil
	}
	for i, e := range extents {
		if i == 0 {
			out.OffsetBytes = e.Offset
		}
		out.Disks = append(out.Disks, e.Disk)
	}
	if err = cmp.Or(err, failed); err == nil {
		var is volumeState
		is, err = ask(ctx, &s.questions, "state of "+id, func(ctx context.Context) (volumeState, error) { return stateOf(ctx, n, id), nil })
		out.Offline, out.FileSystem, out.Label, out.SizeBytes, out.FreeBytes = is.offline, is.fileSystem, is.label, is.size, is.free
		err = cmp.Or(err, is.err)
	}
	out.Error = textOf(err)
	return out
}

// errOffline means that a volume does not report its place because it is offline.
var errOffline = errors.New("the volume is offline")

// volumeState is what is known of a volume's file system until something failed.
type volumeState struct {
	offline           bool
	fileSystem, label string
	size, free        uint64
	err               error
}

func stateOf(ctx context.Context, n *node.Node, id string) (s volumeState) {
	vol, err := storage.OpenVolume(ctx, n, id, storage.Query)
	if err != nil {
		s.err = err
		return s
	}
	s.offline, s.err = vol.Offline(ctx)
	vol.Close()
	if s.err != nil || s.offline {
		return s
	}
	info, err := n.API.VolumeInformation(id)
	if win32.IsCode(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
		return s
	}
	if err != nil {
		s.err = err
		return s
	}
	s.fileSystem, s.label = info.FileSystem, info.Label
	_, s.size, s.free, s.err = n.API.FreeSpace(id)
	return s
}

// sessions returns the sessions of the iSCSI initiator, and none if its service does not run. A
// session that does not report its disks has an error.
func (s *Server) sessions(ctx context.Context, n *node.Node) ([]*admin.Session, error) {
	host := iscsiapi.On(n)
	all, err := ask(ctx, &s.questions, "sessions", func(context.Context) ([]iscsiapi.Session, error) { return host.Sessions() })
	if errors.Is(err, hosterr.ErrFailedPrecondition) || errors.Is(err, hosterr.ErrUnimplemented) {
		return nil, nil
	}
	found := make([]*admin.Session, len(all))
	admin.EachDevice(len(all), func(i int) {
		disks, err := ask(ctx, &s.questions, "disks of session "+all[i].ID, func(context.Context) ([]uint32, error) { return host.DisksOf(all[i]) })
		if errors.Is(err, hosterr.ErrNotFound) {
			return // it ended
		}
		found[i] = &admin.Session{Target: all[i].IQN, Disks: disks, Error: textOf(err)}
		for _, p := range all[i].Portals {
			found[i].Portals = append(found[i].Portals, p.String())
		}
	})
	return slices.DeleteFunc(found, func(s *admin.Session) bool { return s == nil }), err
}

// mappings describes the SMB mappings.
func (s *Server) mappings(ctx context.Context, n *node.Node) (*admin.DescribeResponse, error) {
	host := smbapi.On(n)
	mappings, err := ask(ctx, &s.questions, "mappings", func(context.Context) ([]smbapi.Mapping, error) { return host.Mappings() })
	if err != nil {
		return nil, err
	}
	links, err := ask(ctx, &s.questions, "links to shares", func(context.Context) ([]smbapi.Link, error) { return host.Links() })
	if err != nil {
		return nil, err
	}
	out := &admin.DescribeResponse{}
	for _, m := range mappings {
		is := &admin.Mapping{Share: m.Share.String(), User: m.User, Status: m.Status.String(), Requires: requires(m)}
		for _, l := range links {
			if l.Share() == m.Share {
				is.UsedBy = append(is.UsedBy, l.Path)
			}
		}
		out.Mappings = append(out.Mappings, is)
	}
	return out, nil
}

// requires returns what the connection of a mapping must have.
func requires(m smbapi.Mapping) string {
	switch r := m.Requires; {
	case m.RequiresUnknown:
		return ""
	case r.Privacy && r.Integrity:
		return "privacy integrity"
	case r.Privacy:
		return "privacy"
	case r.Integrity:
		return "integrity"
	}
	return "nothing"
}

// inDirs asks look for each working directory, and returns what it returns in their order. A
// directory that does not answer keeps none of the others from it; its error is returned as well.
func (s *Server) inDirs(ctx context.Context, n *node.Node, about string, look func(ctx context.Context, dir string) ([]string, error)) ([]string, error) {
	dirs := kubeletDirs(n)
	found, errs := make([][]string, len(dirs)), make([]error, len(dirs))
	admin.EachDevice(len(dirs), func(i int) {
		in, err := ask(ctx, &s.questions, about+" in "+dirs[i], func(ctx context.Context) ([]string, error) { return look(ctx, dirs[i]) })
		found[i], errs[i] = in, hosterr.Wrap("look in", dirs[i], err)
	})
	return slices.Concat(found...), cmp.Or(errs...)
}

// find returns where in a directory the kubelet publishes a persistent volume or the volumes of the
// pod with this UID, or where it stages the volume with this handle, if it does. The directories
// are those of the kubelet's CSI plugin since Kubernetes 1.24: the name of a persistent volume is
// in none of those for staging, which have the hash of the volume handle.
func find(ctx context.Context, n *node.Node, dir, name string) (found []string, err error) {
	err = published(ctx, n, dir, func(pod, volume, path string) error {
		switch {
		case strings.EqualFold(volume, name):
			found = []string{path}
			return fs.SkipAll
		case strings.EqualFold(pod, name):
			found = append(found, path)
		case found != nil: // the pod has no more
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case found != nil:
		return found, nil
	case err != nil:
		return nil, err
	}
	handle := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	plugins := dir + `\plugins\kubernetes.io\csi`
	drivers, err := entries(ctx, n, plugins, "")
	for _, driver := range drivers {
		staged := plugins + `\` + driver.Name + `\` + handle
		switch exists, err := winfs.Exists(ctx, n, staged); {
		case err != nil:
			return nil, err
		case exists:
			return []string{staged + `\globalmount`}, nil
		}
	}
	return nil, err
}

// kubeletDirs returns the working directories, or the usual one of the kubelet.
func kubeletDirs(n *node.Node) []string {
	if len(n.WorkingDirs) == 0 {
		return []string{`C:\var\lib\kubelet`}
	}
	var dirs []string
	for _, dir := range n.WorkingDirs {
		dirs = append(dirs, strings.TrimRight(dir, `\/`))
	}
	return dirs
}

// published calls visit with each volume of a pod in a directory of the kubelet, and the path
// at which the pod has it, until it fails.
func published(ctx context.Context, n *node.Node, dir string, visit func(pod, volume, path string) error) error {
	dir += `\pods`
	pods, err := entries(ctx, n, dir, "")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		below := pod.Name + `\volumes\kubernetes.io~csi`
		volumes, err := entries(ctx, n, dir, below)
		if err != nil {
			return err
		}
		for _, v := range volumes {
			if err := visit(pod.Name, v.Name, dir+`\`+below+`\`+v.Name+`\mount`); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns what is in the directory below in dir, and nothing if it does not exist, is a
// link, or cannot be read. It fails if the device does not respond.
func entries(ctx context.Context, n *node.Node, dir, below string) ([]winfs.Entry, error) {
	list, err := winfs.ReadDirBelow(ctx, n, dir, below)
	if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DIRECTORY, win32.ERROR_REPARSE_POINT_ENCOUNTERED) {
		return nil, nil
	}
	if err != nil && ctx.Err() == nil && !winfs.IsAway(err) {
		n.Log.Warn("Skipped a directory that cannot be read", "path", dir+`\`+below, "err", err)
		return nil, nil
	}
	return list, err
}

// maxLinks is the most links that a description has; more could exceed the size of an answer.
const maxLinks = 2000

// links returns where the kubelet's paths of volumes lead. One that does not answer has an error,
// and one without hops is a plain directory, or not made yet.
func (s *Server) links(ctx context.Context, n *node.Node) ([]*admin.Way, error) {
	paths, unseen := s.inDirs(ctx, n, "links", func(ctx context.Context, dir string) ([]string, error) { return linksIn(ctx, n, dir) })
	paths = paths[:min(len(paths), maxLinks)]
	mappings := sync.OnceValues(func() ([]smbapi.Mapping, error) {
		return ask(ctx, &s.questions, "mappings", func(context.Context) ([]smbapi.Mapping, error) { return smbapi.On(n).Mappings() })
	})
	hurried, cancel := context.WithTimeout(ctx, 2*patience) // in all
	defer cancel()
	ways := make([]*admin.Way, len(paths))
	admin.EachDevice(len(paths), func(i int) {
		way, err := ask(hurried, &s.questions, "link "+paths[i], func(ctx context.Context) (*admin.Way, error) { return follow(ctx, n, paths[i], mappings) })
		if err != nil {
			way = &admin.Way{Path: paths[i], Location: paths[i], Error: textOf(err)}
		}
		ways[i] = way
	})
	return ways, unseen
}

// linksIn returns where in a directory the kubelet may have links and mount points of volumes:
// those of pods, and of staged volumes, which are named globalmount and at most five directories
// below plugins.
func linksIn(ctx context.Context, n *node.Node, dir string) (all []string, err error) {
	look := func(path string) {
		if len(all) < maxLinks {
			all = append(all, path)
		}
	}
	var staged func(dir, below string, depth int) error
	staged = func(dir, below string, depth int) error {
		list, err := entries(ctx, n, dir, below)
		for _, e := range list {
			switch path := strings.TrimPrefix(below+`\`+e.Name, `\`); {
			case err != nil:
			case winpath.Fold(e.Name) == "GLOBALMOUNT":
				look(dir + `\` + path)
			case depth > 0 && e.IsDir() && !e.IsLink():
				err = staged(dir, path, depth-1)
			}
		}
		return err
	}
	if err = published(ctx, n, dir, func(_, _, path string) error { look(path); return nil }); err == nil {
		err = staged(dir+`\plugins`, "", 5)
	}
	return all, err
}

func follow(ctx context.Context, n *node.Node, path string, list func() ([]smbapi.Mapping, error)) (*admin.Way, error) {
	t, err := winfs.Follow(ctx, n, path)
	if err != nil {
		return nil, err
	}
	out := &admin.Way{Path: path, Location: t.At.String(), Missing: strings.Join(t.Missing, `\`)}
	for _, h := range t.Hops {
		kind := "symbolic link"
		switch {
		case h.Volume != "":
			kind = "mount point"
		case h.Tag == win32.IO_REPARSE_TAG_MOUNT_POINT:
			kind = "junction"
		}
		out.Hops = append(out.Hops, &admin.Hop{Path: h.Path, Kind: kind, Target: h.Target, Volume: h.Volume})
	}
	if t.Err != nil {
		out.Error = node.Typed(t.Err).Error()
	}
	share, ok := t.At.Share()
	if !ok {
		return out, nil
	}
	out.Share = t.At.Volume
	mappings, err := list()
	if err != nil {
		out.Error = err.Error()
	}
	for _, m := range mappings {
		if m.Share == share {
			out.ShareStatus = m.Status.String()
		}
	}
	return out, nil
}
