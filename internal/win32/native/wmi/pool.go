package wmi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// queueLimit is how long a job waits for a thread while all have jobs.
const queueLimit = 30 * time.Second

// pool runs jobs on operating system threads of its own. A job that does not return within
// its limit is abandoned: its caller gets an error, and another thread takes its place until
// it returns. Both numbers of threads are bounded.
type pool struct {
	threads int // jobs at a time
	spares  int // abandoned jobs, in addition
	// begin prepares the thread of the goroutine that it is called on, which then runs
	// jobs until end.
	begin func() (end func(), err error)

	mu        sync.Mutex
	free      chan struct{} // one token for each job that may begin; nil before the first
	idle      []chan *job   // threads without a job
	running   []*job        // in the order in which they began, abandoned ones too
	abandoned int
	closed    int // how many times the pool was closed
}

type job struct {
	name      string // "MSFT_Volume.Format"
	work      func() error
	done      chan error
	began     time.Time
	abandoned bool
}

// run runs work on a thread, for at most limit after a thread is free. name is for errors.
func (p *pool) run(name string, limit time.Duration, work func() error) error {
	if err := p.acquire(name); err != nil {
		return err
	}
	j := &job{name: name, work: work, done: make(chan error, 1), began: time.Now()}
	p.start(j)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-j.done:
		return err
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case err := <-j.done:
		return err
	default:
	}
	if p.abandoned < p.spares {
		p.abandoned++
		j.abandoned = true
		p.free <- struct{}{}
	}
	return fmt.Errorf("WMI: %s: Windows did not respond within %s; restart the service Winmgmt, or the node if that does not help: %w", name, limit, win32.ERROR_TIMEOUT)
}

// acquire waits until a job may begin.
func (p *pool) acquire(name string) error {
	p.mu.Lock()
	if p.free == nil {
		p.free = make(chan struct{}, p.threads)
		for range p.threads {
			p.free <- struct{}{}
		}
	}
	free := p.free
	p.mu.Unlock()
	timer := time.NewTimer(queueLimit)
	defer timer.Stop()
	select {
	case <-free:
		return nil
	case <-timer.C:
		return fmt.Errorf("WMI: %s: no thread was free for %s, because Windows does not respond to other calls (%s); restart the service Winmgmt, or the node if that does not help: %w", name, queueLimit, p.calls(), win32.ERROR_TIMEOUT)
	}
}

// calls describes the running jobs, the oldest first.
func (p *pool) calls() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, j := range p.running {
		list = append(list, fmt.Sprintf("%s for %s", j.name, time.Since(j.began).Round(time.Second)))
	}
	return strings.Join(list, ", ")
}

// start passes j to an idle thread or a new one.
func (p *pool) start(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, j)
	if last := len(p.idle) - 1; last >= 0 {
		p.idle[last] <- j
		p.idle = p.idle[:last]
		return
	}
	jobs := make(chan *job, 1)
	jobs <- j
	go p.thread(jobs, p.closed)
}

// thread runs jobs. It ends after an abandoned one, which another thread has replaced, and
// when the pool is closed.
func (p *pool) thread(jobs chan *job, generation int) {
	end, failed := p.begin()
	if failed == nil {
		defer end()
	}
	for j := range jobs {
		err := failed
		if err == nil {
			err = j.work()
		}
		if !p.finish(j, err, jobs, failed == nil, generation) {
			return
		}
	}
}

// finish reports the result of j. It returns whether the thread gets more jobs.
func (p *pool) finish(j *job, err error, jobs chan *job, usable bool, generation int) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.done <- err
	p.running = slices.DeleteFunc(p.running, func(other *job) bool { return other == j })
	if j.abandoned {
		p.abandoned--
		return false
	}
	if usable && generation == p.closed {
		p.idle, more = append(p.idle, jobs), true
	}
	p.free <- struct{}{}
	return more
}

// close ends the threads: idle ones at once, others after their job. Later jobs start new
// ones.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	for _, jobs := range p.idle {
		close(jobs)
	}
	p.idle = nil
}
