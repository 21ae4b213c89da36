package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func TestQuoted(t *testing.T) {
	for value, want := range map[string]string{
		"VOL1":                 "VOL1",
		"":                     "''",
		"A B;calc.exe $(x)":    "'A B;calc.exe $(x)'",
		"it's":                 "'it''s'",
		"a\u2019;calc.exe":     "'a\u2019\u2019;calc.exe'",
		"a\r\ncalc.exe\x1b[2J": `'a\r\ncalc.exe\x1b[2J'`,
		"--yes":                "'--yes'",
		`\\nas\data`:           `'\\nas\data'`,
		"`$x`":                 "'`$x`'",
	} {
		if got := quoted(value); got != want {
			t.Errorf("quoted(%q) = %s, want %s", value, got, want)
		}
	}
}

// What callers, devices and servers choose is printed as text: it moves no cursor, hides
// nothing and adds no line.
func TestTerminalSeesOnlyText(t *testing.T) {
	const evil = "a\r\nok  \x1b[2J\u009b1A\u202e\tb\x7f\xff"
	const text = `a\r\nok  \x1b[2J\u009b1A\u202e\tb\x7f\xff`
	var out, notes strings.Builder
	a := &app{stdout: &out, stderr: &notes, output: formatTable}
	for _, err := range []error{a.print([]string{evil}, "SERIAL NUMBER", [][]string{{evil, ""}}), a.line("%s", evil), a.printFindings([]finding{{resultNote, "c", evil, evil}})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a.note("disk %s", evil)
	a.noteError(&hinted{&failure{evil, status.Error(codes.Internal, evil)}, evil})
	if got, want := out.String(), "SERIAL"+strings.Repeat(" ", utf8.RuneCountInString(text)-6)+"  NUMBER\n"+text+"  -\n"+text+"\n"+"note     c  "+text+"\n            > "+text+"\n"; got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	if got, want := notes.String(), "csi-proxyctl: disk "+text+"\ncsi-proxyctl: "+text+": Internal: "+text+"\ncsi-proxyctl: hint: "+text+"\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
	out.Reset()
	a.output = formatJSON
	if err := a.print([]string{"\x1b\u009b\r\n"}, "SERIAL", [][]string{{""}}); err != nil || out.String() != "[\n  \"\\u001b\u009b\\r\\n\"\n]\n" {
		t.Errorf("JSON is %q, %v; want it unchanged", out.String(), err)
	}
}

// What devices and servers choose is one argument in every command to paste.
func TestRemediesQuote(t *testing.T) {
	const evil = "A B;calc.exe $(x)'"
	const safe = "'A B;calc.exe $(x)'''"
	foreign := foreignTrouble(&admin.Disk{Number: 1, Style: "RAW"}, false, &admin.DiskContent{Serial: evil, Found: []*admin.Content{{What: "XFS"}}}, "disk 1").remedy
	share := &inquiry{a: &app{}, node: &admin.DescribeResponse{}}
	share.share(t.Context(), &admin.Way{Share: `\\nas\` + evil})
	for what, remedy := range map[string]string{
		"disk clear": foreign,
		"map":        strings.ReplaceAll(share.Remedy, `'\\nas\A`, `'A`),
		"unmap":      strings.ReplaceAll(examineSMB([]smbMapping{{Remote: evil, Status: "ok"}})[0].Hint, "'remote_path=A", "'A"),
		"icacls":     examinePlaces([]place{{evil, "D:(A;;FA;;;WD)", false, false}})[0].Hint,
		"sc.exe":     examineWaiting("csiproxy", 1, []pipeOwner{{2, "a.exe", evil, []string{"p"}}})[0].Hint,
	} {
		if !strings.Contains(remedy, safe) || strings.Contains(strings.ReplaceAll(remedy, safe, ""), "calc") {
			t.Errorf("%s: the remedy is %s, want %s in it", what, remedy, safe)
		}
	}
}
