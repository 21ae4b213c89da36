package fmifs

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Main runs the helper with the arguments that follow [Command], and returns the
// exit code.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	return serve(args, stdin, stdout, os.Exit, formatEx)
}

// formatFixedMedia is the media type of a fixed disk.
const formatFixedMedia = 12

// formatEx is FormatEx of fmifs.dll. It is undocumented; this is the prototype
// that open tools declare, which have called it for years:
//
//	void FormatEx(PWSTR drive, int media, PWSTR fileSystem, PWSTR label, BOOLEAN quick, ULONG clusterSize, BOOLEAN (*callback)(int event, ULONG length, void *packet))
//
// The callback is never freed, and nothing in its arguments distinguishes two
// formats, so a process formats once.
func formatEx(vol string, cluster uint32, report func(uint32, []byte)) error {
	proc := windows.NewLazySystemDLL("fmifs.dll").NewProc("FormatEx")
	if err := proc.Find(); err != nil {
		return fmt.Errorf("fmifs.dll has no FormatEx (%v): %w", err, backend.ErrUnavailable)
	}
	wide := func(s string) *uint16 { return unsafe.SliceData(append(win32.UTF16(s), 0)) }
	drive := wide(strings.TrimSuffix(vol, `\`)) // the device, not its root directory
	fileSystem, label := wide("NTFS"), wide("")
	const quick = 1
	runtime.LockOSThread() // fmifs may leave state on its thread, on which callbacks run
	defer runtime.UnlockOSThread()
	// FormatEx returns no value, so ignore what proc.Call returns.
	_, _, _ = proc.Call(uintptr(unsafe.Pointer(drive)), formatFixedMedia, uintptr(unsafe.Pointer(fileSystem)),
		uintptr(unsafe.Pointer(label)), quick, uintptr(cluster), callback(report))
	return nil
}

// callback converts report to a C function. fmifs.dll may call it from a thread
// of its own, and owns the packet. The result TRUE lets the format continue.
func callback(report func(uint32, []byte)) uintptr {
	return windows.NewCallback(func(number, length uint32, data *byte) uintptr {
		const maxPacket = 1 << 16 // length cannot be trusted
		var packet []byte
		if data != nil && length <= maxPacket {
			packet = unsafe.Slice(data, length)
		}
		report(number, packet)
		return 1
	})
}
