package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// path is the path of all calls. It is as deep as that of a volume in a pod.
const path = `C:\var\lib\kubelet\pods\4f8e7c52-5d1b-4c0e-9d3a-6f1f5b7a9c11\volumes\kubernetes.io~csi\pvc-1\mount`

// server is a server in a process of its own.
type server struct {
	kind    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	replies *json.Decoder
	began   time.Time
	served  time.Duration // until it said that it serves
	started time.Duration // until all its pipes answered
}

// start starts a server, and waits until all of its pipes answer.
func (o options) start(ctx context.Context, kind string, pipes []string, args ...string) (*server, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args = append([]string{"serve", kind}, args...)
	if kind == otherServer {
		exe, args = o.other, nil
	}
	s := &server{kind: kind, cmd: exec.CommandContext(ctx, exe, args...)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.replies = json.NewDecoder(bufio.NewReader(stdout))
	s.began = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.answers(ctx, stderr, pipes); err != nil {
		s.cmd.Process.Kill()
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), s.cmd.Wait())
	}
	s.started = time.Since(s.began)
	return s, nil
}

// answers waits until the server says in its log that it serves, and a gRPC server answers
// at each pipe. An earlier connection could meet Wine's instance that is never served. Another
// program has another log, so its pipe is tried until it answers.
func (s *server) answers(ctx context.Context, log io.Reader, pipes []string) error {
	if s.kind == otherServer {
		go io.Copy(io.Discard, log)
		return tryFor(ctx, 30*time.Second, func(ctx context.Context) error { return greet(ctx, pipeName) })
	}
	lines := bufio.NewScanner(log)
	for said := ""; !strings.Contains(said, serving); said = lines.Text() {
		if !lines.Scan() {
			return fmt.Errorf("its log ended: %s", said)
		}
	}
	s.served = time.Since(s.began)
	go io.Copy(io.Discard, log)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	errs := make([]error, len(pipes))
	var group sync.WaitGroup
	for i, name := range pipes {
		group.Go(func() {
			errs[i] = greet(ctx, name)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// tryFor repeats try, which gets at most a second, until it succeeds or limit is over.
func tryFor(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		once, end := context.WithTimeout(ctx, time.Second)
		err := try(once)
		end()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// greeting is what an HTTP/2 client sends first: the preface, and SETTINGS.
const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// greet connects to a pipe and waits until its gRPC server acknowledges the greeting, as
// a client does before its first call. A client of gRPC would take longer than the server.
func greet(ctx context.Context, name string) error {
	c, err := pipe.Dial(ctx, pipe.Path(name))
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	// A write to a pipe waits for its reader, and the server writes first.
	go io.WriteString(c, greeting)
	const settings, ack = 4, 1
	for in := bufio.NewReader(c); ; {
		var header [9]byte // of a frame: length, kind, flags, stream
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return fmt.Errorf("%s: no answer to the greeting: %w", name, err)
		}
		if header[3] == settings && header[4]&ack != 0 {
			return nil
		}
		if _, err := in.Discard(int(header[0])<<16 | int(header[1])<<8 | int(header[2])); err != nil {
			return err
		}
	}
}

// figures asks the server for its figures. With the name of a file, the server also writes
// its profile there, until it stops.
func (s *server) figures(profile string) (f figures, err error) {
	if s.kind == otherServer {
		return f, nil // it has no way to say them
	}
	if _, err := fmt.Fprintln(s.stdin, profile); err != nil {
		return f, err
	}
	return f, s.replies.Decode(&f)
}

// stop stops the server.
func (s *server) stop() error {
	s.stdin.Close()
	if s.kind == otherServer { // it does not end with its input
		err := s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it reports the kill
		return err
	}
	return s.cmd.Wait()
}

// load is what callers did.
type load struct {
	calls     int
	took      time.Duration
	latencies []time.Duration // sorted
}

func (l load) rate() float64 { return float64(l.calls) / l.took.Seconds() }

// at returns the latency that this share of the calls did not exceed.
func (l load) at(share float64) time.Duration {
	return l.latencies[int(float64(len(l.latencies)-1)*share)]
}

// call lets callers call PathExists for a time, or a number of times if that is not 0. They
// share the clients.
func call(ctx context.Context, clients []*filesystem.Client, callers int, limit time.Duration, times int) (load, error) {
	results, errs := make([][]time.Duration, callers), make([]error, callers)
	began := time.Now()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			c := clients[i%len(clients)]
			for n := 0; ; n++ {
				before := time.Now()
				if times > 0 && n >= (times+callers-1)/callers || times == 0 && before.Sub(began) >= limit {
					return
				}
				out, err := c.PathExists(ctx, &api.PathExistsRequest{Path: path})
				if err == nil && !out.GetExists() {
					err = fmt.Errorf("%s does not exist", path)
				}
				if err != nil {
					errs[i] = err
					return
				}
				results[i] = append(results[i], time.Since(before))
			}
		})
	}
	group.Wait()
	l := load{took: time.Since(began), latencies: slices.Concat(results...)}
	l.calls = len(l.latencies)
	slices.Sort(l.latencies)
	return l, errors.Join(errs...)
}

// connect returns clients of the pipe, each with its own connection.
func connect(n int) (clients []*filesystem.Client, disconnect func(), err error) {
	disconnect = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for range n {
		c, err := filesystem.NewClientWithPipePath(pipe.Path(pipeName))
		if err != nil {
			disconnect()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, disconnect, nil
}

// burst opens connections at once, without waiting for their handshakes, and closes them.
func burst(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var group sync.WaitGroup
	conns := make([]net.Conn, n)
	for i := range n {
		group.Go(func() {
			c, err := pipe.Dial(ctx, pipe.Path(pipeName))
			if err != nil {
				return // the server has a limit
			}
			conns[i] = c
			c.SetDeadline(time.Now().Add(time.Second))
			io.WriteString(c, greeting)
		})
	}
	group.Wait()
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}
