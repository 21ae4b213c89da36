// Package serve serves a simulated node as the daemon serves a real one: through
// a pipe for each version of the API, or the unix sockets that stand in for pipes
// on other systems. A driver's client code is tested as it is:
//
//	func TestStage(t *testing.T) {
//		n := simnode.New(t)
//		s := serve.Start(t, n)
//		c, err := diskclient.NewClientWithPipePath(s.PipePath("disk", diskclient.Version))
//		...
//	}
//
// [Server.PipePath] fits [remote.WithPipePath] of package remote, too. The pipes
// are the server's own, in a directory of its own, so such tests may be parallel.
//
// # Code that calls NewClient
//
// A driver that finds the pipes by itself is served where it looks:
//
//	serve.Start(t, n, func(c *serve.Config) { c.StandardPipes = true })
//
// Then there can be one such server at a time: the test must not be parallel.
//
// # What is served
//
// The road of a request is that of the daemon: server, rules about paths, shares
// and services, conversion of versions, services, and below them the simulated
// node. All versions are served, or those in Config.APIs, as by a proxy that is
// older or newer than a driver expects. [Server.Stop] and [Server.Restart] take
// the proxy away from under a driver.
//
// [remote.WithPipePath]: https://pkg.go.dev/github.com/kubernetes-csi/csi-proxy/v2/pkg/remote#WithPipePath
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Config says what is served. Its zero value is what a daemon without flags
// serves.
type Config struct {
	// APIs are the versions to serve, as "disk/v1". None means all.
	APIs []string

	// WorkingDirs are the directories in which paths of requests may lie. None
	// means that of the kubelet, C:\var\lib\kubelet.
	WorkingDirs []string
	// Services are Windows services that may be started and stopped beside
	// MSiSCSI.
	Services []string
	// NoSMBPrivacy is -require-privacy=false.
	NoSMBPrivacy bool

	// StandardPipes serves where NewClient of the client module looks: at the
	// pipes of a daemon, or in the directory of package pipe. [Start] has a
	// directory of its own made that one for the time of the test.
	StandardPipes bool

	// Log gets a line for each call that fails; nil means nobody does.
	Log *slog.Logger
}

// kubeletDir is the daemon's default for -kubelet-path.
const kubeletDir = `C:\var\lib\kubelet`

// Server serves a node. Several goroutines may use it at once.
type Server struct {
	node   *simnode.Node
	config Config
	dirs   policy.Dirs
	dir    string // of sockets; empty for standard pipes
	prefix string // of pipe names, where there are pipes

	mu     sync.Mutex
	cancel context.CancelFunc // nil while stopped
	ended  chan error
}

// TB is what [Start] needs of a test: a *testing.T, or what another framework
// has in its place.
type TB interface {
	simnode.TB
	Setenv(key, value string)
}

// Start serves n until the test ends. The test fails if the server does not stop
// in order. Faults of the node end first, since calls that they delay would hold
// it up.
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

// hasPipes tells whether this system has named pipes.
func hasPipes() bool { return runtime.GOOS == "windows" }

// socketDir makes a directory for sockets. Those of tests are often too long for
// the path of a socket.
func socketDir() (string, error) { return os.MkdirTemp("", "csi") }

// Open serves n until Close. All pipes answer when it returns. Tests have
// [Start].
func Open(n *simnode.Node, config Config) (*Server, error) {
	if len(config.WorkingDirs) == 0 {
		config.WorkingDirs = []string{kubeletDir}
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{node: n, config: config}
	var err error
	if s.dirs, err = policy.ParseDirs(config.WorkingDirs); err != nil {
		return nil, err
	}
	if !config.StandardPipes {
		// On Windows the directory only lends its name, which nobody else has.
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

// Dir is the directory of the sockets. A program that is started with it as
// CSI_PROXY_DIR finds them. Named pipes are in none.
func (s *Server) Dir() string {
	if s.config.StandardPipes && !hasPipes() {
		dir, err := pipe.SocketDir()
		if err == nil {
			return dir
		}
	}
	return s.dir
}

// PipePath is the path of the pipe, or of its socket, for a version of a group.
// Nobody answers there if that version is not served.
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

// Stop takes the proxy away, as its end does: calls that run finish, and whoever
// calls then finds nobody. It is a no-op while it is stopped.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	s.cancel = nil
	return <-s.ended
}

// Restart brings the proxy back at the same pipes, stopping it first if it runs.
// It is a new process: what it knew of SMB credentials it does not know any more.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pipes, err := s.pipes()
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	server, err := apiserver.Open(apiserver.Config{
		Log:    s.config.Log,
		Listen: func(name string) (net.Listener, error) { return apiserver.ListenAt(s.path(name)) },
		Ready:  func() { close(ready) },
	}, pipes...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
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

// pipes are those of a new process on the node, behind the rules of the daemon.
func (s *Server) pipes() ([]apiserver.Pipe, error) {
	services := append(policy.DefaultServices(), s.config.Services...)
	p, err := s.node.NewProcess(simnode.Rules{WorkingDirs: s.config.WorkingDirs, AllowedServices: services, NoSMBPrivacy: s.config.NoSMBPrivacy})
	if err != nil {
		return nil, err
	}
	all := wire.Services(wire.Groups{
		Disk: p.Disk(), Volume: policy.Volume(p.Volume(), s.dirs), Filesystem: policy.Filesystem(p.Filesystem(), s.dirs),
		SMB: policy.SMB(p.SMB(), s.dirs, policy.SMBRules{}), ISCSI: p.ISCSI(), System: policy.System(p.System(), services),
	})
	if len(s.config.APIs) == 0 {
		return apiserver.Pipes(all), nil
	}
	var served []wire.Service
	for _, api := range s.config.APIs {
		i := slices.IndexFunc(all, func(w wire.Service) bool { return w.String() == api })
		if i < 0 {
			var known []string
			for _, w := range all {
				known = append(known, w.String())
			}
			return nil, fmt.Errorf("there is no API %q: %w; there are %s", api, hosterr.ErrInvalid, strings.Join(known, ", "))
		}
		served = append(served, all[i])
	}
	return apiserver.Pipes(served), nil
}
