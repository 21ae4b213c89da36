package simnode

import (
	"slices"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

// Call is a Win32 call that the services made.
type Call struct {
	// Name is a name of package winapi, such as "DeviceIoControl".
	Name string
	// Path is the path or name of the device, volume, file, service, share or iSCSI
	// target. For a call with a handle it is the path that was opened. It is empty for
	// calls that list something.
	Path string
	// Code is the control code, information class or flags, or 0.
	Code uint32
	// Err is the error of the call, or nil.
	Err error
}

// CodeName returns Microsoft's name of Code, such as
// "IOCTL_DISK_GROW_PARTITION", or the number in hex if it has no name. It returns "" for a
// call without a code.
func (c Call) CodeName() string {
	if c.Code == 0 {
		return ""
	}
	return win32.CodeName(c.Name, c.Code)
}

// String formats the call on one line, without the content of buffers and without passwords.
func (c Call) String() string {
	s := c.Name
	if c.Path != "" {
		s += " " + c.Path
	}
	if c.Code != 0 {
		s += " " + c.CodeName()
	}
	if c.Err != nil {
		s += " = " + c.Err.Error()
	}
	return s
}

// Recording has the calls of all processes since [Node.Record]. Its methods may be called
// concurrently.
type Recording struct {
	all *recordings

	mu    sync.Mutex
	calls []Call
}

// Record starts to record Win32 calls. A call is recorded when it ends, also if a fault made
// it fail. The recording grows with every call, so call [Recording.Stop] if the node is used
// for long after it.
func (n *Node) Record() *Recording {
	r := &Recording{all: &n.recordings}
	n.recordings.mu.Lock()
	defer n.recordings.mu.Unlock()
	n.recordings.list = append(n.recordings.list, r)
	return r
}

// Calls returns the calls so far, in the order in which they ended.
func (r *Recording) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Count returns how often a call was made. [winapi.AnyCall] counts all calls.
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

// Stop ends the recording, which keeps its calls.
func (r *Recording) Stop() {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	r.all.list = slices.DeleteFunc(r.all.list, func(x *Recording) bool { return x == r })
}

// recordings are the running recordings of a node.
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
