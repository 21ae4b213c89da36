package dllsearch

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

// A DLL beside the program is loaded before the search is restricted, and not afterwards.
func TestDLLBesideProgramIsNotLoaded(t *testing.T) {
	const name = "csi-proxy-test-planted.dll"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	system, err := windows.GetSystemDirectory()
	if err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(filepath.Dir(exe), name)
	copyFile(t, planted, filepath.Join(system, "version.dll"))
	defer os.Remove(planted)
	h, err := windows.LoadLibrary(name)
	if err != nil {
		t.Skipf("this system does not load a copy of version.dll: %v: run it on Windows", err)
	}
	if err := windows.FreeLibrary(h); err != nil {
		t.Fatal(err)
	}
	if err := systemOnly(); err != nil {
		t.Fatal(err)
	}
	if h, err := windows.LoadLibrary(name); err == nil {
		windows.FreeLibrary(h)
		t.Error("the DLL beside the program is loaded")
	}
	h, err = windows.LoadLibrary("version.dll")
	if err != nil {
		t.Fatalf("a DLL of the system directory: %v", err)
	}
	if err := windows.FreeLibrary(h); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
