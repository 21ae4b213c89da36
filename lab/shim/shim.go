// Package shim makes os.Readlink, os.Lstat and os.Remove of Go programs work for links under Wine
// 10, which has no reparse points. Its DLL takes the place of bcryptprimitives.dll, which
// each Go program loads, and answers for the links that package mirror shows. It also makes
// Unix sockets on which programs listen: [Socket] reads where.
//
// Other functions do not see links. In particular, os.RemoveAll of a directory with a link
// in it may remove the content of what the link leads to.
package shim

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
)

//go:embed c/shim.c
var source []byte

// compiler makes DLLs of Windows. It is in Debian's package gcc-mingw-w64-x86-64.
const compiler = "x86_64-w64-mingw32-gcc"

// ErrNoCompiler is the error on a machine without mingw-w64.
var ErrNoCompiler = errors.New(compiler + " is not installed; Debian has it in the package gcc-mingw-w64-x86-64")

// Env is what the environment of a program must have, for the DLL to be loaded.
const Env = "WINEDLLOVERRIDES=bcryptprimitives=n"

// Dir is the directory of the files that the DLL reads, one for each link. When a program
// removes a link, the DLL removes the file.
const Dir = `C:\.csi-proxy-links`

// Install compiles the DLL and installs it in a session, for programs that start with
// [Env].
func Install(ctx context.Context, s *session.Session) error {
	if _, err := exec.LookPath(compiler); err != nil {
		return ErrNoCompiler
	}
	dir, err := os.MkdirTemp("", "csi-proxy-shim")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, dll := filepath.Join(dir, "shim.c"), filepath.Join(dir, "bcryptprimitives.dll")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-Os", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-shared", "-o", dll, c, "-ladvapi32", "-lws2_32").CombinedOutput(); err != nil {
		return fmt.Errorf("compile the shim: %w\n%s", err, out)
	}
	b, err := os.ReadFile(dll)
	if err != nil {
		return err
	}
	// Wine's own is a link to a file that other sessions share.
	to := s.OnLinux(`C:\windows\system32\bcryptprimitives.dll`)
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		return err
	}
	return os.MkdirAll(s.OnLinux(Dir), 0o755)
}

// Socket returns the address of the program that listens on a Unix socket, and what its file
// has. Both are empty if none has listened there. A program that was killed leaves the file.
func Socket(s *session.Session, path string) (address, text string) {
	b, err := os.ReadFile(s.OnLinux(path))
	if err != nil {
		return "", ""
	}
	return listener(string(b))
}

// ofListener matches what shim.c writes: the port, the process, and a time.
var ofListener = regexp.MustCompile(`^([0-9]{1,5}) [0-9]+\.[0-9]+\n$`)

// listener is Socket for what a file has, which another program may have written.
func listener(text string) (address, same string) {
	found := ofListener.FindStringSubmatch(text)
	if found == nil {
		return "", ""
	}
	return "127.0.0.1:" + found[1], text
}

// SetLink makes os.Readlink return target, the name in a reparse point, for a path.
func SetLink(s *session.Session, path, target string) error {
	var b []byte
	for _, u := range utf16.Encode([]rune(target)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return os.WriteFile(on(s, path), b, 0o644)
}

// RemoveLink makes a path one that is no link.
func RemoveLink(s *session.Session, path string) error {
	if err := os.Remove(on(s, path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Removed lets the program that removed a link continue: it waits until the link is gone.
func Removed(s *session.Session, path string) error {
	return os.WriteFile(on(s, path)+".gone", nil, 0o644)
}

func on(s *session.Session, path string) string { return s.OnLinux(Dir + `\` + File(path)) }

// File returns the name of the file for a link. The hash is that of shim.c.
func File(path string) string {
	h := fnv.New64a()
	for _, u := range utf16.Encode([]rune(path[2:])) {
		if 'a' <= u && u <= 'z' {
			u -= 'a' - 'A'
		}
		_, _ = h.Write([]byte{byte(u), byte(u >> 8)})
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
