// Package driver is a CSI driver for Windows nodes. It is an example to copy from:
// complete, and as small as a complete driver can be.
//
// A [Driver] serves the Identity service, the Node service if it has a [mounter.Mounter],
// and the Controller service if it has a [Storage]. Three kinds of volumes show the
// three ways in which storage comes to a Windows node:
//
//   - a disk that the storage system attaches to the machine;
//   - a directory on a share of an SMB server;
//   - a LUN of an iSCSI target.
//
// # No state
//
// The driver remembers nothing. The volume ID says what a volume is, and the node
// says how far it has come. So every call can be repeated, also after a crash of the
// driver or of CSI Proxy.
//
// # Errors
//
// Functions return errors of package hosterr or of context as they are, or a gRPC
// status where only they know the right code. One function, statusOf, turns the
// former into codes, when a call ends.
package driver

import (
	"context"
	"errors"
	"net"
	"path"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
)

// Name is the name of the driver, as in a StorageClass's provisioner, unless Config.Name is
// another.
const Name = "csi-driver.example.com"

// DefaultTimeout is the time limit of calls if Config.Timeout is 0.
const DefaultTimeout = 2 * time.Minute

// Arrival is how long a call waits for a disk. Then it fails, and the kubelet calls again. Windows
// has 10 s for the disks of a new iSCSI session.
const Arrival = 20 * time.Second

// Config configures a driver.
type Config struct {
	Name    string // by which Kubernetes knows the driver; empty means [Name]
	Version string
	NodeID  string

	Node    *mounter.Mounter // the node; nil for a driver without the Node service
	Storage Storage          // the storage system; nil for a driver without the Controller service

	// Timeout limits calls whose caller has no deadline, or a later one.
	Timeout time.Duration
	Log     klog.Logger
}

// Driver is a CSI driver. Its methods are the calls of CSI and may be called
// concurrently.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	csi.UnimplementedControllerServer

	config Config

	running sync.RWMutex // read-locked by each call
	stopped bool         // by the preStop hook; guarded by running

	mu   sync.Mutex
	busy map[string]bool // volumes with a running call
}

// New returns a driver.
func New(config Config) *Driver {
	if config.Name == "" {
		config.Name = Name
	}
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	return &Driver{config: config, busy: map[string]bool{}}
}

// Serve serves CSI until ctx ends or [Stop] is called, and then lets running calls finish.
func (d *Driver) Serve(ctx context.Context, l net.Listener) error {
	s := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(s, d)
	if d.config.Node != nil {
		csi.RegisterNodeServer(s, d)
	}
	if d.config.Storage != nil {
		csi.RegisterControllerServer(s, d)
	}
	d.registerStop(s, s.GracefulStop)
	stop := context.AfterFunc(ctx, s.GracefulStop)
	defer stop()
	return s.Serve(l)
}

// intercept gives a call its time limit, turns its error into a status and logs it.
// It never logs a request, because requests have secrets.
func (d *Driver) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
	d.running.RLock()
	defer d.running.RUnlock()
	if d.stopped { // the program may end at any time
		return nil, status.Error(codes.Unavailable, "the driver stops")
	}
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	log := d.config.Log.WithValues("method", path.Base(info.FullMethod))
	if r, ok := in.(interface{ GetVolumeId() string }); ok {
		log = log.WithValues("volumeID", r.GetVolumeId())
	}

	start := time.Now()
	out, err := call(ctx, in)
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		if late := ctx.Err(); late != nil {
			err = status.Errorf(codeOf(late), "%v: %v", late, err)
		}
		err = statusOf(err)
		log.Error(err, "Call failed", "code", status.Code(err), "duration", took)
		return nil, err
	}
	log.V(2).Info("Handled call", "duration", took)
	return out, nil
}

// lock begins a call for a volume. A second call for the same volume is refused, as
// CSI wants it: the caller tries again later. Call unlock at the end.
func (d *Driver) lock(volumeID string) (unlock func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[volumeID] {
		return nil, status.Errorf(codes.Aborted, "another call for volume %q is running", volumeID)
	}
	d.busy[volumeID] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.busy, volumeID)
	}, nil
}

// required returns an error if a field of a request is empty. fields are names and
// values, in turn.
func required(fields ...string) error {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] == "" {
			return status.Errorf(codes.InvalidArgument, "%s is missing in the request", fields[i])
		}
	}
	return nil
}

// errNoVolume is the error for a volume ID that this driver never made.
var errNoVolume = errors.New("no volume of this driver has this ID")
