package hunt_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// spec is what the choices of a run do not decide.
type spec struct {
	world int    // index of worlds.Pairs
	plant string // name of a planted fault, or ""
	// library means that the services run in a driver's process, which opens the root of a drive
	// for each operation. The daemon keeps that of Windows' drive open.
	library bool
}

// A choice is what happens at one step. It is one of
//
//	r7                       the waiting call of request r7 is made
//	r7!5                     it fails with the Win32 error 5
//	r7=d3 disk0 Format 2m0s  driver d3 makes request r7: operation, object, deadline
//	disk0 detach             something else happens to an object
//	wait 1s                  time passes
//	wait                     time passes until a call or an answer arrives
//	kill                     CSI Proxy is killed, and starts again
//	reboot                   so does Windows
type choice string

// result is what became of a run.
type result struct {
	choices []choice // that were applied
	asked   int      // choices that were given
	trace   []string
	fault   string // what is wrong, or ""
	history []operation
	took    time.Duration // of simulated time
	tally   tally
}

// sim is a run. Its scheduler is the goroutine of the test; mu guards what the goroutines of
// the code under test share with it.
type sim struct {
	*world
	spec    spec
	arrived chan struct{} // a call waits, or a request ended
	stacks  sync.Pool     // buffers for stacks

	mu       sync.Mutex
	waiting  []*turn
	requests []*request              // whose work has not ended
	owners   map[uint64]string       // goroutine → request
	handles  map[win32.Handle]string // open handle → request; to ask for the goroutine costs much more
	clock    int64                   // orders the history
	recent   []event                 // since the last step
	news     bool                    // an answer or event came since the node was observed
	touched  bool                    // a call that may have changed the node was made since the last step
	res      result
	busy     map[string]string // driver → its unanswered request
	restAt   time.Time         // when nothing is expected any more; zero before the end
}

// turn is a Win32 call that waits to be made.
type turn struct {
	who  string // empty until the step ends, if no request is known for which it works
	by   uint64 // the goroutine
	text string
	name string
	made chan error // nil: make it; otherwise it fails with this error
}

// event is what a goroutine of the code under test did in a step. Several may do something at
// the same time, such as when a deadline ends.
type event struct {
	who  string
	text string
	note func()
}

// request is a request of a driver.
type request struct {
	name, driver string
	object       object
	op           string
	call         inflight.Call
	cancel       context.CancelFunc
	of           *process
	index        int     // in the history
	named        *uint32 // the number of a disk that it names, or nil
	others       []int   // in the history, of disks that took the number meanwhile
}

// errDead is the result of the calls of a process that was killed.
var errDead = errors.New("the process is dead")

// run makes a run. next returns the next choice, and false at the end.
func run(t *testing.T, sp spec, next func(*sim) (choice, bool)) (res result) {
	t.Helper()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		s := &sim{spec: sp, arrived: make(chan struct{}, 1), owners: map[uint64]string{}, handles: map[win32.Handle]string{}, busy: map[string]string{}}
		begun := time.Now()
		s.world = newWorld(t, s)
		defer s.world.end(t)
		for s.res.fault == "" {
			s.settle()
			s.look()
			c, more := next(s)
			if !more {
				break
			}
			s.res.asked++
			if s.apply(c) {
				s.res.choices = append(s.res.choices, c)
			}
		}
		s.drain()
		if s.res.fault == "" {
			s.fail(s.world.look(true))
		}
		s.stop()
		s.res.took = time.Since(begun)
		time.Sleep(time.Hour) // goroutines of dead processes wake up, and end
		s.settle()
		w, res = s.world, s.res
	})
	runtime.GC()
	if res.fault == "" { // not in the bubble, whose time stands still
		if res.fault = w.linearizable(res.history); res.fault != "" {
			res.trace = append(res.trace, "FAULT "+res.fault)
		}
	}
	res.tally = w.tally
	return res
}

// fail notes the first thing that is wrong.
func (s *sim) fail(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.res.fault == "" && fault != "" {
		s.res.fault = fault
		s.res.trace = append(s.res.trace, "FAULT "+fault)
	}
}

// note adds a line to the trace. s.mu must be locked.
func (s *sim) note(format string, args ...any) {
	s.res.trace = append(s.res.trace, fmt.Sprintf(format, args...))
}

// later notes what a goroutine of the code under test did. s.mu must be locked.
func (s *sim) later(who, text string, note func()) {
	s.recent = append(s.recent, event{who, text, note})
}

