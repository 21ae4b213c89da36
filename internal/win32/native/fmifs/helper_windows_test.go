package fmifs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// The callback passes events on, even with a false length.
func TestCallback(t *testing.T) {
	var got []string
	call := callback(func(number uint32, packet []byte) {
		got = append(got, fmt.Sprintf("%d %s", number, hex.EncodeToString(packet)))
	})
	emit := func(number, length uint32, data *byte) {
		t.Helper()
		r, _, _ := syscall.SyscallN(call, uintptr(number), uintptr(length), uintptr(unsafe.Pointer(data)))
		if r&0xFF != 1 {
			t.Errorf("the callback returned %d, want TRUE", r)
		}
	}
	packet := finished(1, 5)
	emit(11, uint32(len(packet)), &packet[0])
	emit(6, 0, nil)
	emit(14, 1<<30, &packet[0])
	emit(0, 4, nil)
	if want := []string{"11 0100000005000000", "6 ", "14 ", "0 "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFormatWithoutDLL(t *testing.T) {
	if windows.NewLazySystemDLL("fmifs.dll").Load() == nil {
		t.Skip("needs a Windows without fmifs.dll, such as Wine")
	}
	err := formatEx(volume, 0, func(uint32, []byte) {})
	if !errors.Is(err, backend.ErrUnavailable) || !win32.IsCode(err, win32.ERROR_NOT_SUPPORTED) || !strings.Contains(err.Error(), "fmifs.dll") {
		t.Errorf("formatEx: %v, want ErrUnavailable naming fmifs.dll", err)
	}
}

// Closing the handle of its job ends a helper, whatever it is doing.
func TestHelperEndsWithJob(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, arguments(volume, 0)...)
	c.Env = append(os.Environ(), asFormat+"=hang")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	isolate(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	leave, err := confine(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "go\n")
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("the helper ended by itself: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	leave()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the helper still runs without its job")
		c.Process.Kill()
	}
}

// So does the end of the process that owns the handle, even without a chance to
// clean up.
func TestHelperEndsWithParentProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), asParent+"=1", asFormat+"=hang")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer parent.Wait()
	defer parent.Process.Kill()
	var child uint32
	for limit := time.Now().Add(time.Minute); child == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the parent did not start a helper")
		}
		child = childOf(t, uint32(parent.Process.Pid), filepath.Base(exe))
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, child)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(h)
	if s, err := windows.WaitForSingleObject(h, 500); s != uint32(windows.WAIT_TIMEOUT) {
		t.Fatalf("the helper ended by itself: %d, %v", s, err)
	}
	parent.Process.Kill()
	if s, err := windows.WaitForSingleObject(h, 60_000); s != windows.WAIT_OBJECT_0 {
		t.Errorf("the helper still runs without its parent: %d, %v", s, err)
	}
}

// childOf returns a child process of parent that runs this program, or 0. A
// console may be its child as well.
func childOf(t *testing.T, parent uint32, program string) uint32 {
	t.Helper()
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(snapshot)
	p := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err := windows.Process32First(snapshot, &p); err == nil; err = windows.Process32Next(snapshot, &p) {
		if p.ParentProcessID == parent && strings.EqualFold(windows.UTF16ToString(p.ExeFile[:]), program) {
			return p.ProcessID
		}
	}
	return 0
}
