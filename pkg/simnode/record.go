package simnode

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

// Call is a Win32 call that the services made.
type Call struct {
	// Name is that of package winapi, "DeviceIoControl".
	Name string
	// Path is what the call is about: a path or name of a device, volume, file,
	// service, share or iSCSI target. For a call on a handle it is what the
	// handle was opened with. Calls that are about all of something have none.
	Path string
	// Code is the control code, information class or flags; 0 for calls without.
	Code uint32
	// Err is what Windows answered, nil for success.
	Err error
}

// String is one line for a trace. What was passed in buffers is not in it, and no
// password.
func (c Call) String() string {
	s := c.Name
	if c.Path != "" {
		s += " " + c.Path
	}
	if c.Code != 0 {
		s += fmt.Sprintf(" %#x", c.Code)
	}
	if c.Err != nil {
		s += " = " + c.Err.Error()
	}
	return s
}

// Recording is the list of calls that were made since [Node.Record], those of
// all processes. Several goroutines may use it at once.
type Recording struct {
	all *recordings

	mu    sync.Mutex
	calls []Call
}

// Record begins to write down Win32 calls. They are written down when they end,
// those included that a fault answered. End it with Stop if the node goes on for
// long: it grows with every call.
func (n *Node) Record() *Recording {
	r := &Recording{all: &n.recordings}
	n.recordings.mu.Lock()
	defer n.recordings.mu.Unlock()
	n.recordings.list = append(n.recordings.list, r)
	return r
}

// Calls are the calls so far, in the order in which they ended.
func (r *Recording) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Count tells how often a call was made; [winapi.AnyCall] counts all.
func (r *Recording) Count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, c := range r.calls {
		if name == winapi.AnyCall || name == c.Name {
			count++
		}
	}
	return count
}

// Stop ends the recording. What it has stays.
func (r *Recording) Stop() {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	r.all.list = slices.DeleteFunc(r.all.list, func(x *Recording) bool { return x == r })
}

// recordings are those of a node that run.
type recordings struct {
	mu   sync.Mutex
	list []*Recording
}

func (rs *recordings) add(c *win32.Call, err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.list {
		r.mu.Lock()
		r.calls = append(r.calls, Call{Name: c.Name, Path: c.Path, Code: c.Code, Err: err})
		r.mu.Unlock()
	}
}
