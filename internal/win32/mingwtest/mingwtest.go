// Package mingwtest checks the numbers and layouts that Go code uses for Windows
// against an independent source: the C headers of mingw-w64, with its compiler
// and _Static_assert. It runs no C code.
//
// mingw-w64's headers are derived from Microsoft's, but not identical. What they
// lack, tests compare with the literals of Microsoft's documentation.
package mingwtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const compiler = "x86_64-w64-mingw32-gcc"

// Assert is a condition that must be true when a C file is compiled.
type Assert struct {
	Name string // reported if Expr is false
	Expr string // a C constant expression
}

// Offset asserts the offset of a member of a C structure and, if width is not 0,
// its size.
func Offset(structure, member string, offset, width int) []Assert {
	as := []Assert{{
		fmt.Sprintf("offset of %s.%s is %d", structure, member, offset),
		fmt.Sprintf("__builtin_offsetof(%s, %s) == %d", structure, member, offset),
	}}
	if width != 0 {
		as = append(as, Assert{
			fmt.Sprintf("width of %s.%s is %d", structure, member, width),
			fmt.Sprintf("sizeof(((%s *)0)->%s) == %d", structure, member, width),
		})
	}
	return as
}

// Size asserts the size of a C structure.
func Size(structure string, size int) Assert {
	return Assert{
		fmt.Sprintf("size of %s is %d", structure, size),
		fmt.Sprintf("sizeof(%s) == %d", structure, size),
	}
}

var (
	failed = regexp.MustCompile(`error: static assertion failed: "([^"]*)"`)
	broken = regexp.MustCompile(`(?m)^.*error: .*$`)
)

// Check compiles the assertions after prelude (#include lines and declarations)
// and returns the names of those that are false. A prelude or an expression that
// is not valid C fails the test. Without the compiler Check skips the test.
func Check(t testing.TB, prelude string, asserts []Assert) (wrong []string) {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("needs a machine with %s (Debian: apt-get install gcc-mingw-w64-x86-64)", compiler)
	}
	if len(asserts) == 0 {
		t.Fatal("nothing to assert")
	}
	var src strings.Builder
	src.WriteString(prelude + "\n")
	for _, a := range asserts {
		fmt.Fprintf(&src, "_Static_assert(%s, %q);\n", a.Expr, a.Name)
	}
	drivers, err := ddk()
	if err != nil {
		t.Fatal(err)
	}
	out, err := compile(src.String(), "-fsyntax-only", "-w", "-fmax-errors=0", "-isystem", drivers)
	for _, m := range failed.FindAllStringSubmatch(out, -1) {
		wrong = append(wrong, m[1])
	}
	if others := broken.FindAllString(failed.ReplaceAllString(out, ""), -1); len(others) > 0 {
		t.Fatalf("the C file does not compile:\n%s", strings.Join(others, "\n"))
	}
	if err != nil && len(wrong) == 0 {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	return wrong
}

// ddk returns the folder of the driver headers, which include each other as if it
// were on the search path. It is a subfolder of the one with windows.h.
var ddk = sync.OnceValues(func() (string, error) {
	out, err := compile("#include <windows.h>\n", "-M")
	for _, f := range strings.Fields(out) {
		if err == nil && filepath.Base(f) == "windows.h" {
			return filepath.Join(filepath.Dir(f), "ddk"), nil
		}
	}
	return "", fmt.Errorf("%s -M does not name windows.h: %w\n%s", compiler, err, out)
})

func compile(src string, args ...string) (string, error) {
	cmd := exec.Command(compiler, append(args, "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader(src)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
