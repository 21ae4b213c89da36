package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes a project with one file on the emulated side and returns its directory.
func tree(t *testing.T, emulated string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"internal/win32/api.go":         "package win32\n\ntype API interface {\n\tFormat(v string) error\n\tDeviceIoControl(code uint32) error\n}\n",
		"internal/win32/emulated/a.go":  "package emulated\n\n" + emulated,
		"internal/win32/emulated/a.txt": "not a Go file",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, emulated string) ([]answer, error) {
	t.Helper()
	c, err := readCode(tree(t, emulated))
	if err != nil {
		return nil, err
	}
	return c.answers()
}

func TestNearestLabelCounts(t *testing.T) {
	as, err := read(t, `
// Format formats.
//
// Source: document, the page of
// the function.
// Source of ERROR_NOT_READY, ERROR_CRC: inference, a guess; the number is inference.
//
// This is not a part of it.
func (n *Node) Format(v string) error {
	if n.crc(v) == win32.ERROR_IO_DEVICE || errors.Is(nil, win32.ERROR_GEN_FAILURE) {
		return win32.ERROR_CRC
	}
	// Source: code, above.
	if v == "" {
		return win32.ERROR_NOT_READY
	}
	switch n.crc(v) {
	case win32.ERROR_BUSY:
		return win32.ERROR_INVALID_NAME // Source: Windows, at the end.
	}
	return win32.ERROR_ACCESS_DENIED
}

// Source: node, no disk.
func (n *Node) crc(v string) error {
	if v == "x" {
		return win32.STATUS_DELETE_PENDING
	}
	return nil
}

// Source: program, another.
func (n *Node) DeviceIoControl(code uint32) error {
	switch code {
	// Source: specification, [MS-FSA] 1.
	case win32.FSCTL_LOCK_VOLUME:
		return win32.ERROR_LOCKED
	}
	return unused()
}

func unused() error {
	return nil
}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range as {
		got[strings.Join(a.calls, "+")+" "+a.code] = a.kind + ", " + a.text
	}
	want := map[string]string{
		"Format ":                        "document, the page of the function",
		"Format ERROR_CRC":               "inference, a guess; the number is inference",
		"Format ERROR_NOT_READY":         "code, above",
		"Format ERROR_INVALID_NAME":      "Windows, at the end",
		"Format ERROR_ACCESS_DENIED":     "document, the page of the function",
		"Format STATUS_DELETE_PENDING":   "node, no disk",
		"DeviceIoControl ":               "program, another",
		"FSCTL_LOCK_VOLUME ":             "specification, [MS-FSA] 1",
		"FSCTL_LOCK_VOLUME ERROR_LOCKED": "specification, [MS-FSA] 1",
	}
	for what, source := range want {
		if got[what] != source {
			t.Errorf("source of %q = %q, want %q", what, got[what], source)
		}
	}
	if len(as) != len(want) {
		t.Errorf("%d answers, want %d: %v", len(as), len(want), got)
	}
	text := page(as)
	for _, want := range []string{"| inference |", "### a.go", "| format | Format | ERROR_CRC | 1 | a guess; the number is inference |", `[MS-FSA] 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
}

func TestRefusalWithoutSource(t *testing.T) {
	const source = "// Source: document, a page.\n"
	for _, c := range []struct{ name, code, want string }{
		{"refusal", "func f() error {\n\treturn win32.ERROR_CRC\n}\n", "a.go:4:9: no source of ERROR_CRC"},
		{"in a variable", "var err = win32.STATUS_DELETE_PENDING\n", "no source of STATUS_DELETE_PENDING"},
		{"answer of a call", "func (n *Node) Format(v string) error { return nil }\n", "no source of what Format returns"},
		{"answer of a control code", source + "func (n *Node) DeviceIoControl(code uint32) error {\n\treturn nil\n}\n" +
			"func g(code uint32) {\n\tswitch code {\n\tcase win32.IOCTL_DISK_CREATE_DISK:\n\t}\n}\n", "no source of what IOCTL_DISK_CREATE_DISK returns"},
		{"of another code", "// Source of ERROR_BUSY: document, a page.\nfunc f() error {\n\treturn win32.ERROR_CRC\n}\n", "no source of ERROR_CRC"},
		{"of nothing", source + "func f() {}\n", "a.go:3:1: the source is of nothing"},
		{"unknown kind", "// Source: hearsay, a page.\nfunc f() error { return win32.ERROR_CRC }\n", `source "hearsay", want one of inference`},
		{"no place", "// Source: document.\nfunc f() error { return win32.ERROR_CRC }\n", `source "document", want where`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := read(t, c.code); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestGuardsNeedASource(t *testing.T) {
	var as []answer
	for _, g := range guards {
		as = append(as, answer{calls: []string{g.call}, code: g.code, kind: "document"})
	}
	if err := checkGuards(as); err != nil {
		t.Error(err)
	}
	for i := range as {
		as[i].kind = "inference"
		if err := checkGuards(as); err == nil || !strings.Contains(err.Error(), as[i].code) {
			t.Errorf("checkGuards with %s of %v as inference = %v", as[i].code, as[i].calls, err)
		}
		as[i].kind = "document"
	}
}

// Every call that destroys something, and every guard, is one of the project's.
func TestCallsExist(t *testing.T) {
	c, err := readCode("../..")
	if err != nil {
		t.Fatal(err)
	}
	as, err := c.answers()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, a := range as {
		for _, call := range a.calls {
			known[call] = true
		}
	}
	for call := range destructive {
		if !known[call] {
			t.Errorf("the emulated side has no call %s", call)
		}
	}
	if err := checkGuards(as); err != nil {
		t.Error(err)
	}
	for _, s := range steps {
		if len(s.answers(as)) == 0 {
			t.Errorf("%s never fails with %s", s.call, s.code)
		}
	}
}

func TestRun(t *testing.T) {
	var stderr strings.Builder
	if code := run([]string{"-root", tree(t, "var err = win32.ERROR_CRC\n")}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no source of ERROR_CRC") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
	if code := run([]string{"-unknown"}, &stderr); code != 2 {
		t.Errorf("exit code %d of an unknown flag", code)
	}
	stderr.Reset()
	if code := run([]string{"-root", "../..", "-check"}, &stderr); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
