package wmi

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/go-ole/go-ole"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Client is a WMI namespace. It is safe for concurrent use; requests are served
// in the order of the calls.
type Client struct {
	namespace string

	mu   sync.Mutex
	jobs chan job // nil while there is no thread

	held atomic.Int64 // COM objects and VARIANTs that are not yet released
}

type job struct {
	work func(*session) error
	done chan error
}

// New returns a client of a namespace. It does nothing before the first call.
func New(namespace string) *Client { return &Client{namespace: namespace} }

// Close ends the client's thread when its jobs are done. The next call starts a
// new one.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs != nil {
		close(c.jobs)
		c.jobs = nil
	}
}

// do runs work on the client's thread, connected to the namespace.
func (c *Client) do(work func(*session) error) error {
	j := job{work: work, done: make(chan error, 1)}
	if err := c.submit(j); err != nil {
		return err
	}
	return <-j.done
}

// submit passes j to the thread. It keeps the lock until the thread has taken j,
// so that callers are served one after the other and Close waits for them.
func (c *Client) submit(j job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs == nil {
		jobs, began := make(chan job), make(chan error)
		go c.thread(jobs, began)
		if err := <-began; err != nil {
			return err
		}
		c.jobs = jobs
	}
	c.jobs <- j
	return nil
}

// thread runs jobs on its own operating system thread, which ends with it, so
// that any state that COM leaves on the thread goes too.
func (c *Client) thread(jobs <-chan job, began chan<- error) {
	runtime.LockOSThread() // never unlocked
	const sFalse = 1       // the thread is already in an apartment of this kind
	if err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED); err != nil && hresult(err) != sFalse {
		began <- &Error{Op: "enter a COM apartment", HRESULT: hresult(err)}
		return
	}
	defer ole.CoUninitialize()
	began <- nil
	for j := range jobs {
		j.done <- c.run(j.work)
	}
}

func (c *Client) run(work func(*session) error) (err error) {
	s := &session{held: &c.held}
	defer s.release()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in a WMI call: %v: %w\n%s", v, win32.ERROR_GEN_FAILURE, debug.Stack())
		}
	}()
	if err := s.connect(c.namespace); err != nil {
		return err
	}
	return work(s)
}

// hresult returns the HRESULT of an error of package ole.
func hresult(err error) uint32 {
	var o *ole.OleError
	if errors.As(err, &o) {
		return uint32(o.Code())
	}
	return 0x80004005 // E_FAIL
}
