package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// call answers a call of one of the DLLs.
func (s *Server) call(in []byte) ([]byte, error) {
	a := &arguments{left: in}
	if len(in) < 4 {
		return nil, win32.ERROR_BAD_LENGTH
	}
	what := binary.LittleEndian.Uint32(in)
	a.left = in[4:]
	switch what {
	case callReenumerate:
		return nil, s.api.Reenumerate()
	case callFormat:
		return s.format(a)
	}
	function := s.iscsi
	if what >= callUseAdd {
		function = s.uses
	}
	answer, err := function(what, a)
	if a.err != nil {
		return nil, fmt.Errorf("call %d: %w", what, a.err)
	}
	return answer.encode(err), nil
}

// arguments are those of a call, each with its length before it.
type arguments struct {
	left []byte
	err  error // the first thing that was wrong with one
}

// bytes is the next argument; there is false for a NULL pointer.
func (a *arguments) bytes() (b []byte, there bool) {
	const null = 0xFFFFFFFF
	if len(a.left) < 4 {
		a.wrong("too few")
		return nil, false
	}
	n := binary.LittleEndian.Uint32(a.left)
	a.left = a.left[4:]
	if n == null {
		return nil, false
	}
	if uint64(n) > uint64(len(a.left)) {
		a.wrong("one of %d bytes, of which %d are there", n, len(a.left))
		return nil, false
	}
	b, a.left = a.left[:n], a.left[n:]
	return b, true
}

func (a *arguments) wrong(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("arguments: "+format+": %w", append(args, win32.ERROR_INVALID_PARAMETER)...)
	}
}

// want makes what is not so an error.
func (a *arguments) want(so bool, what string) {
	if !so {
		a.wrong("%s", what)
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

// structure is the next argument, which has size bytes.
func (a *arguments) structure(size int) []byte {
	b, _ := a.bytes()
	if len(b) != size {
		a.wrong("a structure of %d bytes, want %d", len(b), size)
		return make([]byte, size)
	}
	return b
}

// textAt is the string in b at an offset, of at most n units.
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

// Event is what FormatEx2 tells its callback.
type Event struct {
	Kind uint32
	Data []byte
}

// Events that FormatEx2 may tell (winfile's fmifs.h).
const (
	EventProgress       = 0  // percent done, 32 bits
	EventAccessDenied   = 6  //
	EventWriteProtected = 7  //
	EventCannotLock     = 8  //
	EventFinished       = 11 // success, a byte; the result, 32 bits at 4
)

// TellFormats decides what the callback of fmifs.dll hears of a format that ended
// with err. nil means what formatEvents says.
func (s *Server) TellFormats(tell func(err error) []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = tell
}

// formatEvents is what a format says of itself: progress and success, or why not.
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

// Where FMIFS_FORMATEX2_PARAM has what is read of it.
const (
	formatParamSize    = 40
	formatParamFlags   = 4
	formatParamCluster = 16
	formatQuick        = 1
	formatForce        = 4
	formatFixedMedia   = 12
)

// format formats a volume of the model, as FormatEx2 was asked to.
func (s *Server) format(a *arguments) ([]byte, error) {
	drive, media, fs := a.text(), a.number(), a.text()
	param := a.structure(formatParamSize)
	label := a.text()
	flags := binary.LittleEndian.Uint32(param[formatParamFlags:])
	a.want(param[0] == 2 && param[1] == 0, "a parameter block of another version than 2.0")
	a.want(media == formatFixedMedia, "another medium than a fixed disk")
	a.want(flags&^(formatQuick|formatForce) == 0 && flags&formatForce != 0, "other flags than quick and force, or without force")
	a.want(!strings.HasSuffix(drive, `\`), "a volume's name with a backslash, which is its root directory")
	if a.err != nil {
		return nil, a.err
	}
	err := s.api.Format(drive+`\`, win32.FormatOptions{
		FileSystem: fs, Label: label, Quick: flags&formatQuick != 0,
		ClusterSize: binary.LittleEndian.Uint32(param[formatParamCluster:]),
	})
	s.mu.Lock()
	tell := s.tell
	s.mu.Unlock()
	if tell == nil {
		tell = formatEvents
	}
	var out []byte
	for _, e := range tell(err) {
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

// iscsiStatus is err as iscsidsc.dll answers it, which knows numbers of its own
// and Win32's.
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
