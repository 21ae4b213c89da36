package limit

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
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
	c.wrote = true
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
		c.open[1] = struct{}{}
	}
	if p.admit(connection(p, 8)) {
		t.Error("a new process closed a connection in use of one that has no more")
	}
	delete(honest[1].open, 1)
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
	admitted(t, p, 2)
	ctx, cancel := context.WithCancel(t.Context())
	err := p.API.Run(ctx, call, cancel) // gRPC cancels it when the connection is closed
	if busy := (*failure.BusyError)(nil); !errors.As(err, &busy) || !strings.Contains(err.Error(), "closed for another one") || len(p.API.taken) != 0 {
		t.Errorf("Run = %v, and %d calls have a place", err, len(p.API.taken))
	}
}

// checks is a server of health checks whose calls are limited like those of the API, and a client.
func checks(t *testing.T, p *Pipe, of grpc_health_v1.HealthServer, options ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	s := grpc.NewServer(append(Options(), grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		call := &Call{Of: CallerOf(ctx), Loser: ended{new(int)}}
		if err := errors.Join(p.API.Begin(call), p.API.Run(ctx, call, func() {})); err != nil {
			return nil, err
		}
		defer p.API.End(call)
		return handle(ctx, in)
	}))...)
	grpc_health_v1.RegisterHealthServer(s, of)
	go s.Serve(p)
	t.Cleanup(s.Stop)
	client, err := grpc.NewClient("unix:"+p.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return grpc_health_v1.NewHealthClient(client)
}

// unixSocket is a listener whose buffers are small, unlike those of TCP.
func unixSocket(t *testing.T) net.Listener {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs Unix sockets, which Wine 10 does not have; the stage unit of make test runs it on Linux")
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A client of gRPC whose connection is closed for another one makes its calls again: none fails,
// whether it waits, has just arrived, or has ended and its answer is on its way.
func TestCallsOfALostConnectionAreMadeAgain(t *testing.T) {
	const atOnce = 16
	l := unixSocket(t)
	var replaced, refused, made atomic.Int64
	p := NewPipe("csi-proxy-disk-v1", l, slog.New(slog.DiscardHandler), func(_ *Conn, how Crowded) {
		if how == Replaced {
			replaced.Add(1)
		} else {
			refused.Add(1)
		}
	})
	p.conns.most, p.API.free = 1, 1
	client := checks(t, p, health.NewServer())
	check := func() error {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		made.Add(1)
		return err
	}
	blocker := &Call{Of: &Conn{process: new(process)}, Loser: ended{new(int)}}
	for round := range 50 {
		if err := check(); err != nil { // the client is connected
			t.Fatal(err)
		}
		waiting := round%2 == 0 // until all calls have been made again
		if waiting {
			if err := errors.Join(p.API.Begin(blocker), p.API.Run(t.Context(), blocker, nil)); err != nil {
				t.Fatal(err)
			}
		}
		var calls sync.WaitGroup
		left := made.Load() + atOnce
		for range atOnce {
			calls.Go(func() {
				if err := check(); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		line := func(of *Conn) (n int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, process := range p.API.waiting {
				for _, c := range process.line[apiCalls] {
					if c.Of != of && !c.Of.lost {
						n++
					}
				}
			}
			return n
		}
		var first *Conn
		if waiting {
			until(t, func() bool { return line(nil) == atOnce })
			first = p.open()[0]
		}
		// A connection that runs a call is not replaced, so this may take some tries.
		for before := replaced.Load(); replaced.Load() == before && made.Load() < left; {
			tries := refused.Load()
			other, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			until(t, func() bool { return replaced.Load() > before || refused.Load() > tries })
		}
		if waiting {
			until(t, func() bool { return line(first) == atOnce })
			p.API.End(blocker)
		}
		calls.Wait()
	}
	if n := replaced.Load(); n < 50 {
		t.Errorf("%d connections were replaced, so this test shows little", n)
	}
}

// failing is a server of checks that fail.
type failing struct {
	grpc_health_v1.UnimplementedHealthServer
	ran *atomic.Int64
}

func (f failing) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	f.ran.Add(1)
	return nil, errors.New("it fails")
}

// slow is a connection whose client reads after a moment.
type slow struct{ net.Conn }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Conn.Read(p)
}

// A call that ran is not made again, even if its connection is closed for another one right after
// its answer: a client of gRPC that reads both at once has not forgotten the call by then.
func TestCallThatRanIsNotMadeAgain(t *testing.T) {
	const calls = 20
	var ran, replaced atomic.Int64
	for range calls {
		l := unixSocket(t)
		lost := make(chan struct{}, 1)
		p := NewPipe("csi-proxy-disk-v1", l, slog.New(slog.DiscardHandler), func(_ *Conn, how Crowded) {
			if how == Replaced {
				replaced.Add(1)
				select {
				case lost <- struct{}{}:
				default:
				}
			}
		})
		client := checks(t, p, failing{ran: &ran}, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			c, err := net.Dial("unix", l.Addr().String())
			return slow{c}, err
		}))
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err == nil {
			t.Fatal("the call succeeds")
		}
		p.mu.Lock()
		p.conns.most = 1
		p.mu.Unlock()
		go func() {
			for {
				select {
				case <-lost:
					return
				default:
				}
				if other, err := net.Dial("unix", l.Addr().String()); err == nil {
					defer other.Close()
				}
				time.Sleep(200 * time.Microsecond)
			}
		}()
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true)); err == nil {
			t.Fatal("the call succeeds")
		}
	}
	if n := ran.Load(); n > 2*calls {
		t.Errorf("%d calls ran %d times; %d connections were replaced", 2*calls, n, replaced.Load())
	}
}

