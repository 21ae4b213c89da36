package limit

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/run/reference.md documents the limits of this package.
func TestLimitsMatchDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/run/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, line := range []string{
		fmt.Sprintf("| calls that run | %d | the next %d wait", maxRunning, maxWaiting),
		fmt.Sprintf("or with %d at most, take turns", fewRunning),
		fmt.Sprintf("| calls that wait | %d |", maxWaiting),
		fmt.Sprintf("| calls of one connection | %d |", maxCalls),
		fmt.Sprintf("| connections | %d |", Connections),
		fmt.Sprintf("| request | %d KiB |", maxRequest>>10),
		fmt.Sprintf("| answer | %d MiB |", maxAnswer>>20),
		fmt.Sprintf("| headers of a call | %d KiB |", maxHeaders>>10),
		fmt.Sprintf("speaks HTTP/2 | %.0f s |", handshakeLimit.Seconds()),
		fmt.Sprintf("send its request | %.0f s (", ReceiptLimit.Seconds()),
		fmt.Sprintf("read what it is sent | %.0f s |", writeLimit.Seconds()),
		fmt.Sprintf("has gone | %.0f s without", (quietLimit + pongLimit).Seconds()),
	} {
		if !strings.Contains(doc, line) {
			t.Errorf("docs/run/reference.md has no line with %q", line)
		}
	}
}
