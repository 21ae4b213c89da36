package fmifs

import (
	"encoding/binary"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

func finished(success byte, result uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{success, 0, 0, 0}, result)
}

func TestEvents(t *testing.T) {
	type event struct {
		number uint32
		data   []byte
	}
	percent := event{0, []byte{50, 0, 0, 0}}
	for _, c := range []struct {
		name   string
		events []event
		want   error // nil: the format succeeded
	}{
		{"finished well", []event{percent, {11, finished(1, 0)}}, nil},
		{"finished well, in the packet of FormatEx", []event{{11, []byte{1}}}, nil},
		{"finished well after an error event", []event{{9, nil}, {11, finished(1, 0)}}, nil},
		{"unknown events", []event{{99, nil}, {14, []byte("text")}, {11, finished(1, 0)}}, nil},
		{"no events", nil, win32.ERROR_GEN_FAILURE},
		{"never finished", []event{percent}, win32.ERROR_GEN_FAILURE},
		{"never finished, with an error event", []event{percent, {6, nil}}, win32.ERROR_ACCESS_DENIED},
		{"failed without a number", []event{{11, finished(0, 0)}}, win32.ERROR_GEN_FAILURE},
		{"failed with an empty packet", []event{{11, nil}}, win32.ERROR_GEN_FAILURE},
		{"failed with a short packet", []event{{11, []byte{0, 0, 0, 0, 5}}}, win32.ERROR_GEN_FAILURE},
		{"failed with a Win32 number", []event{{11, finished(0, 112)}}, win32.ERROR_DISK_FULL},
		{"failed with an HRESULT", []event{{11, finished(0, 0x80070005)}}, win32.ERROR_ACCESS_DENIED},
		{"failed with an NTSTATUS", []event{{11, finished(0, 0xC00000A2)}}, win32.ERROR_WRITE_PROTECT},
		{"the first error event counts", []event{{8, nil}, {10, nil}, {11, finished(0, 5)}}, win32.ERROR_SHARING_VIOLATION},
		{"not this file system", []event{{3, nil}, {11, finished(0, 0)}}, win32.ERROR_NOT_SUPPORTED},
		{"write protected", []event{{7, nil}}, win32.ERROR_WRITE_PROTECT},
		{"I/O error", []event{{10, nil}}, win32.ERROR_IO_DEVICE},
		{"bad label", []event{{12, nil}}, win32.ERROR_INVALID_NAME},
		{"cluster size", []event{{16, nil}}, win32.ERROR_INVALID_PARAMETER},
		{"volume too small", []event{{18, nil}}, win32.ERROR_INVALID_PARAMETER},
		{"volume offline", []event{{24, nil}}, win32.ERROR_NOT_READY},
	} {
		var f events
		for _, e := range c.events {
			f.add(e.number, e.data)
		}
		err := f.result()
		code, _ := win32.Code(err)
		if (err == nil) != (c.want == nil) || err != nil && code != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// For any events, only a finished packet that reports success is a success, and
// every error has a Win32 number.
func FuzzEvents(f *testing.F) {
	f.Add(uint32(11), finished(1, 0), uint32(0), []byte{})
	f.Add(uint32(6), []byte{}, uint32(11), finished(0, 0xC0000001))
	f.Fuzz(func(t *testing.T, e1 uint32, d1 []byte, e2 uint32, d2 []byte) {
		var got events
		got.add(e1, d1)
		got.add(e2, d2)
		well := func(e uint32, d []byte) bool { return e == 11 && len(d) > 0 && d[0] != 0 }
		err := got.result()
		if err == nil && !well(e1, d1) && !well(e2, d2) {
			t.Errorf("events %d % x and %d % x count as success", e1, d1, e2, d2)
		}
		if _, ok := win32.Code(err); err != nil && !ok {
			t.Errorf("events %d % x and %d % x: %v has no Win32 number", e1, d1, e2, d2, err)
		}
	})
}
