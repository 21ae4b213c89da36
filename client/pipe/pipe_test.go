package pipe_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/internal/pipetest"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

func TestName(t *testing.T) {
	tests := map[string]struct{ path, want string }{
		"as Path returns it":    {pipe.Path("csi-proxy-disk-v1"), "csi-proxy-disk-v1"},
		"single separators":     {`\\.\pipe\csi-proxy-disk-v1`, "csi-proxy-disk-v1"},
		"capitals":              {`\\.\PIPE\csi-proxy-disk-v1`, "csi-proxy-disk-v1"},
		"blanks in the name":    {`\\.\pipe\a b.c`, "a b.c"},
		"no name":               {`\\.\pipe\`, ""},
		"nothing":               {"", ""},
		"name alone":            {"csi-proxy-disk-v1", ""},
		"another machine":       {`\\server\pipe\csi-proxy-disk-v1`, ""},
		"verbatim prefix":       {`\\?\pipe\csi-proxy-disk-v1`, ""},
		"not a pipe":            {`\\.\PhysicalDrive0`, ""},
		"below a pipe":          {`\\.\pipe\a\b`, ""},
		"out of the directory":  {`\\.\pipe\../../etc/x`, ""},
		"NUL":                   {"\\\\.\\pipe\\a\x00b", ""},
		"newline":               {"\\\\.\\pipe\\a\n", ""},
		"one separator missing": {`\.\pipe\a`, ""},
		"unix socket":           {"/run/csi-proxy/csi-proxy-disk-v1.sock", ""},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			got, err := pipe.Name(tt.path)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("Name(%q) = %q, %v, want %q", tt.path, got, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), `\\.\pipe\NAME`) {
				t.Errorf("Name(%q): error %q does not contain the expected form", tt.path, err)
			}
		})
	}
}

// unixOnly skips tests of systems on which sockets replace pipes.
func unixOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no sockets in place of pipes: run it on Linux")
	}
}

func TestSocketDir(t *testing.T) {
	unixOnly(t)
	byUser := func(root, other string) string {
		if os.Geteuid() == 0 {
			return root
		}
		return other
	}
	tests := map[string]struct {
		dir, runtime string
		want, err    string
	}{
		"set":              {"/srv/sockets", "/run/user/7", "/srv/sockets", ""},
		"set, not clean":   {"/srv//sockets/", "", "/srv/sockets", ""},
		"relative":         {"sockets", "/run/user/7", "", `CSI_PROXY_DIR is "sockets": want an absolute path`},
		"by user":          {"", "/run/user/7", byUser("/run/csi-proxy", "/run/user/7/csi-proxy"), ""},
		"nothing set":      {"", "", byUser("/run/csi-proxy", ""), byUser("", "set CSI_PROXY_DIR or XDG_RUNTIME_DIR")},
		"relative runtime": {"", "user/7", byUser("/run/csi-proxy", ""), byUser("", `XDG_RUNTIME_DIR is "user/7": want an absolute path`)},
		"both set":         {"/a", "/b", "/a", ""},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			t.Setenv(pipe.DirVariable, tt.dir)
			t.Setenv("XDG_RUNTIME_DIR", tt.runtime)
			got, err := pipe.SocketDir()
			if got != tt.want {
				t.Errorf("SocketDir() = %q, %v, want %q", got, err, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("SocketDir(): error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestSocketPath(t *testing.T) {
	unixOnly(t)
	t.Setenv(pipe.DirVariable, "/d")
	fill := func(n int) string { return strings.Repeat("x", n) }
	tests := map[string]struct{ path, want, err string }{
		"pipe":                 {pipe.Path("csi-proxy-disk-v1"), "/d/csi-proxy-disk-v1.sock", ""},
		"pipe, single":         {`\\.\pipe\csi-proxy-disk-v1`, "/d/csi-proxy-disk-v1.sock", ""},
		"socket":               {"/tmp/my.sock", "/tmp/my.sock", ""},
		"longest pipe":         {`\\.\pipe\` + fill(pipe.MaxSocketPath-8), "/d/" + fill(pipe.MaxSocketPath-8) + ".sock", ""},
		"longest socket":       {"/" + fill(pipe.MaxSocketPath-1), "/" + fill(pipe.MaxSocketPath-1), ""},
		"pipe too long":        {`\\.\pipe\` + fill(pipe.MaxSocketPath-7), "", "at most 107"},
		"socket too long":      {"/" + fill(pipe.MaxSocketPath), "", "has 108 bytes, but the path of a unix socket may have at most 107"},
		"relative":             {"my.sock", "", `"my.sock" is not the path of a named pipe`},
		"empty":                {"", "", "or the absolute path of a unix socket"},
		"NUL":                  {"/tmp/a\x00b", "", "NUL"},
		"name of dots is safe": {`\\.\pipe\..`, "/d/...sock", ""},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			if runtime.GOOS != "linux" && strings.Contains(tt.err, "107") {
				t.Skip("the limit in the text is that of Linux: run it there")
			}
			got, err := pipe.SocketPath(tt.path)
			if got != tt.want {
				t.Errorf("SocketPath(%q) = %q, %v, want %q", tt.path, got, err, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("SocketPath(%q): error %v, want %q", tt.path, err, tt.err)
			}
		})
	}
}

// The system accepts a path of MaxSocketPath bytes.
func TestMaxSocketPath(t *testing.T) {
	unixOnly(t)
	pipetest.Path(t) // sets the directory
	dir := os.Getenv(pipe.DirVariable)
	longest := filepath.Join(dir, strings.Repeat("x", pipe.MaxSocketPath-len(dir)-1))
	if len(longest) != pipe.MaxSocketPath {
		t.Fatalf("the path has %d bytes", len(longest))
	}
	pipetest.Listen(t, longest)
	conn, err := pipe.Dial(t.Context(), longest)
	if err != nil {
		t.Fatalf("dial a socket with a path of %d bytes: %v", len(longest), err)
	}
	conn.Close()
	if _, err := pipe.Dial(t.Context(), longest+"x"); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("dial a socket with a longer path: error %v", err)
	}
}

func TestDialAcceptsEverySpelling(t *testing.T) {
	path := pipetest.Path(t)
	l := pipetest.Listen(t, path)
	go l.Handle(func(net.Conn) {})
	name, err := pipe.Name(path)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{path, `\\.\pipe\` + name}
	if runtime.GOOS != "windows" {
		paths = append(paths, filepath.Join(os.Getenv(pipe.DirVariable), name+".sock"))
	}
	for _, p := range paths {
		c, err := pipe.Dial(t.Context(), p)
		if err != nil {
			t.Errorf("Dial(%q): %v", p, err)
			continue
		}
		c.Close()
	}
}

func FuzzSocketPath(f *testing.F) {
	for _, seed := range []string{pipe.Path("csi-proxy-disk-v1"), `\\.\pipe\..`, "/tmp/x", `\\.\pipe\a/../b`, ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		unixOnly(t)
		t.Setenv(pipe.DirVariable, "/d")
		socket, err := pipe.SocketPath(path)
		if err != nil {
			return
		}
		if len(socket) > pipe.MaxSocketPath {
			t.Errorf("SocketPath(%q) = %q, which is too long", path, socket)
		}
		if socket != path && filepath.Dir(socket) != "/d" {
			t.Errorf("SocketPath(%q) = %q, which is not in the directory", path, socket)
		}
	})
}
