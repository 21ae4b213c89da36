package main

import (
	"archive/zip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
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
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The scripts run csi-proxyctl and the daemon as separate processes of this test's
// binary.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"csi-proxyctl": func() {
			version = "test"
			// A busy machine may need more than the usual time limits.
			os.Args = slices.Insert(os.Args, 1, "--timeout="+longLimit.String())
			main()
		},
		"csi-proxy-sim": func() { os.Exit(daemon.Run(context.Background(), simhost.Program("test"), os.Args[1:], os.Stderr)) },
	})
}

// search returns which file below a directory contains a text, and in which form, or "".
func search(secret, dir string) (found string, err error) {
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".img") { // images are large and contain no state
			return err
		}
		files++
		content, err := os.ReadFile(path)
		for form, text := range formsOf(secret) {
			if strings.Contains(string(content), text) {
				found = path + " (" + form + ")"
			}
		}
		return err
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("%s has no files", dir)
	}
	return found, err
}

// The search of the scripts finds a secret that is there.
func TestSearchFindsSecrets(t *testing.T) {
	const secret = "MARKED-planted-1"
	dir := t.TempDir()
	file := filepath.Join(dir, "sub", "a.log")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := search(secret, dir); err == nil {
		t.Error("a search of no files succeeds")
	}
	contents := map[string]string{"another text": "MARKED-planted-2"}
	for form, text := range formsOf(secret) {
		contents[form] = "before" + text + "after\n"
	}
	for _, before := range []string{"", "b", "be"} {
		contents["base64 behind "+before] = base64.StdEncoding.EncodeToString([]byte(before + secret + "after"))
	}
	for name, content := range contents {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := search(secret, dir)
		if err != nil || (found != "") != (name != "another text") {
			t.Errorf("%s: found %q, %v", name, found, err)
		}
	}
}

// formsOf returns the forms in which a program may write a text.
func formsOf(text string) map[string]string {
	var wide strings.Builder
	for _, u := range win32.UTF16(text) {
		wide.Write([]byte{byte(u), byte(u >> 8)})
	}
	forms := map[string]string{
		"plain":  text,
		"UTF-16": wide.String(),
		"hex":    hex.EncodeToString([]byte(text)),
	}
	// In base64 the letters depend on where in three bytes it begins. Those that have bits of
	// what is beside it are left out.
	for skip := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + text))
		forms[fmt.Sprintf("base64 behind %d bytes", skip)] = coded[(8*skip+5)/6 : (skip+len(text))*8/6]
	}
	return forms
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
			// absent TEXT DIRECTORY fails if a file below a directory contains a text, plainly or
			// as UTF-16, in hex or in base64. ! absent fails if none does.
			"absent": func(ts *testscript.TestScript, neg bool, args []string) {
				if len(args) != 2 {
					ts.Fatalf("usage: absent TEXT DIRECTORY")
				}
				found, err := search(args[0], ts.MkAbs(args[1]))
				ts.Check(err)
				if (found == "") == neg {
					ts.Fatalf("search for %q: found %q", args[0], found)
				}
			},
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
			// incident HEADING runs the commands of a section of docs/incidents.md.
			"incident": runIncident,
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
