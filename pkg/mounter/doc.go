// Package mounter is the Windows side of a CSI driver: it finds the disk of a volume, formats,
// mounts, publishes, grows and unmounts it, maps shares and logs in to iSCSI targets.
//
//	node, err := pipes.Open(ctx, []string{"disk", "volume", "filesystem"}) // or inprocess.Open
//	m, err := mounter.New(node.Node, mounter.Options{})
//
//	// NodeStageVolume
//	d, err := m.FindDisk(ctx, mounter.EBS(volumeID))
//	_, err = m.StageDisk(ctx, d, stagingPath, mounter.StageOptions{})
//	// NodePublishVolume, NodeUnpublishVolume
//	err = m.Publish(ctx, stagingPath, targetPath)
//	err = m.Unpublish(ctx, targetPath)
//	// NodeUnstageVolume
//	err = m.UnstageDisk(ctx, stagingPath, mounter.UnstageOptions{})
//
// The package works over the six interfaces of a node, wherever they come from. It imports
// neither gRPC nor Kubernetes. Package pipes opens the node of a driver in an ordinary container,
// package inprocess that of one in a HostProcess container.
//
// # Repeating a call
//
// A Mounter remembers nothing about volumes. Each method looks at the node and does what is
// missing, so a call whose answer was lost is repeated, also by a new process. The methods may be
// called concurrently, but not for one volume.
//
// # What the node guarantees
//
// The CSI Proxy that exists today cannot tell a blank volume from one that it cannot read, does
// not count who uses a share, and skips a small growth with success. [Abilities] says what the
// node at hand guarantees. Where something is missing, a method refuses with
// hosterr.ErrUnimplemented or does less and logs it; its comment says which. Nothing is decided
// by the text of an error.
//
// # What is never done
//
// No method removes a directory that has content: it may be a pod's data. No method formats a
// disk that was not looked at, or picks one of two disks that fit.
//
// # Errors
//
// Errors have the kinds of package hosterr, or match a context's error. The errors of the
// existing CSI Proxy have no kind.
package mounter
