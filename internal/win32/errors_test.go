package win32

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// Every declared number has its own name and a text that is a sentence.
// (TestConstants checks that the numbers are those of winerror.h and ntstatus.h.)
func TestErrorNames(t *testing.T) {
	errnos, statuses := 0, 0
	for _, c := range constants(t) {
		switch c.kind {
		case "Errno":
			errnos++
			e := Errno(c.value)
			if e.Name() != c.name {
				t.Errorf("Errno(%d).Name() = %q, want %q", c.value, e.Name(), c.name)
			}
			if text := e.Error(); !strings.HasSuffix(text, ".") || strings.Contains(text, fmt.Sprint(c.value)) {
				t.Errorf("%s has the text %q, want a sentence", c.name, text)
			}
		case "NTStatus":
			statuses++
			s := NTStatus(c.value)
			if s.Name() != c.name {
				t.Errorf("NTStatus(%#x).Name() = %q, want %q", c.value, s.Name(), c.name)
			}
			if name, _ := errnoText(s.Errno()); strings.HasPrefix(name, "ERROR_") && name == fmt.Sprintf("ERROR_%d", s.Errno()) {
				t.Errorf("%s maps to %d, which has no name", c.name, s.Errno())
			}
			if s.Errno() == ERROR_GEN_FAILURE {
				t.Errorf("%s has no Errno of its own", c.name)
			}
			if s.Error() != s.Errno().Error() {
				t.Errorf("%s says %q, its Errno %q", c.name, s.Error(), s.Errno().Error())
			}
		}
	}
	if errnos < 40 || statuses < 35 {
		t.Errorf("found only %d Errnos and %d NTStatuses", errnos, statuses)
	}
}

func TestUnknownErrors(t *testing.T) {
	const e, s = Errno(31337), NTStatus(0xC0FFEE00)
	if e.Name() != "ERROR_31337" || e.Error() != "Windows error 31337." {
		t.Errorf("unknown Errno: %q, %q", e.Name(), e.Error())
	}
	if s.Name() != "STATUS_0xC0FFEE00" || !strings.Contains(s.Error(), "0xC0FFEE00") {
		t.Errorf("unknown NTStatus: %q, %q", s.Name(), s.Error())
	}
	if s.Errno() != ERROR_GEN_FAILURE {
		t.Errorf("unknown NTStatus.Errno() = %s, want ERROR_GEN_FAILURE", s.Errno().Name())
	}
	if errors.Is(s, ERROR_GEN_FAILURE) {
		t.Error("an unknown NTStatus claims to be ERROR_GEN_FAILURE")
	}
}

func TestErrorIs(t *testing.T) {
	targets := []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, errors.ErrUnsupported}
	for _, c := range []struct {
		err  error
		want error // the one of targets that it is; nil for none
	}{
		{ERROR_FILE_NOT_FOUND, fs.ErrNotExist},
		{ERROR_PATH_NOT_FOUND, fs.ErrNotExist},
		{ERROR_ALREADY_EXISTS, fs.ErrExist},
		{ERROR_FILE_EXISTS, fs.ErrExist},
		{ERROR_ACCESS_DENIED, fs.ErrPermission},
		{ERROR_NOT_SUPPORTED, errors.ErrUnsupported},
		{ERROR_INVALID_FUNCTION, errors.ErrUnsupported},
		{ERROR_CALL_NOT_IMPLEMENTED, errors.ErrUnsupported},
		{ERROR_SHARING_VIOLATION, nil},
		{ERROR_GEN_FAILURE, nil},
		{STATUS_OBJECT_NAME_NOT_FOUND, fs.ErrNotExist},
		{STATUS_OBJECT_NAME_COLLISION, fs.ErrExist},
		{STATUS_CANNOT_DELETE, fs.ErrPermission},
		{STATUS_INVALID_DEVICE_REQUEST, errors.ErrUnsupported},
		{STATUS_SHARING_VIOLATION, nil},
		{NTStatus(0xC0FFEE00), nil},
	} {
		for _, target := range targets {
			if got := errors.Is(fmt.Errorf("while testing: %w", c.err), target); got != (target == c.want) {
				t.Errorf("errors.Is(%v, %v) = %t", c.err, target, got)
			}
		}
	}
	if !errors.Is(STATUS_OBJECT_NAME_INVALID, ERROR_INVALID_NAME) {
		t.Error("STATUS_OBJECT_NAME_INVALID is not ERROR_INVALID_NAME")
	}
}

