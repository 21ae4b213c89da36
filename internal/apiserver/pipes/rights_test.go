package pipes

import (
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

func TestOpenTo(t *testing.T) {
	for descriptor, want := range map[string]struct{ serve, connect []string }{
		"D:P(A;;GA;;;SY)(A;;GA;;;BA)":            {},
		"D:(A;;GA;;;WD)":                         {serve: []string{"Everyone"}},
		"D:P(XA;;GA;;;DU;(1))(A;;FA;;;S-1-5-15)": {serve: []string{"Domain Users", "This Organization"}},
		"O:SY":                                   {serve: []string{"Everyone"}},
		"D:P(A;;GA;;;SY)(A;;FA;;;S-1-5-11)(A;;FR;;;WD)":       {serve: []string{"Authenticated Users"}},
		"D:P(A;;GA;;;SY)(A;;GRGW;;;BU)":                       {serve: []string{"Users"}},
		"D:P(A;;GA;;;SY)(A;;WD;;;IU)(A;;0x12019b;;;IU)":       {serve: []string{"Interactive"}},
		"D:P(A;;GA;;;SY)(A;;0x12019b;;;WD)(A;;0x12019b;;;AC)": {connect: []string{"All Application Packages", "Everyone"}},
		"D:P(A;;GA;;;SY)(A;;FR;;;WD)(A;OICIIO;GA;;;AU)":       {},
		"D:P(A;;GA;;;SY)(A;;GA;;;S-1-5-21-1-2-3-1001)":        {},
	} {
		serve, connect := openTo(descriptor)
		if !slices.Equal(serve, want.serve) || !slices.Equal(connect, want.connect) {
			t.Errorf("openTo(%q) = %q, %q, want %q, %q", descriptor, serve, connect, want.serve, want.connect)
		}
	}
}

// The owner may read the rights, and nothing that would let it serve.
func TestOwnerRights(t *testing.T) {
	for descriptor, want := range map[string]string{
		"D:P(A;;GA;;;SY)":                        "D:P(A;;GA;;;SY)(A;;RC;;;OW)",
		"O:SYG:SYD:(A;;GA;;;SY)S:(ML;;NW;;;LW)":  "O:SYG:SYD:(A;;GA;;;SY)(A;;RC;;;OW)S:(ML;;NW;;;LW)",
		"D:P":                                    "D:P(A;;RC;;;OW)",
		"D:(A;;GA;;;SY)(A;;0x20000;;;S-1-3-4)":   "D:(A;;GA;;;SY)(A;;0x20000;;;S-1-3-4)",
		"D:(A;;GA;;;SY)(A;OICIIO;GA;;;OW)":       "D:(A;;GA;;;SY)(A;OICIIO;GA;;;OW)(A;;RC;;;OW)",
		"D:(A;;GA;;;S-1-5-21-1-2-3-1001)S:AINO_": "D:(A;;GA;;;S-1-5-21-1-2-3-1001)(A;;RC;;;OW)S:AINO_",
	} {
		got := withOwnerRights(descriptor)
		if got != want || !HasOwnerRights(got) {
			t.Errorf("withOwnerRights(%q) = %q, want %q", descriptor, got, want)
		}
		entries, _ := sddl.Allowed(got)
		for _, e := range entries {
			if (e.Account == "OW" || e.Account == "S-1-3-4") && e.Mask&serveRights != 0 {
				t.Errorf("%q lets the owner serve: %#x", got, e.Mask)
			}
		}
	}
}