// settle waits until everything waits, and notes what happened, in an order that does not
// depend on Go's scheduler.
func (s *sim) settle() {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.recent, func(a, b event) int { return byName(a.who, b.who) })
	for _, e := range s.recent {
		if e.note != nil {
			e.note()
			s.news = true
		}
		if e.text != "" {
			s.note("%s", e.text)
		}
	}
	s.recent = nil
	if s.touched || !time.Now().Equal(s.infoAt) {
		s.info, s.touched = nil, false
	}
	s.christen()
}

// byName compares names of requests.
func byName(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// signal wakes the scheduler.
func (s *sim) signal() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// hook makes each call of a process wait for its turn.
func (s *sim) hook(p *process, c *win32.Call) error {
	s.mu.Lock()
	who, known := s.handles[c.Handle]
	s.mu.Unlock()
	var id uint64
	if !known {
		who, id = s.owner()
	}
	s.mu.Lock()
	if p.died() {
		s.mu.Unlock()
		return errDead
	}
	t := &turn{who: who, by: id, text: c.String(), name: c.Name, made: make(chan error, 1)}
	s.waiting = append(s.waiting, t)
	s.signal()
	s.mu.Unlock()

	err := <-t.made
	if err == nil {
		err = c.Do()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = s.touched || touches(c, err)
	if c.Name == "CloseHandle" {
		delete(s.handles, c.Handle)
	} else if c.Handle != 0 {
		s.handles[c.Handle] = t.who
	}
	if p.died() {
		return errDead
	}
	s.landing = s.landing || err == nil && (c.Name == "LoginIScsiTarget" || c.Name == "StartService")
	s.later(t.who, fmt.Sprintf("%s %s = %v", t.who, t.text, err), nil)
	return err
}

// touches reports whether a call may have changed what the node shows: that it has changed it, or
// made Windows look, or given back a lock.
func touches(c *win32.Call, err error) bool {
	switch c.Name {
	case "CloseHandle", "Reenumerate", "UpdateStorageCache":
		return true
	case "DeviceIoControl":
		switch c.Code {
		case win32.IOCTL_DISK_UPDATE_DRIVE_SIZE, win32.IOCTL_DISK_UPDATE_PROPERTIES, win32.IOCTL_VOLUME_UPDATE_PROPERTIES, win32.FSCTL_LOCK_VOLUME:
			return true
		}
	}
	return c.Changed(err)
}

// owner returns the request for which the calling goroutine works, or "" if none is known, and the
// goroutine's number. A goroutine works for the request of the one that started it.
func (s *sim) owner() (who string, id uint64) {
	buf, ok := s.stacks.Get().(*[16 << 10]byte)
	if !ok {
		buf = new([16 << 10]byte)
	}
	defer s.stacks.Put(buf)
	b := buf[:runtime.Stack(buf[:], false)]
	s.mu.Lock()
	defer s.mu.Unlock()
	id, parent := ids(b)
	if who, ok := s.owners[id]; ok {
		return who, id
	}
	who, ok = s.owners[parent]
	if !ok { // the one between made no call: look at all goroutines
		for started := goroutines(); !ok && parent != 0; who, ok = s.owners[parent] {
			parent = started[parent]
		}
	}
	if ok {
		s.owners[id] = who
	}
	return who, id
}

// dumps are buffers for the stacks of all goroutines.
var dumps = sync.Pool{New: func() any { return new([4 << 20]byte) }}

// goroutines returns the living goroutines, and which one started each.
func goroutines() map[uint64]uint64 {
	buf := dumps.Get().(*[4 << 20]byte)
	defer dumps.Put(buf)
	all := buf[:runtime.Stack(buf[:], true)]
	started := map[uint64]uint64{}
	for stack := range bytes.SplitSeq(all, []byte("\n\n")) {
		child, by := ids(stack)
		started[child] = by
	}
	return started
}

const background = "background"

// christen names the goroutines that made their first call in this step and work for no
// request, such as a search for links that a timer began. The names are numbers that no living
// goroutine has, in the order in which the goroutines were started. s.mu must be locked.
func (s *sim) christen() {
	var unknown []*turn
	for _, t := range s.waiting {
		if t.who == "" {
			unknown = append(unknown, t)
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.SortFunc(unknown, func(a, b *turn) int { return cmp.Compare(a.by, b.by) })
	taken := map[string]bool{}
	for id := range goroutines() {
		taken[s.owners[id]] = true
	}
	for _, t := range unknown {
		for n := 1; t.who == "" || taken[t.who]; n++ {
			t.who = fmt.Sprintf("%s%d", background, n)
		}
		taken[t.who] = true
		s.owners[t.by] = t.who
	}
}

// ids returns the numbers of a goroutine and of the one that started it, from its stack.
func ids(stack []byte) (id, parent uint64) {
	number := func(b []byte) uint64 {
		end := bytes.IndexFunc(b, func(r rune) bool { return r < '0' || r > '9' })
		if end >= 0 {
			b = b[:end]
		}
		n, _ := strconv.ParseUint(string(b), 10, 64)
		return n
	}
	if rest, ok := bytes.CutPrefix(stack, []byte("goroutine ")); ok {
		id = number(rest)
	}
	if i := bytes.LastIndex(stack, []byte(" in goroutine ")); i >= 0 {
		parent = number(stack[i+len(" in goroutine "):])
	}
	return id, parent
}

// turns returns the waiting calls, in an order that does not depend on when they arrived.
func (s *sim) turns() []*turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.waiting)
	slices.SortStableFunc(all, func(a, b *turn) int {
		return cmp.Or(byName(a.who, b.who), cmp.Compare(a.text, b.text))
	})
	return all
}

// running returns the requests whose work has not ended.
func (s *sim) running() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// apply makes a choice. It returns false if there is nothing to which it applies, as may be
// when a run is repeated with a part of its choices.
func (s *sim) apply(c choice) bool {
	first, rest, _ := strings.Cut(string(c), " ")
	who, code, fails := strings.Cut(first, "!")
	name, driver, begins := strings.Cut(first, "=")
	switch {
	case first == "wait" && rest == "":
		s.idle()
		return true
	case first == "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return false
		}
		if d > 100*time.Millisecond { // as if Windows hung
			s.disturb(func(*request) bool { return true })
		}
		time.Sleep(d)
		return true
	case first == "kill" || first == "reboot":
		s.restart(first == "reboot")
		return true
	case begins:
		return s.begin(name, driver, rest)
	case rest != "":
		return s.happen(first, rest)
	}
	for _, t := range s.turns() {
		if t.who != who {
			continue
		}
		var err error
		if fails {
			n, bad := strconv.ParseUint(code, 10, 32)
			if bad != nil || !mayFail(t.name) {
				return false
			}
			err = win32.Errno(n)
			// Requests share the work of a rescan and of a format.
			s.disturb(func(r *request) bool {
				return r.name == who || strings.HasPrefix(who, background) || r.op == "Rescan" || r.op == "Format"
			})
		}
		s.proceed(t, err)
		return true
	}
	return false
}

// proceed lets a waiting call be made.
func (s *sim) proceed(t *turn, err error) {
	s.mu.Lock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *turn) bool { return w == t })
	s.mu.Unlock()
	t.made <- err
}

