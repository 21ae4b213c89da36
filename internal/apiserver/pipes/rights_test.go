package pipes

import (
	"slices"
	"testing"
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
