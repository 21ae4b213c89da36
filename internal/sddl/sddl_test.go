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

func TestOthers(t *testing.T) {
	for text, want := range map[string][]string{
		"O:BAG:SYD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)":                                  nil,
		"D:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)":             nil,
		"D:PAI(A;;FA;;;" + sddl.TrustedInstaller + ")(A;;0x1200a9;;;SY)(A;;FRFX;;;WD)": nil,
		// The directory of the log that csi-proxy makes, and accounts of a domain.
		"D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;OW)":                                 nil,
		"D:(A;;FA;;;EA)(A;;FA;;;DA)(A;;FA;;;LA)(A;;FA;;;S-1-5-21-1-2-3-500)(A;;FA;;;S-1-3-4)": nil,
		"D:(A;;FA;;;S-1-5-21-1-2-3-1500)(A;;FA;;;S-1-5-21-500)":                               {"S-1-5-21-1-2-3-1500", "S-1-5-21-500"},
		// What a directory on C: inherits.
		"D:AI(A;ID;FA;;;BA)(A;OICIIOID;GA;;;BA)(A;ID;FA;;;SY)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)(A;OICIIOID;SDGXGWGR;;;AU)": {"authenticated users"},
		"D:(A;;0x100004;;;BU)":                      {"users"},
		"D:(A;;WD;;;S-1-5-21-1-2-3-1001)":           {"S-1-5-21-1-2-3-1001"},
		"D:(A;;FR;;;WD)(A;;DT;;;IU)":                {"interactive users"},
		"D:(A;;??;;;WD)":                            {"everyone"},
		"D:(D;;FA;;;WD)(A;;FR;;;WD)S:(ML;;NW;;;LW)": nil,
		"D:NO_ACCESS_CONTROL":                       {"everyone"},
		"O:BA":                                      {"everyone"},
	} {
		if got := sddl.Others(text, sddl.Changes); !slices.Equal(got, want) {
			t.Errorf("Others(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestOwner(t *testing.T) {
	for text, want := range map[string]string{
		"O:BAD:P": "", "O:SYD:P": "", "O:S-1-5-21-1-2-3-500G:SYD:P": "", "O:" + sddl.TrustedInstaller + "D:": "", "D:P": "",
		"O:BUD:P": "users", "O:S-1-5-21-1-2-3-1001G:SY": "S-1-5-21-1-2-3-1001",
	} {
		if got := sddl.Owner(text); got != want {
			t.Errorf("Owner(%q) = %q, want %q", text, got, want)
		}
	}
}