// mayFail reports whether faults make a call fail.
func mayFail(name string) bool {
	return name != "CloseHandle" && name != "WithPrivilege"
}

// idle lets time pass until something arrives. An hour without anything is a fault.
func (s *sim) idle() {
	select {
	case <-s.arrived: // perhaps of earlier
	default:
	}
	if len(s.turns()) > 0 || len(s.running()) == 0 {
		return
	}
	select {
	case <-s.arrived:
	case <-time.After(time.Hour + odd):
		var stuck []string
		for _, r := range s.running() {
			stuck = append(stuck, fmt.Sprintf("%s %s %s", r.name, r.object.name(), r.op))
		}
		s.fail(fmt.Sprintf("requests that never end: %q", stuck))
	}
}

// odd is a part of each time that a run sets itself. No timer of the code under test ends at the
// same moment then, which would let Go's scheduler choose.
const odd = 7 * time.Millisecond

// begin makes a driver make a request.
func (s *sim) begin(name, driver, text string) bool {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return false
	}
	o := s.object(fields[0])
	limit, err := time.ParseDuration(fields[2])
	s.mu.Lock()
	taken := s.busy[driver] != "" || slices.ContainsFunc(s.requests, func(r *request) bool { return r.name == name })
	s.mu.Unlock()
	if o == nil || err != nil || taken || !slices.Contains(o.requests(), fields[1]) {
		return false
	}
	s.named = nil
	do := o.prepare(fields[1])
	if do == nil {
		return false
	}
	of := s.proc
	if plants[s.spec.plant].own {
		if of, err = s.fork(); err != nil {
			s.fail(err.Error())
			return false
		}
	}
	if lock := plants[s.spec.plant].lock; lock != nil {
		set := lock(&of.node.Locks)
		*set = keymutex.Set{Kind: set.Kind}
	}
	if planted := plants[s.spec.plant].call; planted != nil {
		do = planted(s.world, fields[1], do)
	}
	r := &request{name: name, driver: driver, object: o, op: fields[1], of: of, named: s.named}
	s.mu.Lock()
	s.busy[driver] = name
	s.requests = append(s.requests, r)
	r.index = s.record(operation{who: name, object: o.name(), op: r.op})
	s.meet(r)
	s.note("%s of %s begins: %s %s", name, driver, o.name(), r.op)
	s.mu.Unlock()
	// No two deadlines end at the same moment.
	if n, err := strconv.ParseUint(strings.TrimPrefix(name, "r"), 10, 16); err == nil {
		limit += time.Duration(n) * time.Microsecond
	}
	// As the daemon: a call with a deadline, whose work may outlive it.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	ctx = r.call.Begin(ctx, func() { s.ended(r) })
	r.cancel = cancel
	go func() {
		id, _ := ids(stackTop())
		s.mu.Lock()
		s.owners[id] = name
		s.mu.Unlock()
		value, err := do(ctx, r.of)
		s.answer(r, value, err)
		r.call.Leave()
		cancel()
	}()
	return true
}

