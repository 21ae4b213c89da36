package limit

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
)

// pipeOf returns a pipe with so many places, and what happened to connections.
func pipeOf(most int, l net.Listener) (p *Pipe, happened *[]string) {
	happened = new([]string)
	p = NewPipe("csi-proxy-disk-v1", l, slog.New(slog.DiscardHandler), func(c *Conn, how Crowded) {
		*happened = append(*happened, string(how)+" of process "+c.String())
	})
	p.conns.most, p.API.most = most, most
	return p, happened
}

// connection is a connection of a process that has sent its greeting, and waits for its end.
func connection(p *Pipe, pid uint32) *Conn {
	client, server := net.Pipe()
	go io.Copy(io.Discard, client)
	c := p.newConn(server)
	c.pid = pid
	c.greeted.Store(true)
	return c
}

// admitted is a connection that gets a place.
func admitted(t *testing.T, p *Pipe, pid uint32) *Conn {
	t.Helper()
	c := connection(p, pid)
	if !p.admit(c) {
		t.Fatalf("a connection of process %d is refused", pid)
	}
	return c
}

// Who has most loses first, and of that process what was idle for the longest time. What runs a
// call is never lost.
func TestConnectionsOfTheGreedyAreLost(t *testing.T) {
	p, happened := pipeOf(8, nil)
	honest := []*Conn{admitted(t, p, 1), admitted(t, p, 2), admitted(t, p, 3)}
	var greedy []*Conn
	for range 100 {
		greedy = append(greedy, admitted(t, p, 9))
	}
	lost := func(all []*Conn) (n int) {
		for _, c := range all {
			if c.lost {
				n++
			}
		}
		return n
	}
	if lost(honest) != 0 || lost(greedy[:95]) != 95 || lost(greedy[95:]) != 0 {
		t.Errorf("%d of 3 and %d of 100 are lost, want 0 and the first 95", lost(honest), lost(greedy))
	}
	running := &Call{Of: greedy[95]}
	if err := errors.Join(p.API.Begin(running), p.API.Run(t.Context(), running, nil)); err != nil {
		t.Fatal(err)
	}
	greedy[98].greeted.Store(false)
	admitted(t, p, 4)
	admitted(t, p, 5)
	if !greedy[98].lost || !greedy[96].lost || greedy[95].lost || lost(honest) != 0 {
		t.Error("want that one without a greeting is lost first, then the idlest, and never one that runs a call")
	}
	// Among processes with one connection each, only an idle one makes room.
	for _, pid := range []uint32{6, 7} {
		admitted(t, p, pid)
	}
	for _, c := range p.open() {
		c.calls++
	}
	if p.admit(connection(p, 8)) {
		t.Error("a new process closed a connection in use of one that has no more")
	}
	honest[1].calls--
	if admitted(t, p, 8); !honest[1].lost {
		t.Error("the idle connection did not make room")
	}
	refused := slices.Index(*happened, "refused of process 8")
	if r := p.Refusals(); refused < 0 || r.Connections != 1 || !strings.Contains(r.String(), "refused 1 connections and 0 calls") {
		t.Errorf("refusals: %v; %q", r, *happened)
	}
	p.CloseAll()
	p.API.End(running)
	if len(p.processes) > 0 {
		t.Errorf("%d processes are kept that have nothing", len(p.processes))
	}
}

// A process whose own connections all run calls takes no place of one that has fewer.
func TestProcessThatHasMoreIsRefused(t *testing.T) {
	p, _ := pipeOf(2, nil)
	running := &Call{Of: admitted(t, p, 1)}
	if err := errors.Join(p.API.Begin(running), p.API.Run(t.Context(), running, nil)); err != nil {
		t.Fatal(err)
	}
	if idle := admitted(t, p, 2); p.admit(connection(p, 1)) || idle.lost {
		t.Error("a second connection of a process took the place of another process's only one")
	}
	p.API.End(running)
	p.CloseAll()
}

// A process that connects again while gRPC closes its last connection, twice, stays one process.
func TestProcessThatConnectsAgainIsOne(t *testing.T) {
	p, _ := pipeOf(8, nil)
	first := admitted(t, p, 1)
	first.Close()
	second := admitted(t, p, 1)
	first.Close()
	if third := admitted(t, p, 1); third.process != second.process || second.process.conns != 2 {
		t.Errorf("two connections of one process count as %d and %d", second.process.conns, third.process.conns)
	}
	p.CloseAll()
}

