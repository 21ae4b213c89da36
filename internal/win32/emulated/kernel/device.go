package kernel

import (
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Device is the object of a device handle: a disk or a volume.
type Device interface {
	// Present returns nil, or the error of every call on a handle of a device that
	// was removed.
	Present() error
	// Opens returns the error of opening the device for data, or nil. path is the one that is
	// opened.
	Opens(write bool, path string) error
	// Covers reports whether d is the device, or has it on it.
	Covers(d Device) bool
	Control(t *Tx, h *DeviceHandle, code uint32, in, out []byte) (int, error)
	Read(p []byte, off int64) (int, error)
	Write(t *Tx, p []byte, off int64) (int, error)
	Flush() error
}

// DeviceHandle is an open handle of a disk or a volume.
type DeviceHandle struct {
	Device
	Reads, Writes bool
	share         uint32
	OnClose       func() // or nil
}

// Rights that give access to data (winnt.h).
const (
	GenericAll    = 0x10000000
	fileReadData  = 0x0001
	FileWriteData = 0x0002
)

// Control checks what the I/O manager checks before it calls a driver: bits 14
// and 15 of the code are the access that the handle must have (winioctl.h,
// CTL_CODE).
func (h *DeviceHandle) Control(t *Tx, code uint32, in, out []byte) (int, error) {
	if err := h.Present(); err != nil {
		return 0, err
	}
	if code>>14&1 != 0 && !h.Reads || code>>15&1 != 0 && !h.Writes {
		return 0, win32.ERROR_ACCESS_DENIED // Source: document, "Defining I/O Control Codes", RequiredAccess
	}
	if isFileSystemControl(code) && !h.Reads && !h.Writes {
		// A handle without access to data is open on the device and not on its file
		// system (docs/develop/contract/calls.md#handles-and-access; IoCreateFile, "direct
		// device open").
		return 0, win32.ERROR_INVALID_FUNCTION // Source: inference, from "direct device open" (IoCreateFile)
	}
	return h.Device.Control(t, h, code, in, out)
}

// isFileSystemControl reports whether code is an FSCTL, which has the device type
// FILE_DEVICE_FILE_SYSTEM.
func isFileSystemControl(code uint32) bool { return code>>16 == 9 }

func (h *DeviceHandle) ReadAt(_ *Tx, p []byte, off int64) (int, error) {
	if err := h.Present(); err != nil {
		return 0, err
	}
	if !h.Reads {
		// Source: document, ReadFile, "must have been created with read access"; the number is
		// inference.
		return 0, win32.ERROR_ACCESS_DENIED
	}
	return h.Device.Read(p, off)
}

func (h *DeviceHandle) WriteAt(t *Tx, p []byte, off int64) (int, error) {
	if err := h.Present(); err != nil {
		return 0, err
	}
	if !h.Writes {
		// Source: document, WriteFile, "must have been created with the write access"; the
		// number is inference.
		return 0, win32.ERROR_ACCESS_DENIED
	}
	if len(p) > maxTransfer {
		// Source: inference, drivers limit how much memory one request locks.
		return 0, win32.ERROR_NO_SYSTEM_RESOURCES
	}
	return h.Device.Write(t, p, off)
}

// maxTransfer limits one write, in bytes. Windows, too, can lock only as much memory
// for a request as its drivers allow (general knowledge).
const maxTransfer = 256 << 20

// Flush requires a handle with write access (Microsoft: FlushFileBuffers, "must have
// the GENERIC_WRITE access right").
func (h *DeviceHandle) Flush(*Tx) error {
	if err := h.Present(); err != nil {
		return err
	}
	if !h.Writes {
		// Source: document, FlushFileBuffers, "must have the GENERIC_WRITE access right"; the
		// number is inference.
		return win32.ERROR_ACCESS_DENIED
	}
	return h.Device.Flush()
}

func (h *DeviceHandle) Close(*Tx) error {
	if h.OnClose != nil {
		h.OnClose()
	}
	return nil
}

// Uses implements user.
func (h *DeviceHandle) Uses(d Device) bool { return (h.Reads || h.Writes) && h.Device.Covers(d) }

// OpenDevice opens a disk or a volume.
func (n *Kernel) OpenDevice(d Device, path string, access, share, disposition uint32) (win32.Handle, error) {
	const known = win32.GENERIC_READ | win32.GENERIC_WRITE | GenericAll | fileReadData | FileWriteData |
		win32.FILE_READ_ATTRIBUTES | win32.FILE_WRITE_ATTRIBUTES | win32.SYNCHRONIZE | win32.DELETE
	if disposition != win32.OPEN_EXISTING || access&^known != 0 ||
		share&^(win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE) != 0 {
		// A device cannot be created (Microsoft: CreateFileW, dwCreationDisposition).
		// Source: document, CreateFileW, dwCreationDisposition; the number is inference.
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	h := &DeviceHandle{
		Device: d,
		Reads:  access&(win32.GENERIC_READ|GenericAll|fileReadData) != 0,
		Writes: access&(win32.GENERIC_WRITE|GenericAll|FileWriteData) != 0,
		share:  share,
	}
	if h.Reads || h.Writes {
		if err := d.Opens(h.Writes, path); err != nil {
			return 0, err
		}
		for _, e := range n.handles {
			if o, ok := e.object.(*DeviceHandle); ok && o.Device == d && (!h.allows(o) || !o.allows(h)) {
				return 0, win32.ERROR_SHARING_VIOLATION // Source: document, CreateFileW, dwShareMode
			}
		}
	}
	return n.Insert(h, path), nil
}

// allows reports whether h's share mode allows the access of o.
func (h *DeviceHandle) allows(o *DeviceHandle) bool {
	if !h.Reads && !h.Writes {
		return true
	}
	return (!o.Reads || h.share&win32.FILE_SHARE_READ != 0) && (!o.Writes || h.share&win32.FILE_SHARE_WRITE != 0)
}

// Output copies b, a structure of fixed size, to out. If out is too short, the
// error is STATUS_BUFFER_TOO_SMALL (Microsoft: the pages of the control codes).
func Output(out, b []byte) (int, error) {
	if len(out) < len(b) {
		// Source: document, STATUS_BUFFER_TOO_SMALL on the pages of the control codes; code, WSL
		// grows its buffer on 122.
		return 0, win32.ERROR_INSUFFICIENT_BUFFER
	}
	return copy(out, b), nil
}

// InputError returns the error for an input that a decoder refused:
// ERROR_BAD_LENGTH (STATUS_INFO_LENGTH_MISMATCH) if it is too short for the
// structure, else ERROR_INVALID_PARAMETER (Windows-driver-samples,
// storage/class/disk).
func InputError(in []byte, want int) error {
	if len(in) < want {
		// Source: document, STATUS_INFO_LENGTH_MISMATCH (IOCTL_DISK_CREATE_DISK); the page of
		// IOCTL_DISK_GROW_PARTITION has STATUS_BUFFER_TOO_SMALL.
		return win32.ERROR_BAD_LENGTH
	}
	return win32.ERROR_INVALID_PARAMETER // Source: inference, of an input that is long enough and cannot be decoded
}

// ArrivalDelay is the time from when Windows finds a disk until it appears, and from when a
// disk appears until other programs have closed it. Volumes appear as late. It is short
// because tests on the machine's own clock wait for it.
const ArrivalDelay = 5 * time.Millisecond
