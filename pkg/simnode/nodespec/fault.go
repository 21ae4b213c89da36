package nodespec

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Fault makes a Win32 call of the services fail or take longer, or runs a function before
// it. Package winapi has the names of the calls.
type Fault struct {
	// Call is the name of the call, such as "Format". "*" means every call except
	// CloseHandle.
	Call string `json:"call"`
	// Code is the control code or information class. 0 means any.
	Code uint32 `json:"code"`
	// CodeName is the name of Code, such as "IOCTL_DISK_GROW_PARTITION", or its number as
	// text. One of both is enough; the node sets the other.
	CodeName string `json:"codeName"`
	// Path limits the fault to calls whose path, name or ID contains this text, ignoring
	// case: "PhysicalDrive2", a volume's GUID, `plugins\vol-1`. The number of a disk also
	// matches calls that open it by its device interface. Empty means any.
	Path string `json:"path"`
	// Skip is how many matching calls are not affected before the first that is.
	Skip uint32 `json:"skip"`
	// Error is the error that the call returns: the name or number of a Win32 error, such
	// as "ERROR_ACCESS_DENIED" or "5", the name of an NTSTATUS, such as
	// "STATUS_ACCESS_DENIED", or the name or number of an iSCSI status, such as
	// "ISDSC_SESSION_BUSY". If it is empty, the call is made.
	Error string `json:"error"`
	// Times is how many calls are affected. 0 means all until the fault is cleared.
	Times uint32 `json:"times"`
	// Delay is the time before the call fails or is made. If the fault is cleared during
	// the delay, the call is made. In JSON it is delayMilliseconds.
	Delay time.Duration `json:"-"`
	// Do is called after Delay, before the call fails or is made. For example, it can
	// detach a disk during a format. It may call the node's methods, but not its services,
	// which could wait for a lock that this call holds. It is not part of the JSON.
	Do func() `json:"-"`
	// Hits is how many calls were affected. The node sets it.
	Hits uint32 `json:"hits"`
}

// fields is Fault without its methods.
type fields Fault

// inJSON is a fault in JSON.
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
		return fmt.Errorf("delayMilliseconds %d does not fit into a duration", ms)
	}
	read.Delay = time.Duration(in.DelayMilliseconds) * time.Millisecond
	*f = read
	return nil
}
