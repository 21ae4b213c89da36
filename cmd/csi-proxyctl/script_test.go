package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
)

// The scripts run csi-proxyctl, and the daemon that it calls, as programs of
// their own: both are this test's binary.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"csi-proxyctl": func() {
			version = "test"
			// What people do not wait for is not what the scripts are about, and a
			// busy machine may need longer.
			os.Args = slices.Insert(os.Args, 1, "--timeout="+hung.String())
			main()
		},
		"csi-proxy-sim": func() { os.Exit(daemon.Run(context.Background(), simhost.Program("test"), os.Args[1:], os.Stderr)) },
	})
}

// hung is how long something takes that will never be.
const hung = 2 * time.Minute

func TestScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("named pipes are one for the whole machine, sockets have a directory each: run it on Linux")
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
			// absent TEXT DIRECTORY wants no file below a directory to hold text.
			"absent": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: absent TEXT DIRECTORY")
				}
				files := 0
				err := filepath.WalkDir(ts.MkAbs(args[1]), func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() || strings.HasSuffix(path, ".img") { // images are large, and hold no state
						return err
					}
					files++
					if strings.Contains(ts.ReadFile(path), args[0]) {
						ts.Fatalf("%s holds %q", path, args[0])
					}
					return nil
				})
				if err != nil || files == 0 {
					ts.Fatalf("%s: %d files, %v", args[1], files, err)
				}
			},
			// exits CODE PROGRAM ARGUMENT... wants a program to end with an exit code.
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
			// saw FILE PATTERN waits until a file that a program writes has a line
			// that matches.
			"saw": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: saw FILE PATTERN")
				}
				want, err := regexp.Compile("(?m)" + args[1])
				ts.Check(err)
				for limit := time.Now().Add(hung); ; time.Sleep(5 * time.Millisecond) {
					text, err := os.ReadFile(ts.MkAbs(args[0]))
					if err == nil && want.Match(text) {
						return
					}
					if time.Now().After(limit) {
						ts.Fatalf("%s has no line like %s: %v\n%s", args[0], args[1], err, text)
					}
				}
			},
			// await NAME waits until somebody answers at a pipe: one that is there is
			// not yet one that a client can wait for.
			"await": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: await NAME")
				}
				socket := filepath.Join(ts.Getenv(pipe.DirVariable), args[0]+".sock")
				ctx, cancel := context.WithTimeout(context.Background(), hung)
				defer cancel()
				for {
					conn, err := transport.ConnectContext(ctx, socket)
					if err == nil {
						conn.Close()
						return
					}
					select {
					case <-ctx.Done():
						ts.Fatalf("%s: %v", args[0], err)
					case <-time.After(5 * time.Millisecond):
					}
				}
			},
		},
	})
}
