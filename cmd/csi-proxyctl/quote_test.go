package main

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func TestQuoted(t *testing.T) {
	for value, want := range map[string]string{
		"VOL1":                 "VOL1",
		"":                     "''",
		"A B;calc.exe $(x)":    "'A B;calc.exe $(x)'",
		"it's":                 "'it''s'",
		"a\u2019;calc.exe":     "'a\u2019\u2019;calc.exe'",
		"a\r\ncalc.exe\x1b[2J": "'a\uFFFD\uFFFDcalc.exe\uFFFD[2J'",
		"--yes":                "'--yes'",
		`\\nas\data`:           `'\\nas\data'`,
		"`$x`":                 "'`$x`'",
	} {
		if got := quoted(value); got != want {
			t.Errorf("quoted(%q) = %s, want %s", value, got, want)
		}
	}
}

// What devices and servers choose is one argument in every command to paste.
func TestRemediesQuote(t *testing.T) {
	const evil = "A B;calc.exe $(x)'"
	const safe = "'A B;calc.exe $(x)'''"
	q := &inquiry{a: &app{}, node: &admin.DescribeResponse{}}
	q.foreign(&admin.Disk{Number: 1, Style: "RAW"}, false, &admin.DiskContent{Serial: evil, Found: []*admin.Content{{What: "XFS"}}})
	share := &inquiry{a: &app{}, node: &admin.DescribeResponse{}}
	share.share(t.Context(), &admin.Way{Share: `\\nas\` + evil})
	for what, remedy := range map[string]string{
		"disk clear": q.Remedy,
		"smb new":    strings.ReplaceAll(share.Remedy, `'\\nas\A`, `'A`),
		"smb remove": examineSMB([]smbMapping{{Remote: evil, Status: "ok"}})[0].Hint,
		"icacls":     examinePlaces([]place{{evil, "D:(A;;FA;;;WD)", false}})[0].Hint,
		"sc.exe":     examineWaiting("csiproxy", 1, []pipeOwner{{2, "a.exe", evil, []string{"p"}}})[0].Hint,
	} {
		if !strings.Contains(remedy, safe) || strings.Contains(strings.ReplaceAll(remedy, safe, ""), "calc") {
			t.Errorf("%s: the remedy is %s, want %s in it", what, remedy, safe)
		}
	}
}
