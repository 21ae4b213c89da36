// Package policy is what the daemon adds above the services: a caller behind a
// pipe may name paths in the node's working directories only, start and stop
// only services that are allowed, and map only shares of other machines. A driver
// in process has no such rules and does not come through here.
//
// [Rules.Check] looks at a request as the service gets it, whatever version it
// came in. What it does not know it lets pass: most requests name nothing that
// needs a rule. A test holds it to that: it fails for a text in a request of any
// Service that neither has a rule nor a reason to need none.
//
// The check of a path is of its text, with the published messages; it is the first
// of two. Where a path really leads is checked below, on open handles, by
// internal/winfs and the node's WorkingDirs. Both must agree.
package policy

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Dirs are working directories. The zero Dirs allow no path.
type Dirs struct {
	texts []string
	paths []winpath.Path
}

// ParseDirs reads working directories, in the order in which messages list
// them: those of the command line, then the kubelet's.
func ParseDirs(dirs []string) (Dirs, error) {
	paths, err := winpath.ParseList(dirs)
	if err != nil {
		return Dirs{}, err
	}
	return Dirs{texts: dirs, paths: paths}, nil
}

// Check returns nil if a request may name path, an error of kind
// hosterr.ErrInvalid if path breaks the rules of paths, and one of kind
// hosterr.ErrPermissionDenied if it is outside the working directories.
func (d Dirs) Check(path string) error {
	p, err := winpath.Validate(path)
	if err != nil {
		return err
	}
	for _, dir := range d.paths {
		if p.Within(dir) {
			return nil
		}
	}
	return hosterr.Text(hosterr.ErrPermissionDenied, "path: %s is not within the working directories: %v", path, d.texts)
}

// Rules are what callers behind a pipe may name. The zero Rules allow no path, no
// service and no share of this node.
type Rules struct {
	Dirs     Dirs     // working directories
	Services []string // Windows services that may be started and stopped
	SMB      SMBRules // shares that may be mapped
}

// Check returns the error for a request that names what it may not. It is the
// Check of package wire.
//
// Every request that has a path of this node obeys, those included that the
// published proxy forgot.
func (r *Rules) Check(request any) error {
	switch in := request.(type) {
	case *filesystem.PathExistsRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.MkdirRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.RmdirRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.RmdirContentsRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.IsSymlinkRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.CreateSymlinkRequest:
		// The link before what it leads to, as published.
		if err := r.Dirs.Check(in.TargetPath); err != nil {
			return err
		}
		return r.Dirs.Check(in.SourcePath)

	case *volume.MountVolumeRequest:
		return r.Dirs.checkGiven(in.TargetPath)
	case *volume.UnmountVolumeRequest:
		return r.Dirs.checkGiven(in.TargetPath)
	case *volume.GetVolumeIDFromTargetPathRequest:
		return r.Dirs.checkGiven(in.TargetPath)
	case *volume.GetClosestVolumeIDFromTargetPathRequest:
		return r.Dirs.checkGiven(in.TargetPath)

	case *smb.NewSMBGlobalMappingRequest:
		if err := r.SMB.check(in.RemotePath); err != nil {
			return err
		}
		return r.Dirs.checkGiven(in.LocalPath)
	case *smb.RemoveSMBGlobalMappingRequest:
		return r.SMB.check(in.RemotePath)

	case *system.StartServiceRequest:
		return r.checkService("start service", in.Name)
	case *system.StopServiceRequest:
		return r.checkService("stop service", in.Name)
	}
	return nil
}

// checkGiven leaves an empty path to the service: LocalPath may be empty, and the
// message for an empty TargetPath is published.
func (d Dirs) checkGiven(path string) error {
	if path == "" {
		return nil
	}
	return d.Check(path)
}