// A call that its client has given up may keep its place for a moment, and counts neither as one that
// ran nor, after that moment, against those that wait.
func TestFarewellAfterACallIsGivenUp(t *testing.T) {
	p, _ := pipeOf(8, nil)
	c := admitted(t, p, 1)
	arrive := func(stream uint32) *Call {
		c.received(frameHeaders, 0, stream)
		call := &Call{Of: c}
		if err := p.API.Begin(call); err != nil {
			t.Fatal(err)
		}
		return call
	}
	given := arrive(1)
	c.received(frameReset, 0, 1)
	ran := arrive(3)
	if err := p.API.Run(t.Context(), ran, nil); err != nil {
		t.Fatal(err)
	}
	p.API.End(ran)
	if last, leaves := c.leave(); leaves {
		t.Errorf("the farewell says that call 3 was not begun, which ran: the last is %d", last)
	}
	p.API.Drop(given)
	c.sent(frameHeaders, flagEndStream, 3)
	given = arrive(5)
	arrive(7)
	c.received(frameReset, 0, 5)
	p.API.Drop(given)
	time.Sleep(2 * forgets)
	if last, leaves := c.leave(); !leaves || last != 3 {
		t.Errorf("the farewell says %d, %t, want that only call 3 was begun", last, leaves)
	}
	p.CloseAll()
}

// until waits for a condition.
func until(t *testing.T, met func() bool) {
	t.Helper()
	for !met() {
		if t.Context().Err() != nil {
			t.Fatal("the test has ended")
		}
		time.Sleep(time.Millisecond)
	}
}

// ended counts the calls that lost their place.
type ended struct{ n *int }

func (e ended) Lose() { *e.n++ }

// A process with many calls does not keep another one from its first, and one connection of a
// process not another: there are as many places as connections.
func TestEachConnectionHasPlaceForACall(t *testing.T) {
	p, _ := pipeOf(maxWaiting, nil)
	lost := 0
	begin := func(c *Conn) error { return p.API.Begin(&Call{Of: c, Loser: ended{&lost}}) }
	var all []*Conn
	for i := range Connections - 2 {
		all = append(all, admitted(t, p, 1))
		for range 1 + i%maxCalls {
			_ = begin(all[i]) // the last ones are refused
		}
	}
	if len(p.API.taken) != maxWaiting {
		t.Fatalf("%d of %d places are taken", len(p.API.taken), maxWaiting)
	}
	if err := begin(admitted(t, p, 1)); err != nil {
		t.Errorf("the first call of another connection of the process: %v", err)
	}
	other := admitted(t, p, 2)
	for i := range 5 {
		if err := begin(other); err != nil {
			t.Errorf("call %d of another process: %v", i, err)
		}
	}
	if err := begin(all[0]); err == nil {
		t.Error("a further call of the process with most is not refused")
	}
	if p.Refusals().Calls == 0 || lost < 6 {
		t.Errorf("%d calls lost their place, and %d are counted as refused", lost, p.Refusals().Calls)
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

// The frames of a connection are followed across any division into reads and writes.
func TestFramesAreFollowed(t *testing.T) {
	sent := []byte(preface)
	var b strings.Builder
	f := http2.NewFramer(&b, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("xyz"), EndHeaders: true})
	f.WriteData(1, true, make([]byte, 300))
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("x"), EndHeaders: true})
	f.WriteRSTStream(3, http2.ErrCodeCancel)
	sent = append(sent, b.String()...)
	for size := 1; size < len(sent); size += 3 {
		c := &Conn{in: frames{left: len(preface)}, open: map[uint32]struct{}{}}
		for part := range slices.Chunk(sent, size) {
			c.in.pass(part, c.received)
		}
		if _, open := c.open[1]; len(c.open) != 1 || !open || c.highest != 3 || !c.in.between() {
			t.Fatalf("in parts of %d: open %v, the last is %d", size, c.open, c.highest)
		}
		c.sent(frameHeaders, flagEndStream, 1)
		if len(c.open) != 0 {
			t.Fatalf("open after the answer: %v", c.open)
		}
	}
	r := http2.NewFramer(nil, strings.NewReader(string(goAway(7))))
	if frame, err := r.ReadFrame(); err != nil || frame.(*http2.GoAwayFrame).LastStreamID != 7 || frame.(*http2.GoAwayFrame).ErrCode != http2.ErrCodeNo {
		t.Errorf("the frame that ends a connection is %v, %v", frame, err)
	}
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
