package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
)

// The scripts run csi-proxyctl and the daemon as separate processes of this test's
// binary.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"csi-proxyctl": func() {
			version = "test"
			// A busy machine may need more than the usual time limits, which are tested as well.
			if os.Getenv("LIMITS") != "usual" {
				os.Args = slices.Insert(os.Args, 1, "--timeout="+longLimit.String())
			}
			main()
		},
		"csi-proxy-sim": func() { os.Exit(daemon.Run(context.Background(), simhost.Program("test"), os.Args[1:], os.Stderr)) },
	})
}

// longLimit is the time limit for things that should happen soon.
const longLimit = 2 * time.Minute

func TestScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("all tests of a machine share named pipes: run it on Linux, where each has its own sockets")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// $WORK can be too deep for a socket.
			dir, err := os.MkdirTemp("", "csi")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(dir) })
			e.Setenv(pipe.DirVariable, dir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// unzip FILE DIRECTORY writes the files of a zip file into a directory.
			"unzip": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: unzip FILE DIRECTORY")
				}
				z, err := zip.OpenReader(ts.MkAbs(args[0]))
				ts.Check(err)
				defer z.Close()
				ts.Check(os.CopyFS(ts.MkAbs(args[1]), z))
			},
			"incident": runIncident, // see there, as for these
			"overdue":  runOverdue,
			"fill":     runFill,
			"flood":    runFlood,
			// exits CODE PROGRAM ARGUMENT... fails unless a program ends with an exit code.
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
				}
				code := "0"
				var status *exec.ExitError
				switch err := ts.Exec(args[1], args[2:]...); {
				case errors.As(err, &status):
					code = strconv.Itoa(status.ExitCode())
				case err != nil:
					ts.Fatalf("%v", err)
				}
				if code != args[0] {
					ts.Fatalf("%s ended with exit code %s, want %s", args[1], code, args[0])
				}
			},
			// saw FILE PATTERN waits until a file has a line that matches.
			"saw": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: saw FILE PATTERN")
				}
				want, err := regexp.Compile("(?m)" + args[1])
				ts.Check(err)
				ts.Check(nodetest.Eventually(longLimit, func() error {
					text, err := os.ReadFile(ts.MkAbs(args[0]))
					if err == nil && want.Match(text) {
						return nil
					}
					return fmt.Errorf("%s has no line like %s: %v\n%s", args[0], args[1], err, text)
				}))
			},
			// await NAME waits until a server responds on a pipe. A pipe may exist before
			// it is served.
			"await": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: await NAME")
				}
				socket := filepath.Join(ts.Getenv(pipe.DirVariable), args[0]+".sock")
				ctx, cancel := context.WithTimeout(context.Background(), longLimit)
				defer cancel()
				ts.Check(nodetest.Eventually(longLimit, func() error {
					conn, err := transport.ConnectContext(ctx, socket)
					if err != nil {
						return fmt.Errorf("%s: %w", args[0], err)
					}
					return conn.Close()
				}))
			},
		},
	})
}