// A connection may close itself at the moment when it is closed for another one; -race finds what
// they share without the lock.
func TestConnectionClosesWhileItIsReplaced(t *testing.T) {
	for range 100 {
		p, _ := pipeOf(1, nil)
		first, done := admitted(t, p, 1), make(chan struct{})
		go func() {
			defer close(done)
			for lost := false; !lost; runtime.Gosched() {
				p.mu.Lock()
				lost = first.lost
				p.mu.Unlock()
			}
			first.Close()
		}()
		admitted(t, p, 2)
		<-done
		p.CloseAll()
	}
}

// Calls of a connection that is closed for another one do not run, and their error says why.
func TestCallsOfALostConnectionDoNotRun(t *testing.T) {
	p, _ := pipeOf(1, nil)
	first := admitted(t, p, 1)
	call := &Call{Of: first}
	if err := p.API.Begin(call); err != nil {
		t.Fatal(err)
	}
	admitted(t, p, 1)
	err := p.API.Run(t.Context(), call, nil)
	if busy := (*failure.BusyError)(nil); !errors.As(err, &busy) || !strings.Contains(err.Error(), "closed for another one") || len(p.API.taken) != 0 {
		t.Errorf("Run = %v, and %d calls have a place", err, len(p.API.taken))
	}
}

// Nor does a call that waits in line when its connection is lost.
func TestCallsInLineOfALostConnectionDoNotRun(t *testing.T) {
	p, _ := pipeOf(2, nil)
	other, first := admitted(t, p, 2), admitted(t, p, 1)
	p.API.free = 1
	running, waiting := runs(t, other), waits(t, first, nil)
	admitted(t, p, 1)
	p.API.End(running)
	if !first.lost || waiting.runs || p.API.free != 1 {
		t.Errorf("the connection is lost: %t; its call runs: %t; %d slots are free, want 1", first.lost, waiting.runs, p.API.free)
	}
}

// ended counts the calls that lost their place.
type ended struct{ n *int }

func (e ended) Lose() { *e.n++ }

// A process with many calls does not keep another one from its first: it loses its oldest.
func TestProcessHasPlaceForItsCalls(t *testing.T) {
	p, _ := pipeOf(maxWaiting, nil)
	lost := 0
	begin := func(c *Conn) error { return p.API.Begin(&Call{Of: c, Loser: ended{&lost}}) }
	greedy := admitted(t, p, 1)
	for range maxWaiting {
		if err := begin(greedy); err != nil {
			t.Fatal(err)
		}
	}
	other := admitted(t, p, 2)
	for i := range 5 {
		if err := begin(other); err != nil {
			t.Errorf("call %d of another process: %v", i, err)
		}
	}
	if err := begin(admitted(t, p, 1)); err == nil {
		t.Error("a further call of the process with most is not refused")
	}
	if n := p.Refusals().Calls; n != 6 || lost != 5 || greedy.calls != maxWaiting-5 {
		t.Errorf("%d calls are counted as refused, %d lost their place, and %d of the first have one", n, lost, greedy.calls)
	}
	p.CloseAll()
}

// waits is a call that waits, and is sent to turns when it runs.
func waits(t *testing.T, c *Conn, turns chan<- *Call) *Call {
	t.Helper()
	call, queued := &Call{Of: c}, make(chan struct{})
	if err := c.pipe.API.Begin(call); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := c.pipe.API.Run(t.Context(), call, func() { close(queued) }); err == nil {
			turns <- call
		}
	}()
	<-queued
	return call
}

// runs is a call that runs.
func runs(t *testing.T, c *Conn) *Call {
	t.Helper()
	call := &Call{Of: c}
	if err := errors.Join(c.pipe.API.Begin(call), c.pipe.API.Run(t.Context(), call, nil)); err != nil {
		t.Fatal(err)
	}
	return call
}

// The next call to run is of the process of which fewest run; processes with as few take turns,
// and calls of one process keep their order.
func TestTurns(t *testing.T) {
	p, _ := pipeOf(maxWaiting, nil)
	var running, waiting []*Call
	turns := make(chan *Call)
	greedy, one, two := admitted(t, p, 1), admitted(t, p, 2), admitted(t, p, 3)
	for range maxRunning {
		running = append(running, runs(t, greedy))
	}
	for _, c := range []*Conn{greedy, greedy, one, one, two} {
		waiting = append(waiting, waits(t, c, turns))
	}
	// The first two free slots go to the other processes, then to their other calls.
	for i, want := range []*Call{waiting[2], waiting[4], waiting[3], waiting[0], waiting[1]} {
		p.API.End(running[i])
		if got := <-turns; got != want {
			t.Fatalf("turn %d has call %d, want %d", i, slices.Index(waiting, got), slices.Index(waiting, want))
		}
	}
	p.CloseAll()
}

