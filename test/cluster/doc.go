// Package cluster runs Kubernetes over simulated Windows nodes, on one Linux machine: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, the sidecars of CSI, and for each
// node a kubelet, a csi-proxy-sim and a CSI driver. All but the simulated nodes and the
// container runtime are the programs of others, built from their Go modules.
//
// # What it is not
//
// There is no Windows kubelet. Each kubelet is the build for Linux: nodes say os=linux, pods
// must not ask for Windows, and the kubelet's code for Windows never runs. Package
// translation gives the driver the paths of Windows. Containers are entries in a table, and
// run no program, but those of the DaemonSet csi-proxy: the image of its pods decides which build
// of csi-proxy-sim the container runtime of a node, which is ours, runs.
//
// All listeners are on loopback or are sockets in the cluster's directory.
package cluster
