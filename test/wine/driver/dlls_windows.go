package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// call makes a call of one of the DLLs.
func (s *Server) call(in []byte) ([]byte, error) {
	a := &arguments{left: in}
	if len(in) < 4 {
		return nil, win32.ERROR_BAD_LENGTH
	}
	what := binary.LittleEndian.Uint32(in)
	a.left = in[4:]
	switch what {
	case callReenumerate:
		// The DLL runs in a process that enabled the privilege.
		err := s.api.WithPrivilege(win32.SE_LOAD_DRIVER_NAME, win32.API.Reenumerate)
		// The model's disks arrive after the scan, and then nothing calls the driver.
		time.Sleep(20 * time.Millisecond)
		return nil, err
	case callInterfaces:
		return s.interfaces(a)
	case callFormat:
		return s.format(a)
	}
	function := s.iscsi
	if what >= callUseAdd {
		function = s.uses
	}
	result, err := function(what, a)
	if a.err != nil {
		return nil, fmt.Errorf("call %d: %w", what, a.err)
	}
	return result.encode(err), nil
}

// interfaces returns the paths of the present device interfaces of a class, as
// CM_Get_Device_Interface_List does.
func (s *Server) interfaces(a *arguments) ([]byte, error) {
	class, _ := a.bytes()
	a.refuse(len(class) != 16 || win32.GUIDFromBytes(class) != win32.GUID_DEVINTERFACE_DISK, "not the class of disks")
	if a.err != nil {
		return nil, a.err
	}
	found, err := s.api.Interfaces()
	var b []byte
	for _, i := range found {
		for _, u := range append(win32.UTF16(i.Path), 0) {
			b = binary.LittleEndian.AppendUint16(b, u)
		}
	}
	return append(b, 0, 0), err
}

// arguments are the arguments of a call. Each follows its length.
type arguments struct {
	left []byte
	err  error // the first error in one of them
}

// bytes returns the next argument. ok is false for a NULL pointer.
func (a *arguments) bytes() (b []byte, ok bool) {
	const null = 0xFFFFFFFF
	if len(a.left) < 4 {
		a.wrong("an argument is missing")
		return nil, false
	}
	n := binary.LittleEndian.Uint32(a.left)
	a.left = a.left[4:]
	if n == null {
		return nil, false
	}
	if uint64(n) > uint64(len(a.left)) {
		a.wrong("an argument of %d bytes, but only %d are left", n, len(a.left))
		return nil, false
	}
	b, a.left = a.left[:n], a.left[n:]
	return b, true
}

func (a *arguments) wrong(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format+": %w", append(args, win32.ERROR_INVALID_PARAMETER)...)
	}
}

// refuse sets an error if the arguments are wrong.
func (a *arguments) refuse(wrong bool, why string) {
	if wrong {
		a.wrong("%s", why)
	}
}

func (a *arguments) number() uint32 {
	b, _ := a.bytes()
	if len(b) != 4 {
		a.wrong("a number of %d bytes", len(b))
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (a *arguments) text() string {
	b, _ := a.bytes()
	return textAt(b, 0, len(b)/2)
}

// structure returns the next argument, which must have size bytes.
func (a *arguments) structure(size int) []byte {
	b, _ := a.bytes()
	if len(b) != size {
		a.wrong("a structure of %d bytes, want %d", len(b), size)
		return make([]byte, size)
	}
	return b
}

// textAt returns the string in b at an offset, of at most n units.
func textAt(b []byte, at, n int) string {
	var u []uint16
	for i := at; i+2 <= len(b) && len(u) < n; i += 2 {
		c := binary.LittleEndian.Uint16(b[i:])
		if c == 0 {
			break
		}
		u = append(u, c)
	}
	return win32.FromUTF16(u)
}

// Event is an event that FormatEx passes to its callback.
type Event struct {
	Kind uint32
	Data []byte
}

// Events of FormatEx (winfile's fmifs.h).
const (
	EventProgress       = 0  // percent done, 32 bits
	EventWriteProtected = 7  //
	EventCannotLock     = 8  //
	EventFinished       = 11 // success, a byte; the result, 32 bits at 4
)

// SetFormatEvents sets the events that the callback of fmifs.dll gets for a
// format that ended with err. nil restores those of formatEvents.
func (s *Server) SetFormatEvents(events func(err error) []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.formatEvents = events
}

// formatEvents returns the usual events of a format: progress and success, or the
// error.
func formatEvents(err error) []Event {
	le := binary.LittleEndian
	percent := func(n uint32) Event { return Event{EventProgress, le.AppendUint32(nil, n)} }
	finished := func(success byte, result uint32) Event {
		return Event{EventFinished, le.AppendUint32([]byte{success, 0, 0, 0}, result)}
	}
	switch code, _ := win32.Code(err); {
	case err == nil:
		return []Event{percent(0), percent(50), percent(100), finished(1, 0)}
	case code == win32.ERROR_ACCESS_DENIED:
		return []Event{{Kind: EventCannotLock}, finished(0, 0)}
	case code == win32.ERROR_WRITE_PROTECT:
		return []Event{{Kind: EventWriteProtected}, finished(0, 0)}
	default:
		return []Event{percent(0), finished(0, 0x80070000|uint32(code))} // an HRESULT
	}
}

const formatFixedMedia = 12

// format formats a volume of the model for a call of FormatEx.
func (s *Server) format(a *arguments) ([]byte, error) {
	drive, media, fs, label := a.text(), a.number(), a.text(), a.text()
	quick, cluster := a.number(), a.number()
	a.refuse(media != formatFixedMedia, "the medium is not a fixed disk")
	a.refuse(fs != "NTFS" || label != "" || quick != 1, "the format is not a quick one of NTFS without a label")
	a.refuse(strings.HasSuffix(drive, `\`), "the volume's name ends in a backslash, so it is the root directory")
	if a.err != nil {
		return nil, a.err
	}
	err := s.api.Format(drive+`\`, win32.FormatOptions{Direct: true, ClusterSize: cluster})
	s.mu.Lock()
	events := s.formatEvents
	s.mu.Unlock()
	if events == nil {
		events = formatEvents
	}
	var out []byte
	for _, e := range events(err) {
		out = binary.LittleEndian.AppendUint32(out, e.Kind)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(e.Data)))
		out = append(out, e.Data...)
	}
	return out, nil
}

// results are what a function of iscsidsc.dll gives back: two numbers, and bytes
// with pointers to others of them.
type results struct {
	first, second uint32
	bytes         []byte
	pointers      []uint32 // offsets at which offsets stand that become pointers
}

func (r results) encode(err error) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, iscsiStatus(err))
	b = le.AppendUint32(b, r.first)
	b = le.AppendUint32(b, r.second)
	b = le.AppendUint32(b, uint32(len(r.pointers)))
	for _, p := range r.pointers {
		b = le.AppendUint32(b, p)
	}
	return append(b, r.bytes...)
}

// iscsiStatus returns err as a result of iscsidsc.dll, which has its own numbers in
// addition to those of Win32.
func iscsiStatus(err error) uint32 {
	var s win32.ISCSIStatus
	if errors.As(err, &s) {
		return uint32(s)
	}
	if err == nil {
		return 0
	}
	if code, ok := win32.Code(err); ok {
		return uint32(code)
	}
	return uint32(win32.ERROR_GEN_FAILURE)
}