// A driver whose long calls run makes a further one in its turn, although processes of which none
// runs wait as well.
func TestLongCallsKeepTheirProcessInTurn(t *testing.T) {
	p, _ := pipeOf(maxWaiting, nil)
	turns := make(chan *Call)
	driver, greedy := admitted(t, p, 1), admitted(t, p, 2)
	for range 2 {
		runs(t, driver)
	}
	var short []*Call
	for range maxRunning - 2 {
		short = append(short, runs(t, greedy))
	}
	want := []*Call{waits(t, driver, turns), waits(t, admitted(t, p, 3), turns), waits(t, admitted(t, p, 4), turns)}
	for i := range want {
		p.API.End(short[i])
		if got := <-turns; got != want[i] {
			t.Fatalf("turn %d has call %d", i, slices.Index(want, got))
		}
	}
	p.CloseAll()
}

// A call that gives up while it waits leaves the line.
func TestCallThatGivesUpLeavesTheLine(t *testing.T) {
	p, _ := pipeOf(maxWaiting, nil)
	p.API.free = 0
	ctx, cancel := context.WithCancel(t.Context())
	call := &Call{Of: admitted(t, p, 1)}
	if err := p.API.Begin(call); err != nil {
		t.Fatal(err)
	}
	if err := p.API.Run(ctx, call, cancel); !errors.Is(err, context.Canceled) || len(p.API.waiting) != 0 || len(p.API.taken) != 0 {
		t.Errorf("Run = %v, and %d processes wait", err, len(p.API.waiting))
	}
	p.CloseAll()
}

// namedPipe is a connection of a named pipe that records what the server does.
type namedPipe struct {
	net.Conn
	did *[]string
}

func (p namedPipe) Disconnect() error { *p.did = append(*p.did, "disconnect"); return nil }
func (p namedPipe) Close() error      { *p.did = append(*p.did, "close"); return nil }

// listed is a listener of some connections.
type listed struct {
	net.Listener
	conns []net.Conn
}

func (l *listed) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

func (*listed) Close() error { return nil }

// Published clients open a connection to check that the server exists, and never close
// it. Closing the server's end alone could keep the pipe's name in use.
func TestStopDisconnectsSilentClients(t *testing.T) {
	var did []string
	p, _ := pipeOf(8, &listed{conns: []net.Conn{namedPipe{did: &did}}})
	if _, err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil || !slices.Equal(did, []string{"disconnect", "close"}) {
		t.Errorf("Close = %v after %q, want disconnect before close", err, did)
	}
}

// Why a connection is refused is known before the client can notice it.
func TestRefusalIsReportedBeforeClosing(t *testing.T) {
	var did []string
	p := NewPipe("p", &listed{conns: []net.Conn{namedPipe{did: &did}}}, slog.New(slog.DiscardHandler), func(_ *Conn, how Crowded) { did = append(did, string(how)) })
	p.conns.most = 0
	if c, err := p.Accept(); !errors.Is(err, net.ErrClosed) || !slices.Equal(did, []string{"refused", "close"}) {
		t.Errorf("Accept = %v, %v after %q, want a refused connection", c, err, did)
	}
}

// All connections of a pipe have the memory that docs/run/reference.md says.
func TestMemoryOfConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := pipeOf(Connections, l)
	s := grpc.NewServer(Options()...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go s.Serve(p)
	defer s.Stop()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	open := make([]net.Conn, 0, Connections)
	for range Connections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		io.WriteString(c, http2.ClientPreface)
		f := http2.NewFramer(c, nil)
		f.WriteSettings()
		if _, err := io.ReadFull(c, make([]byte, 9)); err != nil { // its settings
			t.Fatal(err)
		}
		open = append(open, c)
	}
	const most = 64 << 20
	took := used() - before
	t.Logf("%d connections take %d KiB each, with the end of the client", len(open), took/uint64(len(open))>>10)
	if took > most {
		t.Errorf("%d connections take %d MiB, want %d at most", len(open), took>>20, most>>20)
	}
}
