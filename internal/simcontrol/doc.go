// Package simcontrol lets another process control a simulated node: attach,
// detach and grow disks, make Windows calls fail, reboot. csi-proxy-sim serves it
// on the pipe csi-proxy-simulated-node; package server is its side. csi-proxyctl
// node and pkg/simnode/control call it.
//
// It is no part of the published API and has no promise of stability.
package simcontrol

// Pipe is the name of the pipe.
const Pipe = "csi-proxy-simulated-node"
