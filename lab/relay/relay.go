// Package relay gives Windows programs under Wine the named pipes of a CSI Proxy that
// runs natively on Linux, on unix sockets. A small Windows program (csi-proxy-relay)
// owns the pipes, and passes each connection on to this process over loopback.
//
// A proxy that is stopped looks a little different through the relay: its pipes still
// exist, and each connection ends at once.
package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
)

// Program is the import path of the Windows program.
const Program = "github.com/kubernetes-csi/csi-proxy/lab/relay/csi-proxy-relay"

// Build builds the Windows program to file, with the go command, in the module of the
// current directory. That module must require the lab.
func Build(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", file, Program)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the relay: go build %s: %w\n%s", Program, err, out)
	}
	return nil
}

// Relay is a running relay.
type Relay struct {
	dir   string
	names []string
	token string

	listener net.Listener
	process  *session.Process

	mu      sync.Mutex
	closed  bool
	open    map[net.Conn]bool
	running sync.WaitGroup
}

// Start starts a relay for the sockets in dir, on pipes of s with the names of the
// sockets. exe is the Windows program. When Start returns, all pipes accept connections.
func Start(ctx context.Context, s *session.Session, exe, dir string) (_ *Relay, err error) {
	sockets, err := filepath.Glob(filepath.Join(dir, "csi-proxy-*-v*.sock"))
	if err != nil {
		return nil, err
	}
	if len(sockets) == 0 {
		return nil, fmt.Errorf("relay: no socket in %s; start the proxy first", dir)
	}
	r := &Relay{dir: dir, token: rand.Text(), open: map[net.Conn]bool{}}
	for _, socket := range sockets {
		r.names = append(r.names, strings.TrimSuffix(filepath.Base(socket), ".sock"))
	}
	address, err := r.listen()
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	ready := &waiter{want: []byte("ready"), seen: make(chan struct{})}
	r.process, err = s.Start(session.Program{
		Path: exe, Args: append([]string{address}, r.names...), Env: []string{"CSI_PROXY_RELAY_TOKEN=" + r.token}, Log: ready,
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	select {
	case <-ready.seen:
		return r, nil
	case <-r.process.Ended():
		err = r.process.Wait(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("relay: %w", err), r.Close())
}

// waiter waits for a text in what is written to it.
type waiter struct {
	want, have []byte
	seen       chan struct{}
	once       sync.Once
}

func (w *waiter) Write(b []byte) (int, error) {
	w.have = append(w.have, b...)
	if bytes.Contains(w.have, w.want) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(b), nil
}

// Close closes the pipes and ends all connections.
func (r *Relay) Close() error {
	if r.process != nil {
		r.process.Kill()
	}
	err := r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.open {
		_ = c.Close() // its copier reports nothing either
	}
	r.mu.Unlock()
	r.running.Wait()
	return err
}

// listen accepts connections of the Windows program, and returns its address.
func (r *Relay) listen() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	r.listener = l
	r.running.Go(r.serve)
	return l.Addr().String(), nil
}

func (r *Relay) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.running.Go(func() { r.pass(c) })
	}
}

// track registers a connection, so that Close ends it. It reports false after Close.
func (r *Relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[c] = true
	return !r.closed
}

func (r *Relay) end(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

// pass connects a connection to the socket that its first line names, after the token:
// other users of this machine can reach the port, too.
func (r *Relay) pass(c net.Conn) {
	defer r.end(c)
	if !r.track(c) || c.SetReadDeadline(time.Now().Add(10*time.Second)) != nil {
		return
	}
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	token, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if err != nil || token != r.token || !slices.Contains(r.names, name) || c.SetReadDeadline(time.Time{}) != nil {
		return
	}
	socket, err := net.Dial("unix", filepath.Join(r.dir, name+".sock"))
	if err != nil {
		return // the proxy is stopped
	}
	defer r.end(socket)
	if !r.track(socket) {
		return
	}
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(socket, in); done <- struct{}{} }()
	go func() { _, _ = io.Copy(c, socket); done <- struct{}{} }()
	<-done
}
