// Command csi-driver is an example of a CSI driver for Windows nodes.
//
// It serves the Identity and Node services of CSI. In an ordinary container it works
// through the pipes of CSI Proxy, in a HostProcess container in process:
//
//	csi-driver -endpoint unix://C:\csi\csi.sock -node-id node-1
//	csi-driver -endpoint unix://C:\csi\csi.sock -node-id node-1 -host-process
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/inprocess"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"

	"example.com/csi-driver/driver"
)

// version is set when the program is linked.
var version = "unknown"

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stderr)) }

func run(ctx context.Context, args []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("csi-driver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	klog.InitFlags(flags)
	endpoint := flags.String("endpoint", "", "where to serve CSI: a unix socket, such as unix:///csi/csi.sock, or for tests an address, such as tcp://127.0.0.1:10000")
	name := flags.String("driver-name", driver.Name, "name by which Kubernetes knows the driver")
	nodeID := flags.String("node-id", "", "name of this node in the storage system")
	hostProcess := flags.Bool("host-process", false, "work in process, as in a HostProcess container, and not through CSI Proxy")
	stopOther := flags.Bool("stop", false, "stop the driver at -endpoint, and wait for its running calls: the preStop hook of a HostProcess pod")
	wait := flags.Duration("wait", 30*time.Second, "how long to wait for CSI Proxy to start")
	timeout := flags.Duration("timeout", driver.DefaultTimeout, "time limit of calls without an earlier deadline")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if *stopOther && *endpoint != "" {
		if err := stopDriver(ctx, *endpoint); err != nil {
			fmt.Fprintf(stderr, "csi-driver: stop the driver at %s: %v\n", *endpoint, err)
			return 1
		}
		return 0
	}
	if *endpoint == "" || *nodeID == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "csi-driver: want -endpoint and -node-id, and no arguments")
		return 2
	}
	defer klog.Flush()

	n, disconnect, err := connect(ctx, *hostProcess, *wait)
	if err != nil {
		klog.ErrorS(err, "Could not reach the node")
		return 1
	}
	defer disconnect()
	node, err := mounter.New(n, mounter.Options{Arrival: driver.Arrival, Local: mounter.Local{FreeSpace: driver.FreeSpace}})
	if err != nil {
		klog.ErrorS(err, "Could not use the node")
		return 1
	}
	can, err := node.Abilities(ctx)
	if err != nil {
		klog.ErrorS(err, "Could not reach the node")
		return 1
	}
	for _, lack := range can.Lacks() {
		klog.InfoS("The node lacks a guarantee", "lack", lack)
	}
	l, err := listen(*endpoint)
	if err != nil {
		klog.ErrorS(err, "Could not listen", "endpoint", *endpoint)
		return 1
	}
	klog.InfoS("Serving CSI", "driver", *name, "version", version, "endpoint", *endpoint, "address", l.Addr().String(), "hostProcess", *hostProcess, "apis", can.Versions)
	d := driver.New(driver.Config{Name: *name, Version: version, NodeID: *nodeID, Node: node, Timeout: *timeout, Log: klog.Background()})
	if err := d.Serve(ctx, l); err != nil {
		klog.ErrorS(err, "Could not serve")
		return 1
	}
	klog.InfoS("Stopped")
	return 0
}

// stopDriver stops the driver of another process.
func stopDriver(ctx context.Context, endpoint string) error {
	target := strings.TrimPrefix(endpoint, "tcp://")
	if path, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		target = "unix:" + path
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return driver.Stop(ctx, conn)
}

// connect reaches the node in one of two ways. It is all that depends on the mode.
func connect(ctx context.Context, hostProcess bool, wait time.Duration) (node mounter.Node, disconnect func() error, err error) {
	if hostProcess {
		node, err = inprocess.Open("")
		return node, func() error { return nil }, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c, err := pipes.Open(ctx, pipes.Groups())
	if err != nil {
		return node, nil, err
	}
	return c.Node, c.Close, nil
}

// listen listens on an endpoint. Windows has unix sockets, too; Wine has not, so tests
// use TCP there.
func listen(endpoint string) (net.Listener, error) {
	network, address, ok := strings.Cut(endpoint, "://")
	if !ok || address == "" || network != "unix" && network != "tcp" {
		return nil, fmt.Errorf("endpoint %q: want unix:// and the path of a socket, or tcp:// and an address", endpoint)
	}
	if network == "unix" {
		// A driver that was killed has left its socket.
		if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove the old socket: %w", err)
		}
	}
	return net.Listen(network, address)
}
