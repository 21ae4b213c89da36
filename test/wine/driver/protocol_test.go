package driver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// enumerators returns the names of an enum in forward.h, in order.
func enumerators(t *testing.T, header, enum string) []string {
	t.Helper()
	m := regexp.MustCompile(`enum ` + enum + ` \{([^}]*)\}`).FindStringSubmatch(header)
	if m == nil {
		t.Fatalf("forward.h has no enum %s", enum)
	}
	var names []string
	for _, s := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == '\n' || r == '\t' || r == ' ' }) {
		if s != "=" && s != "1" {
			names = append(names, s)
		}
	}
	return names
}

// The numbers in C and in Go are the same.
func TestNumbersMatchHeader(t *testing.T) {
	b, err := os.ReadFile("c/forward.h")
	if err != nil {
		t.Fatal(err)
	}
	header := string(b)
	operations := enumerators(t, header, "operation")
	if want := []string{"OP_CREATE", "OP_CLOSE", "OP_CONTROL", "OP_READ", "OP_WRITE", "OP_FLUSH", "OP_VOLUME", "OP_POINTS", "OP_CALL"}; !slices.Equal(operations, want) || len(operations) != opCall {
		t.Errorf("operations %q, want %q", operations, want)
	}
	calls := enumerators(t, header, "call")
	if len(calls) != callUseDel || calls[0] != "CALL_REENUMERATE" || calls[callFormat-1] != "CALL_FORMAT" ||
		calls[callLogin-1] != "CALL_LOGIN" || calls[callSessions-1] != "CALL_SESSIONS" || calls[callSecret-1] != "CALL_SECRET" ||
		calls[callUseDel-1] != "CALL_USE_DEL" {
		t.Errorf("calls %q", calls)
	}
	for i, name := range []string{"START", "SERVE", "REPLY", "STOP", "ADD", "REMOVE", "CALL"} {
		if !regexp.MustCompile(fmt.Sprintf(`FORWARD_%s FORWARD_CODE\(%d\)`, name, i)).MatchString(header) {
			t.Errorf("FORWARD_%s does not have the code %d", name, i)
		}
	}
	if codeStart != 0x80002000 || codeCall != 0x80002000+6*4 {
		t.Errorf("codes %#x to %#x", codeStart, codeCall)
	}
}

func TestMalformedRequests(t *testing.T) {
	whole := make([]byte, requestSize+3)
	binary.LittleEndian.PutUint32(whole[40:], 3)
	copy(whole[requestSize:], "abc")
	if r, err := decodeRequest(whole); err != nil || !bytes.Equal(r.in, []byte("abc")) {
		t.Errorf("a whole request: %+v, %v", r, err)
	}
	for n := range len(whole) {
		if r, err := decodeRequest(whole[:n]); err == nil {
			t.Errorf("of %d bytes, %d are accepted as a request: %+v", len(whole), n, r)
		}
	}
}
