package simnode

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Fault makes a Win32 call fail, or take longer, at the boundary between the
// code that runs on Windows and the simulation.
type Fault struct {
	// Call is the name of the call, as "DeviceIoControl" or "Format".
	Call string
	// Code is the control code or information class; 0 means any.
	Code uint32
	// Error is what the call answers: the name or the number of a Win32 error,
	// as "ERROR_ACCESS_DENIED" or "5", the name of an NTSTATUS, as
	// "STATUS_ACCESS_DENIED", or the name or number of an iSCSI status, as
	// "ISDSC_SESSION_BUSY". Empty means that the call goes on after Delay.
	Error string
	// Times is how often it happens; 0 means until ClearFaults.
	Times uint32
	// Delay is how long the call takes before it fails or goes on. ClearFaults
	// ends the wait, and the call goes on.
	Delay time.Duration
	// Hits is how often it happened. Fail does not read it.
	Hits uint32
}

// faults are the faults of a node. The zero faults is none.
type faults struct {
	mu   sync.Mutex
	list []*fault
}

type fault struct {
	Fault
	err     error
	cleared chan struct{}
}

// hook is the node's hook of win32.Observe.
func (fs *faults) hook(c *win32.Call) error {
	f := fs.hit(c)
	if f == nil {
		return c.Do()
	}
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-f.cleared:
			return c.Do()
		}
	}
	if f.err != nil {
		return f.err
	}
	return c.Do()
}

// hit finds the fault that c meets, and counts it.
func (fs *faults) hit(c *win32.Call) *fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		if f.Call == c.Name && (f.Code == 0 || f.Code == c.Code) && (f.Times == 0 || f.Hits < f.Times) {
			f.Hits++
			return f
		}
	}
	return nil
}

func (fs *faults) add(f Fault) error {
	if known := callNames(); !slices.Contains(known, f.Call) {
		return hosterr.WithHint("fail", hosterr.Quote(f.Call), fmt.Errorf("no such Win32 call: %w", hosterr.ErrInvalid), "there are "+strings.Join(known, ", "))
	}
	if f.Delay < 0 {
		return hosterr.Wrap("fail", f.Call, fmt.Errorf("delay %v is negative: %w", f.Delay, hosterr.ErrInvalid))
	}
	if f.Error == "" && f.Delay == 0 {
		return hosterr.Wrap("fail", f.Call, fmt.Errorf("neither an error nor a delay: %w", hosterr.ErrInvalid))
	}
	added := &fault{Fault: f, cleared: make(chan struct{})}
	added.Hits = 0
	if f.Error != "" {
		var err error
		if added.err, err = parseError(f.Error); err != nil {
			return hosterr.Wrap("fail", f.Call, err)
		}
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = append(fs.list, added)
	return nil
}

func (fs *faults) clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		close(f.cleared)
	}
	fs.list = nil
}

func (fs *faults) show() []Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all []Fault
	for _, f := range fs.list {
		all = append(all, f.Fault)
	}
	return all
}

// callNames are the Win32 calls that there are.
func callNames() []string {
	api := reflect.TypeFor[win32.API]()
	var names []string
	for i := range api.NumMethod() {
		names = append(names, api.Method(i).Name)
	}
	return names
}

// parseError reads the name or number of a Win32 error, or the name of an
// NTSTATUS.
func parseError(text string) (error, error) {
	if n, err := strconv.ParseUint(text, 0, 32); err == nil && n != 0 {
		if n>>16 == 0xEFFF {
			return win32.ISCSIStatus(n), nil
		}
		return win32.Errno(n), nil
	}
	switch {
	case strings.HasPrefix(text, "ERROR_"):
		for n := range uint32(1 << 16) {
			if e := win32.Errno(n); e.Name() == text {
				return e, nil
			}
		}
	case strings.HasPrefix(text, "ISDSC_"):
		for n := range uint32(1 << 8) {
			if s := win32.ISCSIStatus(0xEFFF0000 | n); s.Name() == text {
				return s, nil
			}
		}
	case strings.HasPrefix(text, "STATUS_"):
		for _, severity := range []uint32{0xC0000000, 0x80000000} {
			for n := range uint32(1 << 12) {
				if s := win32.NTStatus(severity | n); s.Name() == text {
					return s, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("error %q: want a name such as ERROR_ACCESS_DENIED or STATUS_ACCESS_DENIED, or a number: %w", text, hosterr.ErrInvalid)
}
