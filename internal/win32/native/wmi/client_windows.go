package wmi

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-ole/go-ole"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Client is a WMI namespace. It is safe for concurrent use.
type Client struct {
	connect func(*session) error
	// Lists have threads of their own, so that they do not wait for a server or disk that
	// a change waits for. Formats do because each may take minutes.
	lists, changes, formats pool

	held atomic.Int64 // COM objects and VARIANTs that are not yet released
}

// Limits of time. A call that Windows does not finish within its limit fails with
// ERROR_TIMEOUT, and what it did is unknown.
const (
	// callLimit is that of a call. Windows takes 23 s to find that an SMB server does not
	// exist.
	callLimit = 90 * time.Second
	// jobLimit is what a job may take more than its calls with those limits: connecting
	// takes up to two minutes, and reading definitions has no limit of its own.
	jobLimit = 150 * time.Second
)

// threads is how many changes, and how many formats, run at a time: as many as the calls
// that a pipe runs, so that none of them waits for another one here.
const threads = 32

// New returns a client of a namespace. It does nothing before the first call.
func New(namespace string) *Client {
	return &Client{
		connect: func(s *session) error { return s.connect(namespace) },
		lists:   pool{threads: 2, spares: 4, begin: enterApartment},
		changes: pool{threads: threads, spares: threads, begin: enterApartment},
		formats: pool{threads: threads, spares: threads, begin: enterApartment},
	}
}

// Close ends the client's threads when their jobs are done. The next call starts new ones.
func (c *Client) Close() {
	c.lists.close()
	c.changes.close()
	c.formats.close()
}

// list runs work, which changes nothing, connected to the namespace. name is for errors.
func (c *Client) list(name string, work func(*session) error) error {
	return c.do(&c.lists, name, callLimit, work)
}

// change runs work, connected to the namespace. limit is that of a call of a method.
func (c *Client) change(name string, limit time.Duration, work func(*session) error) error {
	return c.do(&c.changes, name, limit, work)
}

func (c *Client) do(p *pool, name string, limit time.Duration, work func(*session) error) error {
	return p.run(name, limit+jobLimit, func() error {
		err := c.run(limit, work)
		if quota(err) {
			err = c.run(limit, work) // on another connection
		}
		return err
	})
}

// enterApartment prepares a goroutine for COM. Its operating system thread ends with it, so
// that any state that COM leaves on the thread goes too.
func enterApartment() (leave func(), err error) {
	runtime.LockOSThread() // never unlocked
	const sFalse = 1       // the thread is already in an apartment of this kind
	if err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED); err != nil && hresult(err) != sFalse {
		return nil, &Error{Op: "enter a COM apartment", HRESULT: hresult(err)}
	}
	return ole.CoUninitialize, nil
}

func (c *Client) run(limit time.Duration, work func(*session) error) (err error) {
	s := &session{held: &c.held, limit: limit}
	defer s.release()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in a WMI call: %v: %w\n%s", v, win32.ERROR_GEN_FAILURE, debug.Stack())
		}
	}()
	if err := c.connect(s); err != nil {
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
