package verify

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ownerRights asks whether an administrator that csi-proxy's pipe lets connect may change who
// else may, because administrators own the pipe.
func ownerRights(p *place) string {
	may := func(descriptor string) string {
		path, _, _ := clientPipe(p, descriptor)
		h, err := windows.CreateFile(windows.StringToUTF16Ptr(path), windows.WRITE_DAC, 0, nil, windows.OPEN_EXISTING, 0, 0)
		switch {
		case errors.Is(err, windows.ERROR_ACCESS_DENIED):
			return "no"
		case err != nil:
			return err.Error()
		}
		p.need(windows.CloseHandle(h))
		return "yes"
	}
	const client = "O:BAD:P(A;;0x12019b;;;BA)"
	return "as its owner " + may(client) + ", with an entry for owners " + may(client+"(A;;RC;;;OW)")
}

// iscsiBuffers makes two calls of iscsidsc.dll as no program should.
func iscsiBuffers(p *place) string {
	p.startInitiator()
	dll := windows.NewLazySystemDLL("iscsidsc.dll")
	report, remove := dll.NewProc("ReportIScsiPersistentLoginsW"), dll.NewProc("RemoveIScsiPersistentTargetW")
	p.need(errors.Join(report.Find(), remove.Find()))
	var count uint32
	small := make([]byte, 16)
	size := uint32(len(small))
	short, _, _ := report.Call(uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&small[0])), uintptr(unsafe.Pointer(&size)))
	target := windows.StringToUTF16Ptr("iqn.2025-01.com.example:csi-proxy-verify")
	portal := make([]byte, 1026) // ISCSI_TARGET_PORTALW, empty: any portal
	none, _, _ := remove.Call(0, 0xFFFFFFFF, uintptr(unsafe.Pointer(target)), uintptr(unsafe.Pointer(&portal[0])))
	sessions, err := p.node.API.GetIScsiSessionList()
	p.need(err)
	without := 0
	for _, s := range sessions {
		if len(s.Connections) == 0 {
			without++
		}
	}
	return fmt.Sprintf("a buffer of 16 bytes for %d logins: %#x; removal without an initiator: %#x; %d of %d sessions have no connection", count, short, none, without, len(sessions))
}
