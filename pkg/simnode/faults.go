package simnode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

// ActiveFault is a fault that [Node.Fail] added.
type ActiveFault struct {
	faults *faults
	fault  *fault
}

// Hits returns how many calls the fault affected. With 0 hits the test did not test the
// fault.
func (a *ActiveFault) Hits() uint32 {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	return a.fault.Hits
}

// Clear removes the fault and releases the calls that it delays.
func (a *ActiveFault) Clear() {
	a.faults.clear(func(f *fault) bool { return f == a.fault })
}

// Fail makes Win32 calls fail or take longer. If several faults match a call, the first one
// that is not used up applies.
func (n *Node) Fail(f Fault) (*ActiveFault, error) {
	added, err := n.faults.add(f)
	if err != nil {
		return nil, err
	}
	return &ActiveFault{&n.faults, added}, nil
}

// ClearFaults removes all faults and releases the calls that they delay.
func (n *Node) ClearFaults() { n.faults.clear(func(*fault) bool { return true }) }

// faults are the faults of a node. The zero value has none.
type faults struct {
	mu   sync.Mutex
	list []*fault
}

type fault struct {
	Fault
	err     error
	path    string // folded
	skipped uint32
	cleared chan struct{}
}

// hook applies a fault to a call, or makes the call.
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
	if f.Do != nil {
		f.Do()
	}
	if f.err != nil {
		return f.err
	}
	return c.Do()
}

// hit returns the fault that applies to c, after counting it, or nil.
func (fs *faults) hit(c *win32.Call) *fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		if !f.matches(c) || f.Times != 0 && f.Hits >= f.Times {
			continue
		}
		if f.skipped < f.Skip {
			f.skipped++
			continue
		}
		f.Hits++
		return f
	}
	return nil
}

// matches reports whether f is for calls like c.
func (f *fault) matches(c *win32.Call) bool {
	return (f.Call == c.Name || f.Call == winapi.AnyCall && c.Name != winapi.CloseHandle) &&
		(f.Code == 0 || f.Code == c.Code) &&
		(f.path == "" || strings.Contains(winpath.Fold(c.Path), f.path))
}

func (fs *faults) add(f Fault) (*fault, error) {
	if known := win32.CallNames(); f.Call != winapi.AnyCall && !slices.Contains(known, f.Call) {
		return nil, hosterr.WithHint("fail", hosterr.Quote(f.Call), fmt.Errorf("unknown Win32 call: %w", hosterr.ErrInvalid), "known calls are "+strings.Join(known, ", "))
	}
	if f.Delay < 0 {
		return nil, hosterr.Wrap("fail", f.Call, fmt.Errorf("delay %v is negative: %w", f.Delay, hosterr.ErrInvalid))
	}
	if f.Error == "" && f.Delay == 0 && f.Do == nil {
		return nil, hosterr.Wrap("fail", f.Call, fmt.Errorf("the fault has neither an error nor a delay nor a function: %w", hosterr.ErrInvalid))
	}
	added := &fault{Fault: f, path: winpath.Fold(f.Path), cleared: make(chan struct{})}
	added.Hits = 0
	if f.Error != "" {
		var err error
		if added.err, err = parseError(f.Error); err != nil {
			return nil, hosterr.Wrap("fail", f.Call, err)
		}
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = append(fs.list, added)
	return added, nil
}

// clear removes the faults for which which returns true.
func (fs *faults) clear(which func(*fault) bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.DeleteFunc(fs.list, func(f *fault) bool {
		if !which(f) {
			return false
		}
		close(f.cleared)
		return true
	})
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

// parseError parses the name or number of a Win32 error, or the name of an NTSTATUS or
// iSCSI status.
func parseError(text string) (error, error) {
	if n, err := strconv.ParseUint(text, 0, 32); err == nil && n != 0 {
		if n>>16 == 0xEFFF {
			return win32.ISCSIStatus(n), nil
		}
		return win32.Errno(n), nil
	}
	switch {
	case strings.HasPrefix(text, "ERROR_"), strings.HasPrefix(text, "RPC_S_"):
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
