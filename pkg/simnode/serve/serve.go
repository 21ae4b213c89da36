// Package serve serves a simulated node as the daemon does: on a named pipe for
// each version of the API, or on a unix socket on other systems than Windows. So
// a driver's client code can be tested unchanged:
//
//	func TestStage(t *testing.T) {
//		n := simnode.New(t)
//		s := serve.Start(t, n)
//		c, err := diskclient.NewClientWithPipePath(s.PipePath("disk", diskclient.Version))
//		...
//	}
//
// [Server.PipePath] can also be passed to [remote.WithPipePath]. Each server has
// pipes of its own, so such tests may run in parallel.
//
// # Code that calls NewClient
//
// A driver that calls NewClient without a path uses the standard pipes:
//
//	serve.Start(t, n, func(c *serve.Config) { c.StandardPipes = true })
//
// Only one such server can run at a time, so the test must not be parallel.
//
// # What is served
//
// A request passes the same code as in the daemon: server, rules for paths, shares
// and services, conversion between versions, services, and the simulated node.
// All versions are served unless Config.APIs selects some, as if the proxy were
// older than the driver. [Server.Stop] and [Server.Restart] test how the driver
// handles a proxy that stops.
//
// [remote.WithPipePath]: https://pkg.go.dev/github.com/kubernetes-csi/csi-proxy/v2/pkg/remote#WithPipePath
package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/flags"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Config configures a server. Its zero value serves what a daemon without flags
// serves.
type Config struct {
	// APIs are the groups and versions to serve, such as "disk" and "disk/v1". Empty means all.
	APIs []string

	// Rules are those of the daemon's flags. Without WorkingDirs, requests may use the
	// kubelet's directory, C:\var\lib\kubelet; without AllowedServices, they may start and
	// stop MSiSCSI only.
	rules.Rules

	// Flags are flags of csi-proxy that say what is served, and by which rules, such as
	// "-read-only-api" and "-read-only-disks=keep". They take the place of APIs and Rules.
	Flags []string

	// StandardPipes serves on the pipes that NewClient of the client module uses:
	// the daemon's pipes, or the sockets in the directory of package pipe. [Start]
	// sets that directory to a new one until the test ends.
	StandardPipes bool

	// Control also serves the pipe with which csi-proxyctl node and package control
	// change the node.
	Control bool

	// Log gets a message for each failed call. If it is nil, nothing is logged.
	Log *slog.Logger
}

// openLimit is how long a server waits for pipes that another process serves.
const openLimit = 10 * time.Second

// Server serves a simulated node. Its methods may be called concurrently.
type Server struct {
	node   *simnode.Node
	config Config
	served flags.Served
	dirs   policy.Dirs
	dir    string // directory of the sockets; empty for standard pipes
	prefix string // prefix of pipe names on Windows

	mu      sync.Mutex
	cancel  context.CancelCauseFunc // nil while stopped
	ended   chan error
	process *simnode.Process
}

// TB is the part of *testing.T that [Start] needs. Test frameworks can implement
// it.
type TB interface {
	simnode.TB
	Setenv(key, value string)
}

