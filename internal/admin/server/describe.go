package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// Describe implements [admin.AdminServer]. Facts that Windows does not report are left out,
// and the error of the disk or volume says why.
func (s *Server) Describe(ctx context.Context, in *admin.DescribeRequest) (*admin.DescribeResponse, error) {
	if s.disks == nil || s.disks.Node().API == nil {
		return nil, hosterr.Text(hosterr.ErrUnimplemented, "this disk service cannot describe its node")
	}
	n := s.disks.Node()
	out := &admin.DescribeResponse{WorkingDirs: n.WorkingDirs}
	path := in.Path
	if in.Name != "" {
		var err error
		if path, err = ask(ctx, &s.questions, "name "+in.Name, func(ctx context.Context) (string, error) { return find(ctx, n, in.Name) }); err != nil {
			return nil, hosterr.Wrap("look for", hosterr.Quote(in.Name), err)
		}
	}
	if path != "" {
		var err error
		if out.Way, err = ask(ctx, &s.questions, "path "+path, func(ctx context.Context) (*admin.Way, error) { return follow(ctx, n, path) }); errors.Is(err, hosterr.ErrUnavailable) {
			out.Way = &admin.Way{Path: path, Location: path, Error: err.Error()}
		} else if err != nil {
			return nil, err
		}
	}
	var err error
	if out.Disks, err = s.describeDisks(ctx, n); err != nil {
		return nil, hosterr.Wrap("describe the disks", "", err)
	}
	if out.Volumes, err = s.describeVolumes(ctx, n); err != nil {
		return nil, hosterr.Wrap("describe the volumes", "", err)
	}
	return out, nil
}

