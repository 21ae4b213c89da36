package daemon_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// benchPath is as deep as the path of a volume in a pod.
const benchPath = `C:\var\lib\kubelet\pods\4f8e7c52-5d1b-4c0e-9d3a-6f1f5b7a9c11\volumes\kubernetes.io~csi\pvc-1\mount`

// The servers that are compared, in this process, on the same pipe.
var benched = map[string]func(ctx context.Context, log string) error{
	"bare": func(ctx context.Context, _ string) error { // gRPC, which answers at once
		l, err := pipes.Listen("csi-proxy-filesystem-v1")
		if err != nil {
			return err
		}
		g := grpc.NewServer()
		filesystemv1.RegisterFilesystemServer(g, echo{})
		defer context.AfterFunc(ctx, g.Stop)()
		return g.Serve(l)
	},
	"daemon": func(ctx context.Context, log string) error { // over Win32 calls that return at once
		program := daemon.Program{Name: "bench", Version: "bench", Host: instantHost{}}
		if code := daemon.Run(ctx, program, []string{"-logtostderr=false", "-log_file=" + log}, io.Discard); code != 0 {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	},
}

// echo answers that every path exists.
type echo struct {
	filesystemv1.UnimplementedFilesystemServer
}

func (echo) PathExists(context.Context, *filesystemv1.PathExistsRequest) (*filesystemv1.PathExistsResponse, error) {
	return &filesystemv1.PathExistsResponse{Exists: true}, nil
}

// instantHost opens a node whose Win32 calls return at once.
type instantHost struct{}

func (instantHost) Name() string           { return "instant" }
func (instantHost) AddFlags(*flag.FlagSet) {}

func (instantHost) Open(r rules.Rules, counts *win32.Counts) (*daemon.Node, error) {
	n := node.New(instant{})
	n.Trace(counts) // as csi-proxy does
	n.Rules = r
	s, err := services.Open(n)
	if err != nil {
		return nil, err
	}
	return &daemon.Node{Groups: wire.Groups{Disk: s.Disk, Filesystem: s.Filesystem, ISCSI: s.ISCSI, SMB: s.SMB, System: s.System, Volume: s.Volume}}, nil
}

// instant has the calls of PathExists, and of the daemon at its start: every file exists, at the
// path that is asked for.
type instant struct{ win32.API }

func (instant) NtCreateFile(root win32.Handle, _ string, _, _, _, _, _ uint32) (win32.Handle, error) {
	return root + 1, nil
}
func (instant) WindowsDirectory() (string, error) { return `C:\Windows`, nil }
func (instant) QueryDirectory(win32.Handle, bool, []byte) (int, error) {
	return 0, win32.STATUS_NO_MORE_FILES
}
func (instant) CloseHandle(win32.Handle) error                 { return nil }
func (instant) FinalPath(win32.Handle, uint32) (string, error) { return `\\?\` + benchPath, nil }
func (instant) UseEnum() ([]win32.Use, error)                  { return nil, nil }

// benchCall starts a server, which ends with the test, and returns a call of it.
func benchCall(tb testing.TB, server string) (call func() error) {
	tb.Helper()
	tb.Setenv(pipe.DirVariable, tb.TempDir())
	state, logger := klog.CaptureState(), slog.Default() // the flags of klog are global
	log := filepath.Join(tb.TempDir(), "log")
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- benched[server](ctx, log) }()
	var c *filesystem.Client
	err := nodetest.Eventually(longLimit, func() (err error) { c, err = filesystem.NewClient(); return err })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Close()
		stop()
		if err := <-served; err != nil {
			tb.Errorf("%s: %v", server, err)
		}
		state.Restore()
		slog.SetDefault(logger)
	})
	return func() error {
		out, err := c.PathExists(ctx, &filesystemv1.PathExistsRequest{Path: benchPath})
		if err == nil && !out.GetExists() {
			err = fmt.Errorf("%s does not exist", benchPath)
		}
		return err
	}
}

// make bench runs it on sockets and, where there is a Wine, on named pipes. Only the ratio of the two
// servers can be compared between machines.
func BenchmarkPathExists(b *testing.B) {
	for _, each := range []int{1, 8, 32} {
		for _, server := range []string{"bare", "daemon"} {
			b.Run(fmt.Sprintf("%d callers per processor/%s", each, server), func(b *testing.B) {
				call := benchCall(b, server)
				b.ReportAllocs()
				b.SetParallelism(each)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := call(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// maxAllocations is how many allocations a PathExists of the daemon may have beyond those of
// bare gRPC and of the client, with logs, metrics and traces off. Lower it when the code gets
// better.
const maxAllocations = 15

func TestAllocationsPerCall(t *testing.T) {
	sockets(t)
	if underRace {
		t.Skip("the race detector has allocations of its own: the stage unit runs it")
	}
	of := func(server string) (n float64) {
		t.Run(server, func(t *testing.T) {
			call := benchCall(t, server)
			once := func() {
				if err := call(); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				once()
			}
			n = testing.AllocsPerRun(2000, once)
		})
		return n
	}
	bare := of("bare")
	if got := of("daemon") - bare; got > maxAllocations {
		t.Errorf("a call has %.0f allocations more than one of bare gRPC, which has %.0f; want at most %d", got, bare, maxAllocations)
	}
}
