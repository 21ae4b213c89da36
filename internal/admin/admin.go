// Package admin is the service for administrators of the node. The daemon serves it on the
// pipe csi-proxy-admin, and csi-proxyctl calls it; package server is its other side.
//
// It is no part of the published API and has no promise of stability: the daemon and
// csi-proxyctl should be of the same release.
package admin

//go:generate go run ../../hack/servicegen -dir .

// Pipe is the name of the pipe.
const Pipe = "csi-proxy-admin"
