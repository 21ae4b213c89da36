// Package wire serves every published version of the API from the
// version-agnostic services in pkg.
//
// A version is a list of rows. A row serves one method in one shape on the
// wire: it takes the message apart, calls the service, and puts the answer
// together. Between the two stands the [Check] of the daemon, which sees each
// request as the service gets it, whatever version it came in. Versions whose messages have the same bytes share rows: numbers
// and types of fields travel, names do not, so what a client sends as
// v1beta3.PartitionDiskRequest is decoded as v1.PartitionDiskRequest, and the
// row exists once. It is registered under the service name of each version, so
// that interceptors and metrics see the version that was called.
//
// # Where the rows are
//
// Most rows are generated (<group>_rows.go): fields are placed by name, the
// compiler checks their types, and csi-proxy-api-gen refuses a field that it
// cannot place. Where a method was renamed or a type changed, the row is
// written by hand (<group>.go) as a function named <version>_<Method>, after
// the newest version whose messages it uses; the generator finds it by this
// name and prints the list. Each <group>_rows.go ends with the table of the
// group: who serves what, on one screen.
//
// # What a row does not do
//
// A row judges nothing but the form of a value, such as a disk number that was
// once a decimal string. An absent message, such as an iSCSI portal, arrives at
// the service as nil, an unknown enum number as the number it is. Errors of
// the service pass through as they are; errors of a row itself are of
// a kind of package hosterr.
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

	// Check is asked about each request before its service gets it; see
	// internal/policy.
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