func stackTop() []byte {
	b := make([]byte, 64)
	return b[:runtime.Stack(b, false)]
}

// answer notes the answer of a request.
func (s *sim) answer(r *request, value string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.of.died() {
		return // the answer did not arrive; the kill noted it
	}
	s.later(r.name, fmt.Sprintf("%s of %s: %s %s = %s", r.name, r.driver, r.object.name(), r.op, describeAnswer(value, err)), func() {
		delete(s.busy, r.driver)
		h := &s.res.history[r.index]
		h.value, h.err = value, err
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			h.unknown = true // the work may go on: ended notes when it does not
			return
		}
		s.clock++
		h.returned = s.clock
	})
	s.signal()
}

// ended notes that nothing works for a request any more.
func (s *sim) ended(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.later(r.name, "", func() {
		s.requests = slices.DeleteFunc(s.requests, func(x *request) bool { return x == r })
		for _, i := range append(r.others, r.index) {
			if h := &s.res.history[i]; h.returned == 0 {
				s.clock++
				h.returned = s.clock
			}
		}
	})
	s.signal()
}

// record adds an operation that begins now to the history. s.mu must be locked.
func (s *sim) record(o operation) (index int) {
	s.clock++
	o.called = s.clock
	if o.who != "observed" { // an answer must be true, although nothing changed
		for k := range s.seen {
			if strings.HasPrefix(k, o.object+" ") {
				delete(s.seen, k)
			}
		}
	}
	s.res.history = append(s.res.history, o)
	return len(s.res.history) - 1
}

// disturb notes that something happened during requests that may make them fail.
func (s *sim) disturb(which func(*request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if which(r) {
			s.res.history[r.index].disturbed = true
		}
	}
}

// maybe notes that from now on a request may do its work on an object once more. s.mu must be
// locked.
func (s *sim) maybe(r *request, o object) {
	r.others = append(r.others, s.record(operation{who: r.name, object: o.name(), op: r.op, unknown: true, disturbed: true}))
}

func connects(op string) bool { return strings.HasPrefix(op, "Connect") }

// meet notes requests that connect while another one stops the initiator: they may fail although
// they have connected. s.mu must be locked.
func (s *sim) meet(r *request) {
	const stop = "StopInitiator"
	for _, other := range s.requests {
		switch {
		case other.object != r.object:
		case r.op == stop && connects(other.op):
			s.res.history[other.index].disturbed = true
		case other.op == stop && connects(r.op):
			s.res.history[r.index].disturbed = true
		}
	}
}

// takes notes that an object's disk got a number. A request which names that number, and
// which was made when another disk had it, may have met either of them.
func (s *sim) takes(o object, number uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.named == nil || *r.named != number || r.object == o {
			continue
		}
		h := &s.res.history[r.index]
		h.unknown, h.disturbed = true, true
		s.maybe(r, o)
		s.res.history[len(s.res.history)-1].called = s.res.history[r.index].called
	}
}

