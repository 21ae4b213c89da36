package fmifs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// TestMain makes this test's binary the helper, with a formatter that simulates
// what its environment asks for.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(serve(os.Args[2:], os.Stdin, os.Stdout, os.Exit, simulate))
	}
	if os.Getenv(asParent) != "" {
		exe, _ := os.Executable()
		fmt.Println(Helper{Executable: exe}.Format(volume, win32.FormatOptions{}))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// asParent makes this test's binary format with a helper that does not end.
const asParent = "CSI_PROXY_TEST_AS_PARENT"

// asFormat is what the helper simulates.
const asFormat = "CSI_PROXY_TEST_AS_FORMAT"

const volume = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`

func simulate(vol string, cluster uint32, report func(uint32, []byte)) error {
	report(0, []byte{50, 0, 0, 0})
	switch os.Getenv(asFormat) {
	case "check arguments":
		if vol != volume || cluster != 65536 {
			return fmt.Errorf("got %q, %d", vol, cluster)
		}
		report(11, finished(1, 0))
	case "no access":
		report(6, nil)
		report(11, finished(0, 0))
	case "crash":
		report(10, nil)
		panic("fmifs.dll crashed")
	case "exit":
		report(11, finished(1, 0))
		os.Exit(7)
	case "unknown line":
		fmt.Println("unknown line")
	case "missing":
		return fmt.Errorf("no fmifs.dll\nhere: %w", backend.ErrUnavailable)
	case "hang":
		time.Sleep(time.Hour)
	case "many events":
		for range 5000 {
			report(14, make([]byte, 50))
		}
		report(11, finished(1, 0))
	case "large packet":
		report(14, make([]byte, 1<<16))
		report(11, finished(1, 0))
	}
	return nil
}

func helper(t *testing.T) Helper {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Helper{Executable: exe}
}

func TestFormat(t *testing.T) {
	for simulated, want := range map[string]struct {
		err  win32.Errno // 0: success
		says string
	}{
		"check arguments": {},
		"many events":     {},
		"large packet":    {},
		"no access":       {win32.ERROR_ACCESS_DENIED, "event 6"},
		"crash":           {win32.ERROR_IO_DEVICE, "ended before"},
		"exit":            {win32.ERROR_PROCESS_ABORTED, "exit status 7"},
		"unknown line":    {win32.ERROR_GEN_FAILURE, `"unknown line"`},
		"missing":         {win32.ERROR_NOT_SUPPORTED, "no fmifs.dll here"},
		"never finishing": {win32.ERROR_GEN_FAILURE, "before it reported the end"},
	} {
		t.Setenv(asFormat, simulated)
		err := helper(t).Format(volume, win32.FormatOptions{ClusterSize: 65536})
		code, _ := win32.Code(err)
		if (err == nil) != (want.err == 0) || code != want.err || err != nil && !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v, want %v with %q", simulated, err, want.err, want.says)
		}
		if errors.Is(err, backend.ErrUnavailable) != (simulated == "missing") {
			t.Errorf("%s: %v counts as a missing backend: %t", simulated, err, errors.Is(err, backend.ErrUnavailable))
		}
	}
}

// A helper that is silent for too long is killed.
func TestHelperSilenceLimit(t *testing.T) {
	h := helper(t)
	h.SilenceLimit = 300 * time.Millisecond
	t.Setenv(asFormat, "hang")
	err := h.Format(volume, win32.FormatOptions{})
	if !win32.IsCode(err, win32.ERROR_TIMEOUT) {
		t.Errorf("Format = %v, want ERROR_TIMEOUT", err)
	}
}

func TestFormatRefusesArguments(t *testing.T) {
	h := Helper{Executable: "/there/is/no/such/program"}
	for _, vol := range []string{"", `C:`, `C:\`, `\\.\PhysicalDrive0`, volume + `x`, volume + "\n"} {
		if err := h.Format(vol, win32.FormatOptions{}); !win32.IsCode(err, win32.ERROR_INVALID_NAME) {
			t.Errorf("Format(%q) = %v, want ERROR_INVALID_NAME", vol, err)
		}
	}
	if err := (Helper{}).Format(volume, win32.FormatOptions{}); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "needs csi-proxy.exe") {
		t.Errorf("without an executable: %v, want ErrUnavailable", err)
	}
	if err := h.Format(volume, win32.FormatOptions{}); !win32.IsCode(err, win32.ERROR_GEN_FAILURE) || !strings.Contains(err.Error(), "start the format helper") {
		t.Errorf("without the program: %v, want a failure to start it", err)
	}
}

// A program that is not the helper, or a helper of another version, receives
// nothing.
func TestOutputOfAnotherProgram(t *testing.T) {
	for _, line := range []string{"usage: other\n", "csi-proxy format-helper 2\n", "csi-proxy format-helper 1x\n", "returned\n"} {
		var sent strings.Builder
		o := &output{}
		if err := o.read(strings.NewReader(line), &sent, func() {}); err == nil || sent.Len() > 0 {
			t.Errorf("after %q the helper got %q, and read returned %v", line, sent.String(), err)
		}
	}
}

// The helper formats only what its running parent asked for.
func TestHelperWaitsForParent(t *testing.T) {
	formatted := 0
	count := func(string, uint32, func(uint32, []byte)) error { formatted++; return nil }
	good := arguments(volume, 65536)[1:]
	for _, c := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		runs  int
	}{
		{"no parent", good, "", exitOrphaned, 0},
		{"another line", good, "yes\n", exitOrphaned, 0},
		{"half a line", good, "go", exitOrphaned, 0},
		{"a volume by its drive letter", []string{"-volume=C:"}, "go\n", exitUsage, 0},
		{"no volume", []string{"-cluster-size=65536"}, "go\n", exitUsage, 0},
		{"an argument too many", append(slices.Clone(good), "more"), "go\n", exitUsage, 0},
		{"an unknown flag", append(slices.Clone(good), "-full"), "go\n", exitUsage, 0},
		{"a cluster size beyond 32 bits", append(slices.Clone(good), "-cluster-size=4294967296"), "go\n", exitUsage, 0},
		{"a parent that sends go", good, "go\n", exitOK, 1},
	} {
		formatted = 0
		var out strings.Builder
		stdin, parent := io.Pipe()
		go func() {
			io.WriteString(parent, c.stdin)
			if c.code != exitOK {
				parent.Close()
			}
		}()
		code := serve(c.args, stdin, &out, func(int) {}, count)
		if code != c.code || formatted != c.runs || !strings.HasPrefix(out.String(), hello+"\n") {
			t.Errorf("%s: exit code %d, %d formats, and the output\n%s\nwant %d and %d", c.name, code, formatted, &out, c.code, c.runs)
		}
	}
}

// The end of its parent ends a helper while it formats.
func TestHelperEndsWithParent(t *testing.T) {
	exited := make(chan int)
	began := make(chan bool)
	stdin, parent := io.Pipe()
	go func() {
		serve(arguments(volume, 0)[1:], stdin, io.Discard, func(code int) { exited <- code },
			func(string, uint32, func(uint32, []byte)) error {
				close(began)
				select {}
			})
	}()
	io.WriteString(parent, "go\n")
	<-began
	parent.Close()
	if code := <-exited; code != exitOrphaned {
		t.Errorf("exit code %d, want %d", code, exitOrphaned)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add(volume, uint32(0))
	f.Add(volume[:len(volume)-1], uint32(65536))
	f.Add("-volume=x", uint32(1))
	f.Fuzz(func(t *testing.T, vol string, cluster uint32) {
		gotVol, got, err := parse(arguments(vol, cluster)[1:])
		if ok := Check(vol) == nil; ok != (err == nil) || ok && (gotVol != vol || got != cluster) {
			t.Errorf("%q, %d became %q, %d, %v", vol, cluster, gotVol, got, err)
		}
	})
}

// For any output of the helper, there is success only if it says that FormatEx
// reported success and returned.
func FuzzOutput(f *testing.F) {
	f.Add(hello + "\nevent 11 0100000000000000\nreturned\n")
	f.Add(hello + "\r\nevent 6 \nevent 11 00\nreturned\n")
	f.Add(hello + "\nmissing no DLL\n")
	f.Add(hello + "\nrefused\n")
	f.Add(hello + "\nevent 99999999999 zz\n")
	f.Fuzz(func(t *testing.T, lines string) {
		o := &output{}
		err := o.read(strings.NewReader(lines), io.Discard, func() {})
		if err == nil {
			err = o.result(nil, "")
		}
		if err == nil && (!strings.HasPrefix(lines, hello) || !strings.Contains(lines, "event 11 ") || !strings.Contains(lines, "returned")) {
			t.Errorf("%q counts as success", lines)
		}
		if _, ok := win32.Code(err); err != nil && !ok {
			t.Errorf("%q: %v has no Win32 number", lines, err)
		}
	})
}
