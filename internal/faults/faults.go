// Package faults makes Win32 calls fail, take longer, or run a function first, as a
// [nodespec.Fault] describes.
package faults

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

// Set is the faults of a node. The zero Set has none. It is safe for concurrent use.
type Set struct {
	// Alias, if set, returns another path of what a path is about, or "". A fault is for the
	// calls with either. It must be set before calls.
	Alias func(path string) string

	mu   sync.Mutex
	list []*Active
}

// Active is a fault in a [Set].
type Active struct {
	set     *Set
	fault   nodespec.Fault
	err     error
	path    string // folded
	skipped uint32
	cleared chan struct{}
}

// Hits returns how many calls the fault affected.
func (a *Active) Hits() uint32 {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	return a.fault.Hits
}

// Clear removes the fault and releases the calls that it delays.
func (a *Active) Clear() { a.set.clear(func(f *Active) bool { return f == a }) }

// Hook applies a fault to a call, or makes the call. If several faults match, the first
// one that is not used up applies.
func (s *Set) Hook(c *win32.Call) error {
	a := s.hit(c)
	if a == nil {
		return c.Do()
	}
	if a.fault.Delay > 0 {
		t := time.NewTimer(a.fault.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-a.cleared:
			return c.Do()
		}
	}
	if a.fault.Do != nil {
		a.fault.Do()
	}
	if a.err != nil {
		return a.err
	}
	return c.Do()
}

// hit returns the fault that applies to c, after counting it, or nil.
func (s *Set) hit(c *win32.Call) *Active {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.list {
		f := &a.fault
		if !a.matches(c) || f.Times != 0 && f.Hits >= f.Times {
			continue
		}
		if a.skipped < f.Skip {
			a.skipped++
			continue
		}
		f.Hits++
		return a
	}
	return nil
}

// matches reports whether a is for calls like c.
func (a *Active) matches(c *win32.Call) bool {
	f := &a.fault
	return (f.Call == c.Name || f.Call == winapi.AnyCall && c.Name != winapi.CloseHandle) &&
		(f.Code == 0 || f.Code == c.Code) &&
		(a.path == "" || has(winpath.Fold(c.Path), a.path) || a.set.Alias != nil && has(winpath.Fold(a.set.Alias(c.Path)), a.path))
}

// has reports whether path contains part. A number at the end of part is a whole number there:
// PhysicalDrive1 is not in PhysicalDrive10.
func has(path, part string) bool {
	digit := func(s string, i int) bool { return i >= 0 && i < len(s) && '0' <= s[i] && s[i] <= '9' }
	for from := 0; ; {
		i := strings.Index(path[from:], part)
		if i < 0 {
			return false
		}
		end := from + i + len(part)
		if !digit(part, len(part)-1) || !digit(path, end) {
			return true
		}
		from += i + 1
	}
}

// Add adds a fault. It fails with hosterr.ErrInvalid if f makes no sense.
func (s *Set) Add(f nodespec.Fault) (*Active, error) {
	if known := win32.CallNames(); f.Call != winapi.AnyCall && !slices.Contains(known, f.Call) {
		if question := similar.Question(f.Call, known); question != "" {
			return nil, hosterr.Wrap("fail", hosterr.Quote(f.Call), fmt.Errorf("unknown Win32 call; %s: %w", question, hosterr.ErrInvalid))
		}
		return nil, hosterr.WithHint("fail", hosterr.Quote(f.Call), fmt.Errorf("unknown Win32 call: %w", hosterr.ErrInvalid), "known calls are "+strings.Join(known, ", "))
	}
	if f.Delay < 0 {
		return nil, hosterr.Wrap("fail", f.Call, fmt.Errorf("delay %v is negative: %w", f.Delay, hosterr.ErrInvalid))
	}
	if f.Error == "" && f.Delay == 0 && f.Do == nil {
		return nil, hosterr.Wrap("fail", f.Call, fmt.Errorf("the fault has neither an error nor a delay nor a function: %w", hosterr.ErrInvalid))
	}
	if err := setCode(&f); err != nil {
		return nil, hosterr.Wrap("fail", f.Call, err)
	}
	f.Hits = 0
	added := &Active{set: s, fault: f, path: winpath.Fold(f.Path), cleared: make(chan struct{})}
	if f.Error != "" {
		var err error
		if added.err, err = parseError(f.Error); err != nil {
			return nil, hosterr.Wrap("fail", f.Call, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, added)
	return added, nil
}

// Clear removes all faults and releases the calls that they delay.
func (s *Set) Clear() { s.clear(func(*Active) bool { return true }) }

// clear removes the faults for which which returns true.
func (s *Set) clear(which func(*Active) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(a *Active) bool {
		if !which(a) {
			return false
		}
		close(a.cleared)
		return true
	})
}

// All returns the faults that were added and not removed, used up or not.
func (s *Set) All() []nodespec.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []nodespec.Fault
	for _, a := range s.list {
		all = append(all, a.fault)
	}
	return all
}

// setCode sets the code of a fault by its name, and the name by the code.
func setCode(f *nodespec.Fault) error {
	if f.CodeName == "" {
		if f.Code != 0 {
			f.CodeName = win32.CodeName(f.Call, f.Code)
		}
		return nil
	}
	known := slices.Concat(win32.ControlCodes(), win32.InformationClasses())
	var names []string
	for _, k := range known {
		names = append(names, k.Name)
	}
	n, err := strconv.ParseUint(f.CodeName, 0, 32)
	if i := slices.Index(names, f.CodeName); i >= 0 {
		n, err = uint64(known[i].Code), nil
	}
	switch {
	case err != nil:
		want := "want a number, or a name such as IOCTL_DISK_GROW_PARTITION or FSCTL_EXTEND_VOLUME"
		if question := similar.Question(f.CodeName, names); question != "" {
			want = "unknown; " + question
		}
		return fmt.Errorf("code %q: %s: %w", f.CodeName, want, hosterr.ErrInvalid)
	case f.Code != 0 && f.Code != uint32(n):
		return fmt.Errorf("code %#x is not %s: give one of both: %w", f.Code, f.CodeName, hosterr.ErrInvalid)
	}
	f.Code, f.CodeName = uint32(n), win32.CodeName(f.Call, uint32(n))
	return nil
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
	var names []string
	for name, err := range namedErrors() {
		if name == text {
			return err, nil
		}
		names = append(names, name)
	}
	want := "want a name such as ERROR_ACCESS_DENIED or STATUS_ACCESS_DENIED, or a number"
	if question := similar.Question(text, names); question != "" {
		want = "unknown; " + question
	}
	return nil, fmt.Errorf("error %q: %s: %w", text, want, hosterr.ErrInvalid)
}

// namedErrors returns the Win32 errors, NTSTATUS values and iSCSI statuses that have names.
func namedErrors() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for n := range uint32(1 << 16) {
			if e := win32.Errno(n); named(e.Name()) && !yield(e.Name(), e) {
				return
			}
		}
		for _, severity := range []uint32{0xC0000000, 0x80000000} {
			for n := range uint32(1 << 12) {
				if s := win32.NTStatus(severity | n); named(s.Name()) && !yield(s.Name(), s) {
					return
				}
			}
		}
		for n := range uint32(1 << 8) {
			if s := win32.ISCSIStatus(0xEFFF0000 | n); named(s.Name()) && !yield(s.Name(), s) {
				return
			}
		}
	}
}

// named reports whether name is one of Windows' names; what has none is named by its number.
func named(name string) bool {
	_, rest, _ := strings.Cut(name, "_")
	return rest != "" && !('0' <= rest[0] && rest[0] <= '9')
}
