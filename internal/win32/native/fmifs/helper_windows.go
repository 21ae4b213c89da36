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

// Main is the helper: args are those behind [Command]. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	return serve(args, stdin, stdout, os.Exit, formatEx2)
}

// Flags of param and the media type of FormatEx2.
const (
	formatQuick = 0x1
	formatForce = 0x4

	formatFixedMedia = 12
)

// formatEx2 is FormatEx2 of fmifs.dll. It has no documentation; the prototype is
// the one that open tools which format disks declare for it:
//
//	void FormatEx2(PWSTR drive, int media, PWSTR fileSystem, PARAM *param, BOOLEAN (*callback)(int event, ULONG length, void *packet))
//
// The callback that it registers is never freed, and carries nothing that would
// tell two formats apart: a process formats once.
func formatEx2(vol string, o win32.FormatOptions, tell func(uint32, []byte)) error {
	proc := windows.NewLazySystemDLL("fmifs.dll").NewProc("FormatEx2")
	if err := proc.Find(); err != nil {
		return fmt.Errorf("no FormatEx2 in fmifs.dll (%v): %w", err, backend.ErrUnavailable)
	}
	wide := func(s string) *uint16 { return unsafe.SliceData(append(win32.UTF16(s), 0)) }
	drive := wide(strings.TrimSuffix(vol, `\`)) // the device, not its root directory
	fileSystem := wide(o.FileSystem)
	p := &param{major: 2, flags: formatForce, label: wide(o.Label), clusterSize: o.ClusterSize}
	if o.Quick {
		p.flags |= formatQuick
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(p.label) // reachable for Windows through p alone

	runtime.LockOSThread() // fmifs may leave state on its thread, which callbacks come back to
	defer runtime.UnlockOSThread()
	// It returns nothing; what proc.Call makes of that says nothing.
	_, _, _ = proc.Call(uintptr(unsafe.Pointer(drive)), formatFixedMedia, uintptr(unsafe.Pointer(fileSystem)),
		uintptr(unsafe.Pointer(p)), callback(tell))
	return nil
}

// callback makes a function of C out of tell. fmifs.dll calls it, perhaps from a
// thread of its own, and keeps the packet. The answer TRUE lets the format go on.
func callback(tell func(uint32, []byte)) uintptr {
	return windows.NewCallback(func(number, length uint32, data *byte) uintptr {
		const maxPacket = 1 << 16 // length is a claim
		var packet []byte
		if data != nil && length <= maxPacket {
			packet = unsafe.Slice(data, length)
		}
		tell(number, packet)
		return 1
	})
}
