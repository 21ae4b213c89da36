package sddl_test

import (
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

func TestAllowed(t *testing.T) {
	for text, want := range map[string][]sddl.Entry{
		"O:BAG:SYD:P(A;OICI;FA;;;SY)(A;;0x12019b;;;BA)":                                   {{"SY", 0x1f01ff}, {"BA", 0x12019b}},
		"D:(A;OICIIO;GA;;;BA)(A;ID;GXGR;;;S-1-5-21-1-2-3-1001)":                           {{"S-1-5-21-1-2-3-1001", 0xa0000000}},
		"D:(D;;FA;;;WD)(A;;FR;;;WD)S:(ML;;NW;;;LW)(A;;FA;;;WD)":                           {{"WD", 0x120089}},
		`D:(XA;;FR;;;WD;(@User.a == "(x"))(OA;;FR;1-2;;BU)(XD;;FA;;;AU;(1))(ZA;;FW;;;AN)`: {{"WD", 0x120089}, {"BU", 0x120089}, {"AN", 0x120116}},
		"D:(A;;??;;;WD)(A;;G;;;AU)":                                                       {{"WD", ^uint32(0)}, {"AU", ^uint32(0)}},
		"D:P":                                                                             nil,
	} {
		got, ok := sddl.Allowed(text)
		if !ok || !slices.Equal(got, want) {
			t.Errorf("Allowed(%q) = %x, %t, want %x", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "O:BA", "D:NO_ACCESS_CONTROL"} {
		if got, ok := sddl.Allowed(text); ok {
			t.Errorf("Allowed(%q) = %x, want that there is no list", text, got)
		}
	}
}
