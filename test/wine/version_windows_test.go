package wine

import (
	"fmt"
	"regexp"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Windows reads each program's version resource, and the program logs the same
// version.
func TestVersionResource(t *testing.T) {
	for name, what := range map[string]program{"csi-proxy.exe": csiProxy, "csi-proxy-sim.exe": csiProxySim} {
		t.Run(name, func(t *testing.T) { versionResource(t, name, what) })
	}
}

func versionResource(t *testing.T, original string, what program) {
	exe := what.path(t)
	var unused windows.Handle
	size, err := windows.GetFileVersionInfoSize(exe, &unused)
	if err != nil {
		t.Fatalf("%s has no version resource: %v", exe, err)
	}
	info := make([]byte, size)
	if err := windows.GetFileVersionInfo(exe, 0, size, unsafe.Pointer(&info[0])); err != nil {
		t.Fatal(err)
	}
	text := func(name string) string {
		var p *uint16
		var n uint32
		if err := windows.VerQueryValue(unsafe.Pointer(&info[0]), `\StringFileInfo\040904B0\`+name, unsafe.Pointer(&p), &n); err != nil {
			t.Errorf("%s: %v", name, err)
			return ""
		}
		return windows.UTF16PtrToString(p)
	}
	p := start(t, what)
	logged := regexp.MustCompile(`version="([^"]+)"`).FindStringSubmatch(p.output())
	if logged == nil {
		t.Fatalf("%s does not log its version", exe)
	}
	for name, want := range map[string]string{"ProductName": "CSI Proxy", "ProductVersion": logged[1], "FileVersion": logged[1], "OriginalFilename": original} {
		if got := text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	var fixed *windows.VS_FIXEDFILEINFO
	var n uint32
	if err := windows.VerQueryValue(unsafe.Pointer(&info[0]), `\`, unsafe.Pointer(&fixed), &n); err != nil {
		t.Fatal(err)
	}
	numbers := fmt.Sprintf("%d.%d.%d.%d", fixed.FileVersionMS>>16, fixed.FileVersionMS&0xFFFF, fixed.FileVersionLS>>16, fixed.FileVersionLS&0xFFFF)
	want := "0.0.0.0" // for a version that is not a tag
	if tag := regexp.MustCompile(`^v?(\d+\.\d+\.\d+)`).FindStringSubmatch(logged[1]); tag != nil {
		want = tag[1] + `\.\d+`
	}
	if !regexp.MustCompile("^"+want+"$").MatchString(numbers) || fixed.Signature != 0xFEEF04BD {
		t.Errorf("the numbers are %s with signature %#x, want %s", numbers, fixed.Signature, want)
	}
}
