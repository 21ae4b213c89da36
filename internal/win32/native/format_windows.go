package native

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Flags of formatParam and the media type of FormatEx2.
const (
	formatQuick = 0x1
	formatForce = 0x4

	formatFixedMedia = 12
)

// FormatEx2 has no documentation; the prototype is the one that open tools
// which format disks declare for it.
//sys	formatEx2(drive *uint16, media uint32, fileSystem *uint16, param *formatParam, callback uintptr) = fmifs.FormatEx2

// formatter runs one format at a time: fmifs.dll's callback carries nothing that
// would tell two of them apart.
type formatter struct {
	callback func() uintptr // the one callback, registered at the first format

	turn sync.Mutex // held for a whole format

	mu     sync.Mutex
	events *formatEvents // of the format that runs
}

// event is called by fmifs.dll, perhaps from a thread of its own. data belongs
// to fmifs. The answer TRUE lets the format go on.
func (f *formatter) event(kind, length uint32, data *byte) uintptr {
	const maxPacket = 1 << 16 // length is a claim
	var packet []byte
	if data != nil && length <= maxPacket {
		packet = unsafe.Slice(data, length)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events != nil {
		f.events.add(kind, packet)
	}
	return 1
}

// Format is FormatEx2 of fmifs.dll, which format.com uses too; it has no
// documentation, so what is known of it comes from open tools that call it. A
// fmifs.dll without it answers ERROR_NOT_SUPPORTED. It blocks for as long as the
// format takes, and formats wait for each other.
//
// Never run on real Windows. (Wine has no fmifs.dll; against one made for the
// purpose the call and its callback work.)
func (a *API) Format(vol string, o win32.FormatOptions) error {
	drive, err := wide(strings.TrimSuffix(vol, `\`)) // the device, not its root directory
	if err != nil {
		return err
	}
	fileSystem, err := wide(o.FileSystem)
	if err != nil {
		return err
	}
	label, err := wide(o.Label)
	if err != nil {
		return err
	}
	if err := procFormatEx2.Find(); err != nil {
		return fmt.Errorf("this Windows has no FormatEx2 in fmifs.dll (%v): %w", err, win32.ERROR_NOT_SUPPORTED)
	}
	param := &formatParam{major: 2, flags: formatForce, label: label, clusterSize: o.ClusterSize}
	if o.Quick {
		param.flags |= formatQuick
	}

	a.format.turn.Lock()
	defer a.format.turn.Unlock()
	events := &formatEvents{}
	a.format.listen(events)
	defer a.format.listen(nil)

	runtime.LockOSThread() // fmifs may leave state on its thread, which callbacks come back to
	defer runtime.UnlockOSThread()
	formatEx2(drive, formatFixedMedia, fileSystem, param, a.format.callback())
	runtime.KeepAlive(param)

	a.format.mu.Lock()
	defer a.format.mu.Unlock()
	return events.result()
}

func (f *formatter) listen(events *formatEvents) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = events
}