// Start serves n until the test ends. The test fails if the server does not start
// or does not stop cleanly. The node's faults are cleared before the server stops,
// because calls that they delay would delay the stop.
func Start(t TB, n *simnode.Node, change ...func(*Config)) *Server {
	t.Helper()
	var config Config
	for _, f := range change {
		f(&config)
	}
	if config.StandardPipes && !hasPipes() {
		dir, err := socketDir()
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		t.Setenv(pipe.DirVariable, dir)
	}
	s, err := Open(n, config)
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	t.Cleanup(func() {
		n.ClearFaults()
		if err := s.Close(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// hasPipes reports whether this system has named pipes.
func hasPipes() bool { return runtime.GOOS == "windows" }

// socketDir makes a directory for sockets. The path of t.TempDir is often too long
// for a socket.
func socketDir() (string, error) { return os.MkdirTemp("", "csi") }

// Open serves n until [Server.Close]. When it returns, all pipes accept
// connections. Tests should use [Start].
func Open(n *simnode.Node, config Config) (*Server, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{node: n, config: config}
	err := s.configure()
	if err != nil {
		return nil, err
	}
	if !config.StandardPipes {
		// On Windows the directory only provides a unique name.
		if s.dir, err = socketDir(); err != nil {
			return nil, err
		}
		s.prefix = filepath.Base(s.dir) + "-"
	}
	if err := s.Restart(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// configure applies the flags of the configuration, and what is the default without any.
func (s *Server) configure() (err error) {
	s.served = flags.Served{}
	if err := s.parse(s.config.Flags); err != nil {
		return err
	}
	if asFlags := s.served.Rules(); len(s.config.Flags) > 0 {
		s.config.Rules, s.config.APIs = asFlags, s.served.APIs()
	} else {
		if len(s.config.WorkingDirs) == 0 {
			s.config.WorkingDirs = asFlags.WorkingDirs
		}
		if s.config.AllowedServices == nil {
			s.config.AllowedServices = asFlags.AllowedServices
		}
	}
	s.dirs, err = policy.ParseDirs(s.config.WorkingDirs)
	return err
}

// parse parses the flags of csi-proxy.
func (s *Server) parse(args []string) error {
	f := flag.NewFlagSet("csi-proxy", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	s.served.Add(f)
	err := f.Parse(args)
	switch unknown, ok := strings.CutPrefix(fmt.Sprint(err), "flag provided but not defined: "); {
	case ok:
		var known []string
		f.VisitAll(func(f *flag.Flag) { known = append(known, "-"+f.Name) })
		return fmt.Errorf("serve: %w: flag %s: want one of those that say what csi-proxy serves: %s", hosterr.ErrInvalid, unknown, strings.Join(known, ", "))
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("%q: want flags, as -name=value", f.Arg(0))
	case err == nil:
		err = s.served.Check()
	}
	if err != nil {
		return fmt.Errorf("serve: %w: %w", hosterr.ErrInvalid, err)
	}
	return nil
}

// Dir returns the directory of the sockets. A program that runs with CSI_PROXY_DIR
// set to it finds them. Named pipes are not in a directory.
func (s *Server) Dir() string {
	if s.config.StandardPipes && !hasPipes() {
		dir, err := pipe.SocketDir()
		if err == nil {
			return dir
		}
	}
	return s.dir
}

// PipePath returns the path of the pipe or socket of a version of a group, whether
// or not that version is served.
func (s *Server) PipePath(group string, version apiversion.Version) string {
	return s.path("csi-proxy-" + group + "-" + version.String())
}

func (s *Server) path(name string) string {
	switch {
	case s.config.StandardPipes:
		return pipe.Path(name)
	case hasPipes():
		return pipe.Path(s.prefix + name)
	}
	return filepath.Join(s.dir, name+".sock")
}

// Stop stops the proxy as the daemon stops: running calls finish, and new calls
// fail to connect. Stop does nothing if the proxy is stopped.
func (s *Server) Stop() error { return s.stop(nil) }

// Kill stops the proxy as TerminateProcess does: running calls fail, and leave what they have
// done by then.
func (s *Server) Kill() error { return s.stop(killed{}) }

// killed is the cause of an end that waits for nothing.
type killed struct{}

func (killed) Error() string { return "killed" }

// StopWithin is how long the end may take.
func (killed) StopWithin() time.Duration { return 0 }

func (s *Server) stop(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return nil
	}
	if cause != nil {
		s.process.Kill()
	}
	s.cancel(cause)
	s.cancel = nil
	err := <-s.ended
	if cause != nil {
		return nil // that calls were running
	}
	return err
}

// Restart starts the proxy on the same pipes, after stopping it if it runs. Like a
// new process, it has lost what it knew about SMB credentials.
func (s *Server) Restart() error { return s.Replace(func(*Config) {}) }

// Replace restarts the proxy with another configuration, as after an upgrade or a
// rollback. The pipes stay those of StandardPipes.
func (s *Server) Replace(change func(*Config)) error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	standard := s.config.StandardPipes
	before := slices.Clone(s.config.Flags)
	change(&s.config)
	s.config.StandardPipes = standard
	if !slices.Equal(before, s.config.Flags) {
		if err := s.configure(); err != nil {
			return err
		}
	}
	served, err := s.pipes()
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	opening, cancelOpening := context.WithTimeout(context.Background(), openLimit)
	defer cancelOpening()
	server, err := serve.Open(opening, serve.Config{
		Log:      s.config.Log,
		Version:  "simulated",
		ReadOnly: s.served.ReadOnly, IgnoreFields: s.served.IgnoreFields,
		Listen: func(name string) (net.Listener, error) { return pipes.ListenAt(s.path(name)) },
		Ready:  func() { close(ready) },
	}, served...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel(nil)
		return err
	}
	s.cancel, s.ended = cancel, ended
	return nil
}

// Close stops the server and removes its directory.
func (s *Server) Close() error {
	err := s.Stop()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// pipes returns the pipes of a new process on the node, with the daemon's rules.
func (s *Server) pipes() ([]serve.Pipe, error) {
	p, err := s.node.NewProcess(s.config.Rules)
	if err != nil {
		return nil, err
	}
	s.process = p
	all := wire.Services(wire.Groups{
		Disk: p.Disk(), Volume: p.Volume(), Filesystem: p.Filesystem(), SMB: p.SMB(), ISCSI: p.ISCSI(), System: p.System(),
		Check: (&policy.Rules{Dirs: s.dirs, Services: s.config.AllowedServices, SMB: s.served.SMB}).Check,
	})
	var control []serve.Pipe
	if s.config.Control {
		control = []serve.Pipe{{Name: simcontrol.Pipe, Desc: &simcontrol.Node_ServiceDesc, Impl: server.New(s.node)}}
	}
	served, err := wire.Enabled(all, s.config.APIs)
	if err != nil {
		return nil, fmt.Errorf("serve: %w: %w", hosterr.ErrInvalid, err)
	}
	return append(serve.Pipes(served), control...), nil
}
