package wmi

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// testPool returns a pool, and a count of its threads.
func testPool(threads, spares int) (p *pool, alive func() int) {
	var mu sync.Mutex
	n := 0
	count := func(d int) {
		mu.Lock()
		defer mu.Unlock()
		n += d
	}
	p = &pool{threads: threads, spares: spares, begin: func() (func(), error) {
		count(1)
		return func() { count(-1) }, nil
	}}
	return p, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// Jobs run at the same time, on as many threads as are allowed, which they share.
func TestPoolRunsJobsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, alive := testPool(4, 2)
		start := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := p.run("a call", time.Minute, func() error { time.Sleep(10 * time.Second); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took != 20*time.Second || alive() != 4 {
			t.Errorf("8 jobs of 10 s took %s on %d threads, want 20 s on 4", took, alive())
		}
		p.close()
		synctest.Wait()
		if alive() != 0 {
			t.Errorf("%d threads after close", alive())
		}
		if err := p.run("a call", time.Minute, func() error { return win32.ERROR_BUSY }); err != win32.ERROR_BUSY || alive() != 1 {
			t.Errorf("after close: %v on %d threads, want the job's error on a new one", err, alive())
		}
		p.close()
	})
}

// A call that Windows does not return from costs its own caller the limit, and others
// nothing. Its thread ends when it does return.
func TestPoolReplacesStuckThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, alive := testPool(1, 1)
		dead := make(chan struct{})
		err := p.run("MSFT_Volume.Format", time.Minute, func() error { <-dead; return nil })
		if !win32.IsCode(err, win32.ERROR_TIMEOUT) || !strings.Contains(err.Error(), "MSFT_Volume.Format") || !strings.Contains(err.Error(), "restart the service Winmgmt") {
			t.Errorf("%v, want a timeout that names the call and the remedy", err)
		}
		for range 3 {
			if err := p.run("another", time.Minute, func() error { return nil }); err != nil || alive() != 2 {
				t.Errorf("%v on %d threads, want none with 2", err, alive())
			}
		}
		close(dead)
		synctest.Wait()
		if alive() != 1 {
			t.Errorf("%d threads after the stuck call returned, want 1", alive())
		}
		p.close()
	})
}

// When as many calls are stuck as there may be, the error says which, and when they return,
// jobs run again.
func TestPoolBoundsStuckThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, alive := testPool(2, 1)
		dead := make(chan struct{})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := p.run("MSFT_SmbGlobalMapping.Create", 10*time.Second, func() error { <-dead; return nil }); !win32.IsCode(err, win32.ERROR_TIMEOUT) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		err := p.run("another", 10*time.Second, func() error { return nil })
		if !win32.IsCode(err, win32.ERROR_TIMEOUT) || strings.Count(err.Error(), "MSFT_SmbGlobalMapping.Create for ") != 3 || alive() != 3 {
			t.Errorf("%v with %d threads, want a timeout that names the 3 calls of 3 threads", err, alive())
		}
		close(dead)
		synctest.Wait()
		if err := p.run("another", 10*time.Second, func() error { return nil }); err != nil || alive() != 2 {
			t.Errorf("afterwards %v with %d threads, want none with 2", err, alive())
		}
		p.close()
	})
}

// A thread that cannot be prepared fails its job and is not used again.
func TestPoolBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no apartment")
		p := &pool{threads: 1, begin: func() (func(), error) { return nil, broken }}
		for range 3 {
			if err := p.run("a call", time.Minute, func() error { t.Error("the job ran"); return nil }); err != broken {
				t.Error(err)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.idle) != 0 || len(p.running) != 0 {
			t.Errorf("%d idle threads, %d running", len(p.idle), len(p.running))
		}
	})
}