// describeDisks describes all disks. One that does not report its number is left out.
func (s *Server) describeDisks(ctx context.Context, n *node.Node) ([]*admin.Disk, error) {
	paths, err := ask(ctx, &s.questions, "disks", func(context.Context) ([]string, error) { return storage.DiskPaths(n) })
	if err != nil {
		return nil, err
	}
	found := make([]*admin.Disk, len(paths))
	each(len(paths), func(i int) {
		path := paths[i]
		number, err := ask(ctx, &s.questions, "number of "+path, func(ctx context.Context) (*uint32, error) {
			var is *uint32
			err := storage.VisitDisk(ctx, n, path, storage.Query, func(number uint32, _ *storage.Disk) { is = &number })
			return is, err
		})
		if err != nil {
			n.Log.Warn("Skipped a disk that does not respond", "device", path, "err", err)
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
	return slices.DeleteFunc(found, func(d *admin.Disk) bool { return d == nil }), ctx.Err()
}

// describe adds to out what is known of a disk, until something fails.
func describe(ctx context.Context, d *storage.Disk, out *admin.Disk) error {
	desc, err := d.Descriptor(ctx)
	if err != nil {
		return err
	}
	out.Bus = busName(desc.BusType)
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
	geometry, err := d.Geometry(ctx)
	if err != nil {
		return err
	}
	out.SizeBytes = geometry.DiskSize
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

// busName returns the name that Get-Disk has for a STORAGE_BUS_TYPE of ntddstor.h.
func busName(bus uint32) string {
	names := []string{"Unknown", "SCSI", "ATAPI", "ATA", "1394", "SSA", "Fibre Channel", "USB", "RAID", "iSCSI", "SAS", "SATA", "SD", "MMC",
		"Virtual", "File Backed Virtual", "Spaces", "NVMe", "SCM", "UFS"}
	if bus < uint32(len(names)) {
		return names[bus]
	}
	return fmt.Sprintf("bus %d", bus)
}

// describeVolumes describes all volumes that lie on disks.
func (s *Server) describeVolumes(ctx context.Context, n *node.Node) ([]*admin.Volume, error) {
	ids, err := ask(ctx, &s.questions, "volumes", func(context.Context) ([]string, error) { return n.API.VolumeNames() })
	if err != nil {
		return nil, err
	}
	found := make([]*admin.Volume, len(ids))
	each(len(ids), func(i int) {
		id := ids[i]
		out, err := ask(ctx, &s.questions, "volume "+id, func(ctx context.Context) (*admin.Volume, error) {
			extents, err := storage.Locate(ctx, n, id)
			if win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_FILE_NOT_FOUND) {
				return nil, nil // on no disk, such as a CD drive, or gone
			}
			if err != nil {
				return nil, err
			}
			out := &admin.Volume{Id: id}
			for i, e := range extents {
				if i == 0 {
					out.OffsetBytes = e.Offset
				}
				out.Disks = append(out.Disks, e.Disk)
			}
			if err := describeVolume(ctx, n, out); err != nil {
				out.Error = node.Typed(err).Error()
			}
			return out, nil
		})
		if err != nil {
			out = &admin.Volume{Id: id, Error: err.Error()}
		}
		found[i] = out
	})
	return slices.DeleteFunc(found, func(v *admin.Volume) bool { return v == nil }), ctx.Err()
}

// describeVolume adds to out what is known of a volume, until something fails.
func describeVolume(ctx context.Context, n *node.Node, out *admin.Volume) error {
	var err error
	if out.MountedAt, err = n.API.VolumePathNames(out.Id); err != nil {
		return err
	}
	vol, err := storage.OpenVolume(ctx, n, out.Id, storage.Query)
	if err != nil {
		return err
	}
	out.Offline, err = vol.Offline(ctx)
	vol.Close()
	if err != nil || out.Offline {
		return err
	}
	info, err := n.API.VolumeInformation(out.Id)
	if win32.IsCode(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
		return nil
	}
	if err != nil {
		return err
	}
	out.FileSystem, out.Label = info.FileSystem, info.Label
	_, out.SizeBytes, out.FreeBytes, err = n.API.FreeSpace(out.Id)
	return err
}

// find returns where the kubelet publishes a persistent volume or a volume of the pod with
// this UID, or where it stages the volume with this handle, or "". The directories are those
// of the kubelet's CSI plugin since Kubernetes 1.24: the name of a persistent volume is in none
// of those for staging, which have the hash of the volume handle.
func find(ctx context.Context, n *node.Node, name string) (string, error) {
	handle := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	dirs := n.WorkingDirs
	if len(dirs) == 0 {
		dirs = []string{`C:\var\lib\kubelet`}
	}
	for _, dir := range dirs {
		dir = strings.TrimRight(dir, `\/`)
		pods, err := entries(ctx, n, dir+`\pods`)
		if err != nil {
			return "", err
		}
		for _, pod := range pods {
			volumes, err := entries(ctx, n, dir+`\pods\`+pod+`\volumes\kubernetes.io~csi`)
			if err != nil {
				return "", err
			}
			for _, v := range volumes {
				if strings.EqualFold(v, name) || strings.EqualFold(pod, name) {
					return dir + `\pods\` + pod + `\volumes\kubernetes.io~csi\` + v + `\mount`, nil
				}
			}
		}
		plugins := dir + `\plugins\kubernetes.io\csi`
		drivers, err := entries(ctx, n, plugins)
		if err != nil {
			return "", err
		}
		for _, driver := range drivers {
			staged := plugins + `\` + driver + `\` + handle
			if exists, err := winfs.Exists(ctx, n, staged); err != nil || exists {
				return staged + `\globalmount`, err
			}
		}
	}
	return "", nil
}

// entries returns the names in a directory, and none if it does not exist or cannot be read.
func entries(ctx context.Context, n *node.Node, path string) ([]string, error) {
	list, err := winfs.ReadDir(ctx, n, path)
	if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_DIRECTORY) {
		return nil, nil
	}
	if err != nil {
		n.Log.Warn("Skipped a directory that cannot be read", "path", path, "err", err)
		return nil, ctx.Err()
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names, nil
}

func follow(ctx context.Context, n *node.Node, path string) (*admin.Way, error) {
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
	if !t.At.IsUNC() {
		return out, nil
	}
	out.Share = t.At.Volume
	mappings, err := smbapi.On(n).Mappings()
	if err != nil {
		out.Error = err.Error()
	}
	for _, m := range mappings {
		if winpath.SameShare(m.Remote, out.Share) {
			out.ShareStatus = m.Status.String()
		}
	}
	return out, nil
}