func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Errno
		ok   bool
	}{
		{nil, 0, false},
		{errors.New("no number"), 0, false},
		{ERROR_BUSY, ERROR_BUSY, true},
		{fmt.Errorf("wrapped: %w", ERROR_BUSY), ERROR_BUSY, true},
		{fmt.Errorf("wrapped: %w", STATUS_SHARING_VIOLATION), ERROR_SHARING_VIOLATION, true},
		{NTStatus(0xC0FFEE00), ERROR_GEN_FAILURE, true},
	} {
		if got, ok := Code(c.err); got != c.want || ok != c.ok {
			t.Errorf("Code(%v) = %d, %t; want %d, %t", c.err, got, ok, c.want, c.ok)
		}
		if got := IsCode(c.err, ERROR_CRC, c.want); got != c.ok {
			t.Errorf("IsCode(%v, ERROR_CRC, %d) = %t, want %t", c.err, c.want, got, c.ok)
		}
		if IsCode(c.err) || IsCode(c.err, ERROR_CRC) {
			t.Errorf("IsCode(%v) = true for other numbers", c.err)
		}
	}
}

func TestParseGUID(t *testing.T) {
	want := GUID{0xebd0a0a2, 0xb9e5, 0x4433, [8]byte{0x87, 0xc0, 0x68, 0xb6, 0xb7, 0x26, 0x99, 0xc7}}
	for _, s := range []string{
		"{ebd0a0a2-b9e5-4433-87c0-68b6b72699c7}", "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "{EBD0A0A2-B9E5-4433-87C0-68B6B72699C7}",
	} {
		if got, err := ParseGUID(s); err != nil || got != want {
			t.Errorf("ParseGUID(%q) = %s, %v; want %s", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "{}", "{ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7}",
		"{ebd0a0a2b9e5443387c068b6b72699c7}", "{ebd0a0a2-b9e5-4433-87c0-68b6b72699cg}", "{ebd0a0a2-b9e5-4433-87c0068b6b72699c7}",
		"{+bd0a0a2-b9e5-4433-87c0-68b6b72699c7}",
	} {
		if got, err := ParseGUID(s); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", s)) {
			t.Errorf("ParseGUID(%q) = %s, %v; want an error that quotes it", s, got, err)
		}
	}
	if !(GUID{}).IsZero() || want.IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestUTF16(t *testing.T) {
	for _, c := range []struct {
		s string
		u []uint16
	}{
		{"", nil},
		{"aé\U0001F517", []uint16{'a', 0xE9, 0xD83D, 0xDD17}},
		{"a\x00b", []uint16{'a', 0, 'b'}},
		{"\xed\xa0\xbdx", []uint16{0xD83D, 'x'}}, // half a pair, as WTF-8 has it
		{"\xed\xb4\x97\xed\xa0\xbd", []uint16{0xDD17, 0xD83D}},
		{"\uFFFD", []uint16{0xFFFD}},
	} {
		if got := UTF16(c.s); fmt.Sprintf("%x", got) != fmt.Sprintf("%x", c.u) {
			t.Errorf("UTF16(%q) = %x, want %x", c.s, got, c.u)
		}
		if got := FromUTF16(c.u); got != c.s {
			t.Errorf("FromUTF16(%x) = %q, want %q", c.u, got, c.s)
		}
	}
	if got := UTF16("\xff\xed\xa0"); fmt.Sprintf("%x", got) != "[fffd fffd fffd]" {
		t.Errorf("UTF16 of bytes that are not UTF-8 = %x, want U+FFFD for each", got)
	}
}
