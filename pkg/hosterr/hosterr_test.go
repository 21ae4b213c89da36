package hosterr_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func TestWrapNil(t *testing.T) {
	if err := hosterr.Wrap("format volume", "x", nil); err != nil {
		t.Errorf("Wrap(nil) = %v, want nil", err)
	}
	if err := hosterr.WithHint("format volume", "x", nil, "hint"); err != nil {
		t.Errorf("WithHint(nil) = %v, want nil", err)
	}
}

func TestErrorMessage(t *testing.T) {
	err := hosterr.Wrap("partition disk", "3", hosterr.ErrNotFound)
	if got, want := err.Error(), "partition disk 3: not found"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := hosterr.Wrap("rescan", "", win32.ERROR_ACCESS_DENIED).Error(), "rescan: Access is denied."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTextKeepsMessageKindAndCause(t *testing.T) {
	_, cause := strconv.ParseUint("abc", 10, 32)
	err := hosterr.Text(hosterr.ErrInvalid, "Failed to format DiskStatsRequest.DiskID with err: %w", cause)
	want := `Failed to format DiskStatsRequest.DiskID with err: strconv.ParseUint: parsing "abc": invalid syntax`
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, hosterr.ErrInvalid) || !errors.Is(err, strconv.ErrSyntax) {
		t.Errorf("%v is not both ErrInvalid and strconv.ErrSyntax", err)
	}
	if got := hosterr.KindOf(err); got != hosterr.ErrInvalid {
		t.Errorf("KindOf = %v, want ErrInvalid", got)
	}
}

func TestKindOfErrorWithoutKind(t *testing.T) {
	err := hosterr.Wrap("flush volume", "x", win32.ERROR_IO_DEVICE)
	if got := hosterr.KindOf(err); got != nil {
		t.Errorf("KindOf(%v) = %v, want nil", err, got)
	}
	if !errors.Is(hosterr.Wrap("x", "y", win32.ERROR_PATH_NOT_FOUND), fs.ErrNotExist) {
		t.Error("a wrapped ERROR_PATH_NOT_FOUND is not fs.ErrNotExist")
	}
}

func TestErrUnimplementedIsErrUnsupported(t *testing.T) {
	for _, kind := range hosterr.Kinds() {
		err := hosterr.Wrap("resize", "disk 1", hosterr.Text(kind, "no"))
		if got, want := errors.Is(err, errors.ErrUnsupported), kind == hosterr.ErrUnimplemented; got != want {
			t.Errorf("%v is errors.ErrUnsupported: %t, want %t", kind, got, want)
		}
	}
}

func TestHintOfReturnsOutermostHint(t *testing.T) {
	inner := hosterr.WithHint("a", "", hosterr.ErrInvalid, "inner")
	if got := hosterr.HintOf(hosterr.Wrap("b", "", inner)); got != "inner" {
		t.Errorf("HintOf = %q, want inner", got)
	}
	if got := hosterr.HintOf(hosterr.WithHint("b", "", inner, "outer")); got != "outer" {
		t.Errorf("HintOf = %q, want outer", got)
	}
	if got := hosterr.HintOf(hosterr.ErrInvalid); got != "" {
		t.Errorf("HintOf(sentinel) = %q, want none", got)
	}
}

func TestQuoteKeepsBackslashes(t *testing.T) {
	for in, want := range map[string]string{
		`\\?\Volume{x}\`: `"\\?\Volume{x}\"`,
		"a\nb":           `"a\nb"`,
		`a"b`:            `"a\"b"`,
	} {
		if got := hosterr.Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestHintOfTextWithoutPrefix(t *testing.T) {
	err := hosterr.TextWithHint(hosterr.ErrInvalid, "want two names", "remote path (%s) is invalid", `\\a`)
	if got, want := err.Error(), `remote path (\\a) is invalid`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, e := range []error{err, hosterr.Wrap("map", "x", err), hosterr.Text(hosterr.ErrInvalid, "call: %w", err), errors.Join(errors.New("other"), err)} {
		if got := hosterr.HintOf(e); got != "want two names" || !errors.Is(e, hosterr.ErrInvalid) {
			t.Errorf("HintOf(%v) = %q", e, got)
		}
	}
	if got := hosterr.HintOf(hosterr.WithHint("map", "x", err, "outer")); got != "outer" {
		t.Errorf("HintOf = %q, want the nearest to the surface", got)
	}
}

// lineOf returns the text of the source line of a program counter.
func lineOf(t *testing.T, pc uintptr) string {
	t.Helper()
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	text, err := os.ReadFile(filepath.Base(frame.File))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")[frame.Line-1]
}

func TestSourceOfIsWhereTheInnermostWasMade(t *testing.T) {
	for name, inner := range map[string]error{
		"Wrap":         hosterr.Wrap("a", "", errors.New("x")),                // made by Wrap
		"WithHint":     hosterr.WithHint("a", "", errors.New("x"), "hint"),    // made by WithHint
		"Text":         hosterr.Text(hosterr.ErrInvalid, "x"),                 // made by Text
		"TextWithHint": hosterr.TextWithHint(hosterr.ErrInvalid, "hint", "x"), // made by TextWithHint
	} {
		for _, err := range []error{inner, hosterr.Wrap("b", "", inner), fmt.Errorf("b: %w", inner), errors.Join(errors.New("other"), inner), hosterr.Text(hosterr.ErrNotFound, "b: %w", inner)} {
			if got := lineOf(t, hosterr.SourceOf(err)); !strings.HasSuffix(got, "made by "+name) {
				t.Errorf("%s: the source of %v is %q", name, err, got)
			}
		}
	}
	if pc := hosterr.SourceOf(errors.New("x")); pc != 0 {
		t.Errorf("an error of another package has the source %#x", pc)
	}
}
