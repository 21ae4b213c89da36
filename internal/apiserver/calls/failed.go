package calls

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// maxFailed is how many failed calls [Calls] keeps.
const maxFailed = 32

// FailedCall is a call that failed. It does not change.
type FailedCall struct {
	ID      uint64 // as in the log; of equal calls, the last one's
	Pipe    string // "csi-proxy-disk-v1"
	Method  string // "Rescan"
	Target  string // the fields of the request as in the audit log, without secrets
	Process uint32 // of the caller, or 0
	Program string // of the caller
	At      time.Time
	Took    time.Duration
	Code    codes.Code
	Error   string
	Gone    bool // its caller had already given up
	Times   int  // how many equal calls this represents
	// Overcome means that a later call of the same method for the same target has succeeded.
	Overcome bool
	Win32    []FailedWin32
}

// FailedWin32 is a Win32 call that failed while the work of a call ran. Some of them are
// expected: not every one is the cause.
type FailedWin32 struct {
	At     time.Time
	Call   string // "DeviceIoControl"
	Code   string // the name of its control code or information class, or empty
	Object string // the path that it is about, or empty
	Error  string
}

// failedCalls are the last calls that failed, the oldest first.
type failedCalls struct {
	mu   sync.Mutex
	last []*FailedCall
	open atomic.Bool // one of them was not overcome yet: successful calls check only this
}

// Failed returns the last calls that failed, the last one first. Calls that did the same to the
// same target with the same error are one. Calls that were refused because there were too many,
// or because csi-proxy is stopping, are left out.
func (c *Calls) Failed() []*FailedCall {
	c.failed.mu.Lock()
	defer c.failed.mu.Unlock()
	all := slices.Clone(c.failed.last)
	slices.Reverse(all)
	return all
}

// add adds a call.
func (f *failedCalls) add(c *inflight.Call, code codes.Code, err error) {
	if errors.As(err, new(*failure.BusyError)) || errors.As(err, new(failure.StoppingError)) {
		return // they would displace failures that have a cause to find
	}
	failed := &FailedCall{
		ID: c.ID, Pipe: c.Pipe, Method: path.Base(c.Method), Target: cut(Target(c.Request())), Process: c.Process,
		At: time.Now(), Took: time.Since(c.Started), Code: code, Error: failure.Limited(err.Error()), Gone: !c.Left().IsZero(), Times: 1,
	}
	if c.Process != 0 {
		failed.Program = c.Program()
	}
	for _, s := range c.FailedSteps() {
		w := FailedWin32{At: s.At, Call: s.Call, Object: s.Object, Error: cut(node.Typed(s.Err).Error())}
		if s.Code != 0 {
			w.Code = win32.CodeName(s.Call, s.Code)
		}
		failed.Win32 = append(failed.Win32, w)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.last, failed.equal); i >= 0 {
		failed.Times += f.last[i].Times
		f.last = slices.Delete(f.last, i, i+1)
	}
	if len(f.last) >= maxFailed {
		f.last = slices.Delete(f.last, 0, 1)
	}
	f.last = append(f.last, failed)
	f.open.Store(true)
}

// succeeded notes that a call has overcome the failed calls of its method for its target.
func (f *failedCalls) succeeded(c *inflight.Call) {
	if !f.open.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	method, values, open := path.Base(c.Method), "", false
	for i, failed := range f.last {
		if !failed.Overcome && failed.Method == method {
			if values == "" {
				values = valuesIn(cut(Target(c.Request())))
			}
			if values == valuesIn(failed.Target) {
				later := *failed // others may read it
				later.Overcome = true
				f.last[i], failed = &later, &later
			}
		}
		open = open || !failed.Overcome
	}
	f.open.Store(open)
}

// valuesIn returns what a target is about: its values, with one spelling of each path. It
// leaves out the names of the fields, which differ between versions of the API, and options.
func valuesIn(target string) string {
	values := []string{""} // never empty
	for field := range strings.SplitSeq(target, " ") {
		name, value, ok := strings.Cut(field, "=")
		switch {
		case !ok: // the rest of a text with blanks
			value = name
		case name == "force":
			continue
		}
		values = append(values, strings.TrimRight(strings.ToLower(strings.ReplaceAll(value, "/", `\`)), `\`))
	}
	return strings.Join(values, " ")
}

// equal reports whether two calls failed in the same way.
func (c *FailedCall) equal(o *FailedCall) bool {
	return c.Pipe == o.Pipe && c.Method == o.Method && c.Target == o.Target && c.Code == o.Code && c.Error == o.Error && c.Gone == o.Gone
}

// maxFailedText limits the texts of a failed call, in bytes, so that all of them fit into an
// answer.
const maxFailedText = 1 << 10

func cut(s string) string {
	if len(s) > maxFailedText {
		s = s[:maxFailedText] + "…"
	}
	return failure.Limited(s)
}
