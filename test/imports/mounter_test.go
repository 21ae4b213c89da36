package imports_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A driver that imports one side of pkg/mounter does not link the other: the pipes bring no Win32
// calls and no COM, the work in process brings no gRPC, and the core brings neither.
func TestMounterLinksOneSide(t *testing.T) {
	t.Parallel()
	const grpc, engine, com = "google.golang.org/grpc.", project + "internal/win32/native.(*", project + "internal/win32/native/wmi.(*"
	for _, c := range []struct {
		name, imports, open string
		links               []string
	}{
		{"core", "", "n := mounter.Node{}", nil},
		{"pipes", project + "pkg/mounter/pipes", "c, _ := pipes.Open(context.Background(), pipes.Groups()); n := c.Node", []string{grpc}},
		{"inprocess", project + "pkg/mounter/inprocess", "n, _ := inprocess.Open(``)", []string{engine, com}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			main, exe := filepath.Join(dir, "main.go"), filepath.Join(dir, "driver.exe")
			if c.imports != "" {
				c.imports = fmt.Sprintf("import %q\n", c.imports)
			}
			source := "package main\nimport \"context\"\nimport \"" + project + "pkg/mounter\"\n" + c.imports +
				"func main() {\n" + c.open + "\nm, _ := mounter.New(n, mounter.Options{})\nvar all any = m\n" +
				"_, _ = m.StageDisk(context.Background(), mounter.Disk{}, ``, mounter.StageOptions{})\n" +
				"if _, ok := all.(interface{ Rescan(context.Context) error }); !ok { panic(`no`) }\n}\n"
			if err := os.WriteFile(main, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.Command("go", "build", "-o", exe, main)
			build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			symbols, err := exec.Command("go", "tool", "nm", exe).Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{grpc, engine, com} {
				if n := bytes.Count(symbols, []byte(" "+part)); n > 0 != slices.Contains(c.links, part) {
					t.Errorf("the driver links %d symbols of %s, want them only in %q", n, strings.TrimSuffix(part, "."), c.links)
				}
			}
			info, err := os.Stat(exe)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes, %d symbols of gRPC, %d of Win32 calls, %d of COM", c.name, info.Size(),
				bytes.Count(symbols, []byte(" "+grpc)), bytes.Count(symbols, []byte(" "+engine)), bytes.Count(symbols, []byte(" "+com)))
		})
	}
}
