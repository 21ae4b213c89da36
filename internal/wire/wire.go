// Package wire serves every published version of the API from the
// version-agnostic services in pkg.
//
// A version is a list of rows. A row serves one method with one form of its messages:
// it converts the request, calls the service, and converts the response. Before the
// call it passes the converted request to the [Check] of the daemon, so the check does
// not depend on the version. Versions whose messages have the same encoding share rows.
// The encoding contains field numbers and types but no names, so a
// v1beta3.PartitionDiskRequest can be decoded as a v1.PartitionDiskRequest, and one row
// serves both. The row is registered under the service name of each version, so
// interceptors and metrics see the version that was called.
//
// # Generated and hand-written rows
//
// Most rows are generated (<group>_rows.go). Fields are matched by name, the compiler
// checks their types, and csi-proxy-api-gen fails for a field that it cannot match. If a
// method was renamed or a type has changed, the row is hand-written (<group>.go). It is
// a function named <version>_<Method>, after the newest version whose messages it uses;
// the generator finds it by this name and prints a list of all such functions. Each
// <group>_rows.go ends with a table of all methods and versions of the group.
//
// # Validation
//
// A row checks only the format of a value, such as a disk number in a decimal string.
// The service does all other validation. It gets nil for an absent message, such as an
// iSCSI portal, and unknown enum numbers unchanged. Errors of the service are returned
// unchanged. Errors of a row have a kind of package hosterr.
package wire

import (
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Groups are the services of one node. A group that is nil is not served.
type Groups struct {
	Disk       disk.Service
	Filesystem filesystem.Service
	ISCSI      iscsi.Service
	SMB        smb.Service
	System     system.Service
	Volume     volume.Service

	// Check is called with each request before the service; see internal/policy.
	Check Check
}

// Services returns every version of every group in g: groups in alphabetical
// order, versions from oldest to newest.
func Services(g Groups) []Service {
	var all []Service
	if g.Disk != nil {
		all = append(all, Disk(g.Disk, g.Check)...)
	}
	if g.Filesystem != nil {
		all = append(all, Filesystem(g.Filesystem, g.Check)...)
	}
	if g.ISCSI != nil {
		all = append(all, ISCSI(g.ISCSI, g.Check)...)
	}
	if g.SMB != nil {
		all = append(all, SMB(g.SMB, g.Check)...)
	}
	if g.System != nil {
		all = append(all, System(g.System, g.Check)...)
	}
	if g.Volume != nil {
		all = append(all, Volume(g.Volume, g.Check)...)
	}
	return all
}