// happen lets something happen to an object.
func (s *sim) happen(name, what string) bool {
	o := s.object(name)
	if o == nil || !slices.Contains(o.events(), what) {
		return false
	}
	ops, ok := o.happen(what)
	if !ok {
		return false
	}
	s.disturb(func(r *request) bool { return r.object == o })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		h := &s.res.history[r.index]
		if r.object == o && connects(r.op) && (h.returned == 0 || h.unknown) {
			s.maybe(r, o) // it may connect before the event, and again after it
		}
	}
	s.note("%s %s", name, what)
	s.news, s.info = true, nil
	for _, op := range ops {
		op.who, op.object = "event", name
		i := s.record(op)
		s.clock++
		s.res.history[i].returned = s.clock
	}
	return true
}

// restart kills the process and starts another one, perhaps after Windows has restarted.
func (s *sim) restart(reboot bool) {
	s.mu.Lock()
	close(s.proc.killed)
	what := "kill"
	if reboot {
		what = "reboot"
	}
	s.note("%s", what)
	s.news = true
	// What runs now is never answered.
	s.clock++
	for _, r := range s.requests {
		h := &s.res.history[r.index]
		if h.returned == 0 || h.unknown {
			h.unknown, h.disturbed, h.err, h.value = true, true, errDead, ""
			h.returned = s.clock
		}
		for _, i := range r.others {
			s.res.history[i].returned = s.clock
		}
		delete(s.busy, r.driver)
		r.cancel()
	}
	waiting := s.waiting
	s.waiting, s.requests = nil, nil
	s.mu.Unlock()
	for _, t := range waiting {
		t.made <- errDead
	}
	s.settle() // its goroutines end
	if reboot {
		time.Sleep(time.Minute)
	} else {
		time.Sleep(time.Second)
	}
	s.fail(s.world.restart(reboot))
	s.info = nil
	for _, o := range s.objects {
		s.mu.Lock()
		for _, op := range o.restarted(reboot) {
			op.who, op.object = "event", o.name()
			i := s.record(op)
			s.clock++
			s.res.history[i].returned = s.clock
		}
		s.mu.Unlock()
	}
}

// maxSteps limits the calls of the requests that run at the end.
const maxSteps = 20000

// drain lets everything that runs come to its end, without further choices.
func (s *sim) drain() {
	for range maxSteps {
		s.settle()
		s.look()
		if s.res.fault != "" {
			break
		}
		turns := s.turns()
		if len(turns) == 0 && len(s.running()) == 0 {
			if s.rest {
				return
			}
			s.relax()
			continue
		}
		if len(turns) > 0 {
			s.proceed(turns[0], nil)
			continue
		}
		s.idle()
	}
	if s.res.fault == "" {
		s.fail("requests make calls without end")
	}
}

// stop ends the last process, so that the goroutines of the bubble end.
func (s *sim) stop() {
	s.mu.Lock()
	close(s.proc.killed)
	waiting := s.waiting
	s.waiting = nil
	for _, r := range s.requests {
		r.cancel()
	}
	s.mu.Unlock()
	for _, t := range waiting {
		t.made <- errDead
	}
	s.settle()
}

// relax lets minutes pass in which no request is made, so that what CSI Proxy does later is
// done.
func (s *sim) relax() {
	if s.restAt.IsZero() {
		s.restAt = time.Now().Add(5*time.Minute + odd)
	}
	select {
	case <-s.arrived:
	case <-time.After(time.Until(s.restAt)):
		s.rest, s.news = true, true
	}
}

// look checks what must hold after each step.
func (s *sim) look() {
	if s.info == nil || s.news {
		// Always, so that what drivers know does not depend on who looked before.
		for _, o := range s.objects {
			o.learn()
		}
		if s.res.fault == "" {
			s.fail(s.world.look(false))
		}
	}
	if s.res.fault != "" {
		return
	}
	running := s.running()
	if len(running) == 0 && len(s.turns()) == 0 {
		s.fail(s.world.leaks())
	}
	if !s.news {
		return
	}
	s.news = false
	// An object at rest is as the model has it.
	for _, o := range s.objects {
		if slices.ContainsFunc(running, func(r *request) bool { return r.object == o || r.op == "Rescan" }) {
			continue
		}
		ops := o.observe()
		s.mu.Lock()
		for _, op := range ops {
			op.who, op.object = "observed", o.name()
			if s.seen[o.name()+" "+op.op] == op.value {
				continue
			}
			s.seen[o.name()+" "+op.op] = op.value
			i := s.record(op)
			s.clock++
			s.res.history[i].returned = s.clock
		}
		s.mu.Unlock()
	}
}

