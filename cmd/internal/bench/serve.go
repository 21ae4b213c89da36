package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"google.golang.org/grpc"

	api "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/windowshost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// The servers that are measured.
const (
	echoServer = "echo"      // bare gRPC, which answers at once
	stubServer = "stub"      // the daemon over Win32 calls that return at once
	simServer  = "simulated" // the daemon over a simulated node
	winServer  = "native"    // the daemon over this Windows
	// another program, such as the published csi-proxy.exe: only its calls are measured
	otherServer = "other"
)

// kinds returns the servers that this system can run.
func kinds() []string {
	all := []string{echoServer, stubServer, simServer}
	if runtime.GOOS == "windows" {
		all = append(all, winServer)
	}
	return all
}

// serving is what the daemon logs when all its pipes accept connections.
const serving = "Serving API"

// pipeName is the pipe on which calls are made.
const pipeName = "csi-proxy-filesystem-v1"

// serve serves one kind until the end of stdin, and answers each line of it with a
// [figures] in JSON.
func serve(ctx context.Context, kind string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		answer(stdin, stdout)
	}()
	args = append([]string{"-logtostderr", "-v=0"}, args...)
	switch kind {
	case echoServer:
		if err := serveEcho(ctx, stderr); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
		return 0
	case stubServer:
		return daemon.Run(ctx, daemon.Program{Name: "bench", Version: "bench", Host: stubHost{}}, args, stderr)
	case simServer:
		return daemon.Run(ctx, simhost.Program("bench"), args, stderr)
	case winServer:
		return daemon.Run(ctx, windowshost.Program("bench"), args, stderr)
	}
	fmt.Fprintf(stderr, "bench: there is no server %q\n", kind)
	return 2
}

// figures are what a server knows of itself.
type figures struct {
	Allocs, Bytes uint64 // since the start
	Collections   uint32 // of garbage, since the start
	Resident      uint64 // bytes
	Processor     time.Duration
	Goroutines    int
}

// answer answers each line of in. A line that names a file starts a CPU profile, which
// the end of in ends.
func answer(in io.Reader, out io.Writer) {
	lines, encoder := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		if name := lines.Text(); name != "" {
			if f, err := os.Create(name); err == nil && pprof.StartCPUProfile(f) == nil {
				defer pprof.StopCPUProfile()
			}
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		resident, processor := usage()
		if encoder.Encode(figures{m.Mallocs, m.TotalAlloc, m.NumGC, resident, processor, runtime.NumGoroutine()}) != nil {
			return
		}
	}
}

// echo answers that every path exists.
type echo struct {
	api.UnimplementedFilesystemServer
}

func (echo) PathExists(context.Context, *api.PathExistsRequest) (*api.PathExistsResponse, error) {
	return &api.PathExistsResponse{Exists: true}, nil
}

func serveEcho(ctx context.Context, log io.Writer) error {
	l, err := pipes.Listen(pipeName)
	if err != nil {
		return err
	}
	g := grpc.NewServer()
	api.RegisterFilesystemServer(g, echo{})
	defer context.AfterFunc(ctx, g.Stop)()
	go func() {
		// As the daemon does; see apiserver's checkPipes.
		if conn, err := pipe.Dial(ctx, pipe.Path(pipeName)); err == nil {
			conn.Close()
		}
		fmt.Fprintln(log, serving)
	}()
	return g.Serve(l)
}

// stubHost opens a node whose Win32 calls return at once.
type stubHost struct{}

func (stubHost) Name() string           { return "stub" }
func (stubHost) AddFlags(*flag.FlagSet) {}

func (stubHost) Open(r rules.Rules, counts *win32.Counts) (*daemon.Node, error) {
	n := node.New(stub{})
	n.Trace(counts) // as csi-proxy does
	n.Rules = r
	winfs.KeepSystemRoot(n)
	s, err := services.Open(n)
	if err != nil {
		return nil, err
	}
	return &daemon.Node{Groups: wire.Groups{Disk: s.Disk, Filesystem: s.Filesystem, ISCSI: s.ISCSI, SMB: s.SMB, System: s.System, Volume: s.Volume}}, nil
}

// stub has the calls of PathExists, and of the daemon at its start: every file exists, at the
// path that the benchmark asks for.
type stub struct{ win32.API }

func (stub) NtCreateFile(root win32.Handle, _ string, _, _, _, _, _ uint32) (win32.Handle, error) {
	return root + 1, nil
}
func (stub) WindowsDirectory() (string, error) { return `C:\Windows`, nil }
func (stub) QueryDirectory(win32.Handle, bool, []byte) (int, error) {
	return 0, win32.STATUS_NO_MORE_FILES
}
func (stub) CloseHandle(win32.Handle) error                 { return nil }
func (stub) FinalPath(win32.Handle, uint32) (string, error) { return `\\?\` + path, nil }
func (stub) UseEnum() ([]win32.Use, error)                  { return nil, nil }
