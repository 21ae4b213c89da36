// Command kubernetes is six programs in one file, each Kubernetes' or etcd's own at the
// version of go.mod. Its first argument says which one to be. One file, because six would
// each hold the same 100 MB of Kubernetes.
//
// What it calls kubelet is the kubelet's own code for Linux around a container runtime that
// runs nothing: see package cluster.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
		"kubelet":                 kubeletCommand,
	}
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = slices.Delete(os.Args, 1, 2)
	}
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := commands[name]
	if !known {
		fmt.Fprintln(os.Stderr, "kubernetes: want etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet or kubectl as the first argument")
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