// seeded returns a generator of choices. Nearly all requests are about the crowded object, if
// that is not empty.
func seeded(seed uint64, steps int, crowded string) func(*sim) (choice, bool) {
	r := rand.New(rand.NewPCG(seed, 17))
	drivers := 2 + r.IntN(11)
	// What a run has of the rare things.
	rates := struct{ fault, event, kill, reboot, wait int }{r.IntN(3) * 8, r.IntN(3) * 25, r.IntN(2) * 6, r.IntN(2) * 3, r.IntN(3) * 10}
	limits := []string{"2m0.007s", "2m0.007s", "2m0.007s", "10.007s", "307ms"}
	requests, pause := 0, 3<<r.IntN(4)
	hot, share := r.IntN(5), r.IntN(2)*(5+r.IntN(5)) // one of the first objects gets so many tenths of the requests
	if crowded != "" {
		drivers, share = 4, 9
	}
	// In half of the runs the call of the request with the highest priority is next. Now and
	// then that request gets the lowest. So one request may stand still in the middle of its
	// work while others do theirs.
	var priorities map[string]int
	if r.IntN(2) == 0 {
		priorities = map[string]int{}
	}
	lowest, patience := 0, 10<<r.IntN(4)
	return func(s *sim) (choice, bool) {
		if steps--; steps < 0 {
			return "", false
		}
		turns := s.turns()
		n := r.IntN(1000)
		rare := func(rate int) bool {
			n -= rate
			return n < 0
		}
		switch {
		case rare(rates.kill):
			return "kill", true
		case rare(rates.reboot):
			return "reboot", true
		case rare(rates.event):
			o := s.objects[r.IntN(len(s.objects))]
			if all := o.events(); len(all) > 0 {
				return choice(o.name() + " " + all[r.IntN(len(all))]), true
			}
		case rare(rates.wait):
			return choice("wait " + []string{"1ms", "20ms", "500ms", "6s", "1m0s"}[r.IntN(5)]), true
		case rare(rates.fault) && len(turns) > 0:
			t := turns[r.IntN(len(turns))]
			codes := []win32.Errno{win32.ERROR_IO_DEVICE, win32.ERROR_SHARING_VIOLATION, win32.ERROR_ACCESS_DENIED, win32.ERROR_NOT_READY, win32.ERROR_NO_SUCH_DEVICE}
			code := codes[r.IntN(len(codes))]
			if t.name == "UseDel" && code == win32.ERROR_NO_SUCH_DEVICE {
				code = win32.ERROR_IO_DEVICE // the other one would say that there is no mapping
			}
			return choice(fmt.Sprintf("%s!%d", t.who, code)), true
		}
		idle := []string{}
		for i := range drivers {
			if d := fmt.Sprintf("d%d", i); s.busy[d] == "" {
				idle = append(idle, d)
			}
		}
		if len(idle) > 0 && (len(turns) == 0 && len(s.running()) == 0 || r.IntN(pause) == 0) {
			requests++
			o, eager := s.objects[r.IntN(len(s.objects))], 5
			if r.IntN(10) < share {
				o, eager = s.objects[hot], 8
				if crowded != "" {
					o = s.object(crowded)
				}
			}
			all := o.requests()
			if useful := o.useful(); len(useful) > 0 && r.IntN(10) < eager {
				all = useful
			}
			what := all[r.IntN(len(all))]
			if slices.Contains(o.events(), what) {
				return choice(o.name() + " " + what), true
			}
			return choice(fmt.Sprintf("r%d=%s %s %s %s", requests, idle[r.IntN(len(idle))], o.name(), what, limits[r.IntN(len(limits))])), true
		}
		if len(turns) == 0 {
			return "wait", true
		}
		if priorities == nil {
			return choice(turns[r.IntN(len(turns))].who), true
		}
		for _, t := range turns {
			if priorities[t.who] == 0 {
				priorities[t.who] = 1 + r.IntN(1<<20)
			}
		}
		next := slices.MaxFunc(turns, func(a, b *turn) int { return cmp.Compare(priorities[a.who], priorities[b.who]) }).who
		if r.IntN(patience) == 0 {
			lowest--
			priorities[next] = lowest
		}
		return choice(next), true
	}
}

// given returns choices that were recorded.
func given(choices []choice) func(*sim) (choice, bool) {
	i := 0
	return func(*sim) (choice, bool) {
		if i == len(choices) {
			return "", false
		}
		i++
		return choices[i-1], true
	}
}
