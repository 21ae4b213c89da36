// Package daemon is the command csi-proxy: it opens a node, serves every
// version of the API on it, and stops without breaking off what is under way.
//
// It is a package of its own so that the tests of csi-proxyctl, and the demo,
// start the same daemon that ships.
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
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// serviceName is the name under which the Windows service is registered.
const serviceName = "csiproxy"

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Run is the command: it serves until ctx ends or the process is told to stop,
// and returns the exit code. Logs go where the flags say, errors that keep it
// from serving to stderr, too. Started by a daemon as its format helper, it is that.
func Run(ctx context.Context, version string, args []string, stderr io.Writer) int {
	if len(args) > 0 && args[0] == node.FormatHelper {
		return node.RunFormatHelper(args[1:], os.Stdin, os.Stdout)
	}
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	defer klog.Flush()
	slog.SetDefault(slog.New(logr.ToSlogHandler(klog.Background())))

	program := func(ctx context.Context, ready func()) int {
		if err := serve(ctx, version, o, ready); err != nil {
			return o.fail(stderr, err)
		}
		return exitOK
	}
	if o.windowsService {
		code, err := winsvc.Run(serviceName, program)
		if err != nil {
			return o.fail(stderr, err)
		}
		return code
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	return program(ctx, func() {})
}

// fail reports the error that ends the command: to whoever started it, and in
// the log where that is elsewhere.
func (o *options) fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "csi-proxy: %v\n", err)
	if !o.logsToStderr {
		klog.ErrorS(err, "CSI-Proxy Server ends")
	}
	return exitFailure
}

// serve opens the node and serves it until ctx ends; ready is called once all
// pipes take connections.
func serve(ctx context.Context, version string, o *options, ready func()) error {
	klog.Infof("Starting CSI-Proxy Server ... host: %s", o.host)
	klog.Infof("Version: %s", version)
	var background sync.WaitGroup
	defer background.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()

	config := apiserver.Config{Interceptors: []grpc.UnaryServerInterceptor{apiserver.TellVersion(version)}}
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
	h, err := openHost(o)
	if err != nil {
		return err
	}
	defer func() {
		if err := h.close(); err != nil {
			klog.ErrorS(err, "The node did not close")
		}
	}()
	klog.Infof("Working directories: %v", o.allWorkingDirs())
	klog.Infof("Services that may be started and stopped: %v", o.allowedServices())
	klog.Infof("Require privacy: %t", o.requirePrivacy)

	config.Ready = func() {
		klog.Infof("Serving %d pipes", len(h.pipes))
		ready()
	}
	server, err := apiserver.Open(config, h.pipes...)
	if err != nil {
		return err
	}
	background.Go(func() {
		if err := h.survey(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "What earlier processes left on the node is not known; the first SMB request looks again")
		}
	})
	err = server.Serve(ctx)
	end()
	background.Wait()
	klog.Info("CSI-Proxy Server stopped")
	return err
}
