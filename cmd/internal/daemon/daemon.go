// Package daemon is what csi-proxy and csi-proxy-sim have in common, which is
// all but the node: it serves every version of the API, and stops without
// breaking off calls that still run. A [Host] opens the node. Package
// windowshost has that of csi-proxy, package simhost that of csi-proxy-sim.
package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/metrics"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// serviceName is the name under which the Windows service is registered.
const serviceName = "csiproxy"

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Run runs the program: it serves until ctx ends or the process gets a signal to
// stop, and returns the exit code. Logs go where the flags say. Errors that keep
// it from serving go to stderr too.
func Run(ctx context.Context, p Program, args []string, stderr io.Writer) int {
	o, err := parse(p, args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	defer klog.Flush()
	slog.SetDefault(slog.New(logr.ToSlogHandler(klog.Background())))

	serving := func(ctx context.Context, ready func()) int {
		if err := serve(ctx, p, o, ready); err != nil {
			return o.fail(p, stderr, err)
		}
		return exitOK
	}
	if o.windowsService {
		code, err := winsvc.Run(serviceName, serving)
		if err != nil {
			return o.fail(p, stderr, err)
		}
		return code
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	return serving(ctx, func() {})
}

// fail reports the error that ends the command: to whoever started it, and in
// the log where that is elsewhere.
func (o *options) fail(p Program, stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	if !o.logsToStderr {
		klog.ErrorS(err, "CSI-Proxy Server ends")
	}
	return exitFailure
}

// serve opens the node and serves it until ctx ends; ready is called once all
// pipes take connections.
func serve(ctx context.Context, p Program, o *options, ready func()) error {
	klog.Infof("Starting CSI-Proxy Server ... host: %s", p.Host.Name())
	klog.Infof("Version: %s", p.Version)
	var background sync.WaitGroup
	defer background.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()

	config := apiserver.Config{Interceptors: []grpc.UnaryServerInterceptor{apiserver.AddVersionHeader(p.Version)}}
	if o.metricsAddress != "" {
		m, err := metrics.Listen(o.metricsAddress)
		if err != nil {
			return fmt.Errorf("flag -metrics-bind-address=%s: %w", o.metricsAddress, err)
		}
		config.Interceptors = append(config.Interceptors, m.Interceptor())
		klog.Infof("Metrics at http://%s/metrics", m.Addr())
		background.Go(func() {
			// A node whose metrics end goes on serving volumes.
			if err := m.Serve(ctx); err != nil {
				klog.ErrorS(err, "Metrics are no longer served")
			}
		})
	}
	dirs, err := policy.ParseDirs(o.allWorkingDirs())
	if err != nil {
		return fmt.Errorf("working directories: %w", err)
	}
	n, err := p.Host.Open(o.rules())
	if err != nil {
		return err
	}
	pipes := n.pipes(o, dirs)
	defer func() {
		if err := n.close(); err != nil {
			klog.ErrorS(err, "The node did not close")
		}
	}()
	klog.Infof("Working directories: %v", o.allWorkingDirs())
	klog.Infof("Services that may be started and stopped: %v", o.allowedServices())
	klog.Infof("Require privacy: %t", o.requirePrivacy)

	config.Ready = func() {
		klog.Infof("Serving %d pipes", len(pipes))
		ready()
	}
	server, err := apiserver.Open(config, pipes...)
	if err != nil {
		return err
	}
	background.Go(func() {
		if err := survey(ctx, n.Groups.SMB); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "What earlier processes left on the node is not known; the first SMB request looks again")
		}
	})
	err = server.Serve(ctx)
	end()
	background.Wait()
	klog.Info("CSI-Proxy Server stopped")
	return err
}

// survey has the log report what earlier processes left on the node, if the SMB
// service can.
func survey(ctx context.Context, s smb.Service) error {
	if s, ok := s.(interface{ Survey(context.Context) error }); ok {
		return s.Survey(ctx)
	}
	return nil
}
