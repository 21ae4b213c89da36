package nodespec

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Fault makes a Win32 call fail, or take longer, or has something else happen
// before it, at the boundary between the code that runs on Windows and the
// simulation. Package winapi has the names and numbers.
type Fault struct {
	// Call is the name of the call, as "Format"; "*" is every call but
	// CloseHandle.
	Call string `json:"call"`
	// Code is the control code or information class; 0 means any.
	Code uint32 `json:"code"`
	// Path limits the fault to calls on what has this text in its path, name or
	// identity, in any case: "PhysicalDrive2", a volume's GUID, `plugins\vol-1`.
	// Empty means any.
	Path string `json:"path"`
	// Skip is how many such calls succeed before the first that fails.
	Skip uint32 `json:"skip"`
	// Error is the error that the call returns: the name or the number of a Win32
	// error, as "ERROR_ACCESS_DENIED" or "5", the name of an NTSTATUS, as
	// "STATUS_ACCESS_DENIED", or the name or number of an iSCSI status, as
	// "ISDSC_SESSION_BUSY". Empty means that the call is made.
	Error string `json:"error"`
	// Times is how often it happens; 0 means until it is cleared.
	Times uint32 `json:"times"`
	// Delay passes before the call fails or is made. Clearing the fault ends the
	// delay, and the call is made. In JSON it is delayMilliseconds.
	Delay time.Duration `json:"-"`
	// Do is called before the call fails or is made, after Delay: a disk can be
	// detached in the middle of its format. It may use the node's methods but
	// not its services, which may hold the lock that they wait for. It cannot be
	// sent to another process.
	Do func() `json:"-"`
	// Hits is how often it happened. It is set by the node.
	Hits uint32 `json:"hits"`
}

// fields is Fault without its methods.
type fields Fault

// inJSON is a fault with the fields that JSON has no form for.
type inJSON struct {
	*fields
	DelayMilliseconds int64 `json:"delayMilliseconds"`
}

// MarshalJSON implements [json.Marshaler].
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(inJSON{(*fields)(&f), f.Delay.Milliseconds()})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *Fault) UnmarshalJSON(b []byte) error {
	var read Fault
	in := inJSON{fields: (*fields)(&read)}
	if err := decode(b, &in); err != nil {
		return err
	}
	if ms := in.DelayMilliseconds; ms > math.MaxInt64/int64(time.Millisecond) || ms < math.MinInt64/int64(time.Millisecond) {
		return fmt.Errorf("delayMilliseconds %d does not fit a duration", ms)
	}
	read.Delay = time.Duration(in.DelayMilliseconds) * time.Millisecond
	*f = read
	return nil
}
