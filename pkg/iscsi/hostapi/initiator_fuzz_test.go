package api

import (
	"strings"
	"testing"
)

// FuzzParseMechanism: the address and port are part of the discovery mechanism's text.
func FuzzParseMechanism(f *testing.F) {
	for _, s := range []string{"", `SendTargets:*10.61.169.28 0003260 Root\ISCSIPRT\0000_0`, "sendtargets:x 1", "SendTargets:*", "SendTargets:* 3260", "iSNS:10.0.0.1", "SendTargets:a 65536", "SendTargets:a -1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, port, ok := parseMechanism(s)
		if !ok {
			if address != "" || port != 0 {
				t.Errorf("parseMechanism(%q) = %q, %d, false", s, address, port)
			}
			return
		}
		if address == "" || !strings.Contains(s, address) || strings.ContainsAny(address, " \t\n") || port == 0 {
			t.Errorf("parseMechanism(%q) = %q, %d", s, address, port)
		}
	})
}
