package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	remote "k8s.io/cri-client/pkg"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubemark"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
)

// node is what a kubelet is started with.
type node struct {
	name       string
	root       string // its directory
	runtime    string // endpoint of its container runtime
	kubeconfig string
	port       int
}

// host is this machine for the kubelet.
type host struct{ *hostutil.HostUtil }

// MakeRShared does nothing. The kubelet would mount its directory on itself, which needs root
// and stays after the process, and no container shares its mounts.
func (host) MakeRShared(string) error { return nil }

func kubeletCommand() *cobra.Command {
	var n node
	c := &cobra.Command{Use: "kubelet", Short: "A node's kubelet, over a container runtime that runs nothing", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error { return n.run(c.Context()) }}
	c.Flags().StringVar(&n.name, "node", "", "name of the node")
	c.Flags().StringVar(&n.root, "root-dir", "", "directory of the kubelet's files")
	c.Flags().StringVar(&n.runtime, "container-runtime-endpoint", "", "socket of the container runtime")
	c.Flags().StringVar(&n.kubeconfig, "kubeconfig", "", "how to reach the API server")
	c.Flags().IntVar(&n.port, "port", 0, "port of loopback on which the kubelet serves")
	return c
}

// run runs the kubelet until the process ends.
func (n *node) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// Kubemark makes a directory for temporary files of its own.
	f, c := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: n.name, KubeletPort: n.port, MaxPods: 250})
	if err := os.RemoveAll(f.RootDirectory); err != nil {
		return err
	}
	f.RootDirectory = n.root
	f.CertDirectory = filepath.Join(n.root, "pki")
	c.StaticPodPath = ""
	c.PodLogsDir = filepath.Join(n.root, "logs")
	c.ContainerRuntimeEndpoint, c.ImageServiceEndpoint = n.runtime, n.runtime
	c.Address = "127.0.0.1"
	c.HealthzPort = 0
	c.EnableControllerAttachDetach = true
	c.FailSwapOn = false
	c.SyncFrequency.Duration = 10 * time.Second
	c.NodeStatusUpdateFrequency.Duration = 5 * time.Second
	if err := os.MkdirAll(c.PodLogsDir, 0o755); err != nil {
		return err
	}
	runtimes, err := remote.NewRemoteRuntimeService(ctx, n.runtime, time.Minute, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	images, err := remote.NewRemoteImageService(ctx, n.runtime, time.Minute, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	k := kubemark.NewHollowKubelet(f, c, client, client, &cadvisortest.Fake{NodeName: n.name}, images, runtimes, cm.NewStubContainerManager())
	// Directories are real, because the driver's node has the same.
	k.KubeletDeps.HostUtil = host{hostutil.NewHostUtil()}
	k.KubeletDeps.OSInterface = kubecontainer.RealOS{}
	if err := app.RunKubelet(ctx, &options.KubeletServer{KubeletFlags: *f, KubeletConfiguration: *c}, k.KubeletDeps); err != nil {
		return err
	}
	<-ctx.Done() // RunKubelet has started it
	return nil
}
