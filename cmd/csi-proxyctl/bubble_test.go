package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/flags"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// memory has pipes in memory, by their names, so that the time of what is served on them is that
// of a bubble.
type memory map[string]*bufconn.Listener

func (m memory) listen(name string) (net.Listener, error) {
	m[name] = bufconn.Listen(1 << 16)
	return m[name], nil
}

func (m memory) connect(path string) (*grpc.ClientConn, error) {
	name, err := pipe.Name(path)
	if err != nil {
		return nil, err
	}
	l := m[name]
	if l == nil {
		return nil, &failure{err: &fs.PathError{Op: "connect", Path: path, Err: fs.ErrNotExist}}
	}
	return grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}

// serve serves what csi-proxy does, until stop.
func (m memory) serve(config serve.Config, apis []wire.Service, disks server.Disks, admin bool, more ...serve.Pipe) (stop func() error, err error) {
	config.Log, config.Listen, config.Version, config.Calls = slog.New(slog.DiscardHandler), m.listen, version, new(calls.Calls)
	all := append(serve.Pipes(apis), more...)
	if admin {
		p := server.Pipe(disks, config.Calls, nil, nil)
		p.Listen = m.listen
		all = append(all, p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := serve.Open(ctx, config, all...)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	return func() error {
		cancel()
		clear(m)
		return <-ended
	}, nil
}

// simulated is csi-proxy-sim in memory.
type simulated struct {
	memory
	stop func() error
}

// start starts it with flags of csi-proxy-sim, after it has ended.
func (s *simulated) start(args []string) error {
	if err := s.end(); err != nil {
		return err
	}
	f := flag.NewFlagSet("csi-proxy-sim", flag.ContinueOnError)
	host := simhost.Program(version).Host
	host.AddFlags(f)
	var o flags.Served
	o.Add(f)
	admin := f.Bool("admin-pipe", true, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	n, err := host.Open(o.Rules(), nil)
	if err != nil {
		return err
	}
	dirs, err := policy.ParseDirs(o.AllWorkingDirs())
	if err != nil {
		return err
	}
	n.Groups.Check = (&policy.Rules{Dirs: dirs, Services: o.AllowedServices(), SMB: o.SMB}).Check
	apis, err := wire.Enabled(wire.Services(n.Groups), o.APIs())
	if err != nil {
		return err
	}
	disks := n.Groups.Disk.(server.Disks)
	stop, err := s.serve(serve.Config{ReadOnly: o.ReadOnly, IgnoreFields: o.IgnoreFields, Steps: disks.Node().Steps}, apis, disks, *admin, n.Pipes...)
	s.stop = func() error { return errors.Join(stop(), n.Close()) }
	return err
}

func (s *simulated) end() error {
	if s.stop == nil {
		return nil
	}
	conn, err := s.connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _ = simcontrol.NewNodeClient(conn).ClearFaults(context.Background(), &simcontrol.Empty{}) // what hangs ends, unless all does
	err = s.stop()
	s.stop = nil
	return err
}

// bubbleT runs a script in the bubble of its test.
type bubbleT struct{ *testing.T }

func (t bubbleT) Run(_ string, f func(testscript.T)) { f(t) }
func (bubbleT) Parallel()                            {}
func (bubbleT) Verbose() bool                        { return testing.Verbose() }

// These scripts run csi-proxyctl and csi-proxy-sim in memory and in a bubble, where what hangs for
// an hour takes no time.
func TestScriptsInBubble(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts run sed and name sockets: run it on Linux")
	}
	files, err := filepath.Glob("testdata/bubble/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	log, own := slog.Default(), version
	slog.SetDefault(slog.New(slog.DiscardHandler))
	version = "test"
	defer func() { version = own; slog.SetDefault(log) }()
	for _, file := range files {
		file, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runInBubble(t, file) })
		})
	}
}

func runInBubble(t *testing.T, file string) {
	s := &simulated{memory: memory{}}
	defer time.Sleep(time.Hour) // what was asked while it hung ends
	ctl := func(ts *testscript.TestScript, args []string) int {
		defer synctest.Wait() // until csi-proxy has seen that the command ended
		return (&app{stdin: strings.NewReader(""), stdout: ts.Stdout(), stderr: ts.Stderr(), connect: s.connect}).run(t.Context(), args)
	}
	testscript.RunT(bubbleT{t}, testscript.Params{
		Files:               []string{file},
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			t.Chdir(e.WorkDir)
			e.Defer(func() {
				if err := s.end(); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// sim FLAG... starts csi-proxy-sim; one that runs ends before.
			"sim": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(s.start(args)) },
			// end ends it.
			"end": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(s.end()) },
			// drop NAME removes a pipe.
			"drop": func(_ *testscript.TestScript, _ bool, args []string) { delete(s.memory, args[0]) },
			"fill": runFill, // see there
			// pass DURATION lets time pass.
			"pass": func(ts *testscript.TestScript, _ bool, args []string) {
				d, err := time.ParseDuration(args[0])
				ts.Check(err)
				time.Sleep(d)
			},
			// [!] ctl ARGUMENT... runs csi-proxyctl.
			"ctl": func(ts *testscript.TestScript, neg bool, args []string) {
				if code := ctl(ts, args); (code == 0) == neg {
					ts.Fatalf("exit code %d", code)
				}
			},
			// exits CODE ARGUMENT... fails unless csi-proxyctl ends with an exit code.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				if code := ctl(ts, args[1:]); fmt.Sprint(code) != args[0] {
					ts.Fatalf("exit code %d, want %s", code, args[0])
				}
			},
			// volume DISK NAME keeps the ID of the volume of a disk.
			"volume": func(ts *testscript.TestScript, _ bool, args []string) {
				var out strings.Builder
				(&app{stdin: strings.NewReader(""), stdout: &out, stderr: ts.Stderr(), connect: s.connect}).run(t.Context(), []string{"volume", "list"})
				for line := range strings.Lines(out.String()) {
					if f := strings.Fields(line); f[1] == args[0] {
						ts.Setenv(args[1], f[0])
					}
				}
			},
			// keep NAME keeps what was printed in an environment variable.
			"keep": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
			},
			// hang keeps csi-proxy from answering.
			"hang": func(*testscript.TestScript, bool, []string) {
				for name := range s.memory {
					_, _ = s.listen(name)
				}
			},
		},
	})
}
