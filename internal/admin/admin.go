// Package admin is the service for administrators of the node. The daemon serves it on the
// pipe csi-proxy-admin, and csi-proxyctl calls it; package server is its other side.
//
// It is not part of the published API, and it may change: the daemon and csi-proxyctl
// should be of the same release.
package admin

import "sync"

// Pipe is the name of the pipe.
const Pipe = "csi-proxy-admin"

// PodVariable is the environment variable with the UID of the pod that a process belongs to.
const PodVariable = "CSI_PROXY_POD"

// MaxAsked is how many devices are queried at once. It is less than the number of calls of one
// pipe that run at once, so a description leaves room for others.
const MaxAsked = 8

// EachDevice calls f with the indexes of n devices, MaxAsked at once, and waits for all.
func EachDevice(n int, f func(i int)) {
	slots := make(chan struct{}, MaxAsked)
	var group sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	group.Wait()
}
