// Package policy restricts requests that arrive through pipes. A caller may use only
// paths in the node's working directories, start and stop only allowed services, and
// map only shares of other machines. The rules do not apply to drivers in process.
//
// [Rules.Check] checks the request of a service, independent of the API version. It
// accepts requests that it does not know, because most requests need no rule. A test
// fails if a text field of a request has neither a rule nor a documented reason why it
// needs none.
//
// Check compares only the text of a path, with the published error texts. That is the
// first of two checks: internal/winfs checks the location of open handles against the
// node's WorkingDirs. Both must allow a path.
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
	own   winpath.Own
}

// windowsDir is where Windows is on nearly every node. Package winfs asks Windows.
var windowsDir = winpath.Path{Volume: "C:", Elems: []string{"Windows"}}

// ParseDirs parses working directories. Errors list them in this order: first those of
// the command line, then the kubelet's.
func ParseDirs(dirs []string) (Dirs, error) {
	paths, err := winpath.ParseList(dirs)
	if err != nil {
		return Dirs{}, err
	}
	var kubelet winpath.Path
	if len(paths) > 0 {
		kubelet = paths[len(paths)-1]
	}
	return Dirs{texts: dirs, paths: paths, own: winpath.OwnOf(windowsDir, kubelet)}, nil
}

// Check fails with hosterr.ErrInvalid if path is not valid in a request, and with
// hosterr.ErrPermissionDenied if it is outside the working directories, or is or is in the
// directory pki of one, where the kubelet has its keys.
func (d Dirs) Check(path string) error {
	p, err := winpath.Validate(path)
	if err != nil {
		return err
	}
	within := false
	for _, dir := range d.paths {
		if p.KubeletKeys(dir) {
			return hosterr.Text(hosterr.ErrPermissionDenied, "path: %s is in the directory of the kubelet's keys", path)
		}
		within = within || p.Within(dir)
	}
	if within {
		return nil
	}
	return hosterr.TextWithHint(hosterr.ErrPermissionDenied, "if drivers should use it, start csi-proxy with -working-dir=DIRECTORY, or with -kubelet-path=DIRECTORY if it is the kubelet's",
		"path: %s is not within the working directories: %v", path, d.texts)
}

// checkChange is Check for a path at which something is made, linked or mounted. It also fails
// in the directories of Windows and of the programs that run containers ([winpath.Own]).
func (d Dirs) checkChange(path string) error { return d.checkOwn(path, false) }

func (d Dirs) checkOwn(path string, above bool) error {
	if err := d.Check(path); err != nil {
		return err
	}
	p, err := winpath.Validate(path)
	if err != nil {
		return err
	}
	if dir, own := d.own.Of(p, above); own {
		return hosterr.Text(hosterr.ErrPermissionDenied, "path: %s, %s", path, winpath.OwnDenied(dir))
	}
	return nil
}

// checkRemoval is checkChange for a path that is removed or emptied. It also fails for what
// contains such a directory, and for the directory pods of a working directory.
func (d Dirs) checkRemoval(path string) error {
	if err := d.checkOwn(path, true); err != nil {
		return err
	}
	p, err := winpath.Validate(path)
	if err != nil {
		return err
	}
	for _, dir := range d.paths {
		if p.KubeletPods(dir) {
			return hosterr.Text(hosterr.ErrPermissionDenied, "path: %s is the kubelet's directory of all pods, which is neither removed nor emptied", path)
		}
	}
	return nil
}

// Rules are the rules for requests through pipes. The zero Rules allow no path, no
// service, and no share of this node.
type Rules struct {
	Dirs     Dirs     // working directories
	Services []string // Windows services that may be started and stopped
	SMB      SMBRules // shares that may be mapped
}

// Check returns an error if the rules forbid a request. It is the Check of package
// wire.
//
// It checks every path of this node in a request, including paths that the published
// proxy did not check.
func (r *Rules) Check(request any) error {
	switch in := request.(type) {
	case *filesystem.PathExistsRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.MkdirRequest:
		return r.Dirs.checkChange(in.Path)
	case *filesystem.RmdirRequest:
		return r.Dirs.checkRemoval(in.Path)
	case *filesystem.RmdirContentsRequest:
		return r.Dirs.checkRemoval(in.Path)
	case *filesystem.IsSymlinkRequest:
		return r.Dirs.Check(in.Path)
	case *filesystem.CreateSymlinkRequest:
		// Check the link before its target, as published.
		if err := r.Dirs.checkChange(in.TargetPath); err != nil {
			return err
		}
		return r.Dirs.checkChange(in.SourcePath)

	case *volume.MountVolumeRequest:
		return checkGiven(in.TargetPath, r.Dirs.checkChange)
	case *volume.UnmountVolumeRequest:
		return checkGiven(in.TargetPath, r.Dirs.checkChange)
	case *volume.GetVolumeIDFromTargetPathRequest:
		return checkGiven(in.TargetPath, r.Dirs.Check)
	case *volume.GetClosestVolumeIDFromTargetPathRequest:
		return checkGiven(in.TargetPath, r.Dirs.Check)
	case *volume.GetPathStatsRequest:
		return r.Dirs.Check(in.Path)
	case *volume.GetPathKindRequest:
		return r.Dirs.Check(in.Path)

	case *smb.NewSMBGlobalMappingRequest:
		if err := r.SMB.check(in.RemotePath); err != nil {
			return err
		}
		return checkGiven(in.LocalPath, r.Dirs.checkChange)
	case *smb.UpdateSMBGlobalMappingRequest:
		return r.SMB.check(in.RemotePath)
	case *smb.GetSMBGlobalMappingRequest:
		if err := r.SMB.check(in.RemotePath); err != nil {
			return err
		}
		for _, path := range in.LocalPaths {
			if err := r.Dirs.Check(path); err != nil {
				return err
			}
		}
	case *smb.RemoveSMBGlobalMappingRequest:
		return r.SMB.check(in.RemotePath)

	case *system.StartServiceRequest:
		return r.checkService("start service", in.Name)
	case *system.StopServiceRequest:
		return r.checkService("stop service", in.Name)
	}
	return nil
}

// checkGiven calls check unless the path is empty: LocalPath may be empty, and for an empty
// TargetPath the service returns the published error.
func checkGiven(path string, check func(string) error) error {
	if path == "" {
		return nil
	}
	return check(path)
}
