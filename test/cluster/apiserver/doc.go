// Package apiserver asks a real API server about deploy/: it builds kube-apiserver and etcd
// from their Go modules, starts both on loopback, installs the chart with Helm, applies the
// manifests, and creates the pods and volumes of package deploy as a cluster's users would.
//
// It is a module of its own and runs by `make apiserver`, not by `make test`: the two
// servers take minutes to build. There is no kubelet, so no pod ever starts.
package apiserver
