package emulated

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
)

// device is the object of a device handle: a disk or a volume.
type device interface {
	// present returns nil, or the error of every call on a handle of a device that
	// was removed.
	present() error
	control(t *tx, code uint32, in, out []byte) (int, error)
	readAt(p []byte, off int64) (int, error)
	writeAt(t *tx, p []byte, off int64) (int, error)
	flush() error
	// handles returns the open handles of the device.
	handles() *[]*deviceHandle
}

// deviceHandle is an open handle of a disk or a volume.
type deviceHandle struct {
	device
	read, write bool
	share       uint32
}

// Rights that give access to data (winnt.h).
const (
	genericAll    = 0x10000000
	fileReadData  = 0x0001
	fileWriteData = 0x0002
)

// control checks what the I/O manager checks before it calls a driver: bits 14
// and 15 of the code are the access that the handle must have (winioctl.h,
// CTL_CODE).
func (h *deviceHandle) control(t *tx, code uint32, in, out []byte) (int, error) {
	if err := h.present(); err != nil {
		return 0, err
	}
	if code>>14&1 != 0 && !h.read || code>>15&1 != 0 && !h.write {
		return 0, win32.ERROR_ACCESS_DENIED // Source: document, "Defining I/O Control Codes", RequiredAccess
	}
	if isFileSystemControl(code) && !h.read && !h.write {
		// A handle without access to data is open on the device and not on its file
		// system (docs/develop/contract/calls.md#handles-and-access; IoCreateFile, "direct
		// device open").
		return 0, win32.ERROR_INVALID_FUNCTION // Source: inference, from "direct device open" (IoCreateFile)
	}
	if v, ok := h.device.(*volume); ok {
		if err := v.answers(code, !h.read && !h.write); err != nil {
			return 0, err
		}
		switch code {
		// Source: document, FSCTL_LOCK_VOLUME.
		case win32.FSCTL_LOCK_VOLUME:
			return 0, v.lock(h)
		// Source: document, FSCTL_DISMOUNT_VOLUME; that the cache is not flushed is inference.
		case win32.FSCTL_DISMOUNT_VOLUME:
			return 0, v.dismount(t)
		}
	}
	return h.device.control(t, code, in, out)
}

// isFileSystemControl reports whether code is an FSCTL, which has the device type
// FILE_DEVICE_FILE_SYSTEM.
func isFileSystemControl(code uint32) bool { return code>>16 == 9 }

func (h *deviceHandle) readAt(_ *tx, p []byte, off int64) (int, error) {
	if err := h.present(); err != nil {
		return 0, err
	}
	if !h.read {
		// Source: document, ReadFile, "must have been created with read access"; the number is
		// inference.
		return 0, win32.ERROR_ACCESS_DENIED
	}
	return h.device.readAt(p, off)
}

func (h *deviceHandle) writeAt(t *tx, p []byte, off int64) (int, error) {
	if err := h.present(); err != nil {
		return 0, err
	}
	if !h.write {
		// Source: document, WriteFile, "must have been created with the write access"; the
		// number is inference.
		return 0, win32.ERROR_ACCESS_DENIED
	}
	if len(p) > maxTransfer {
		// Source: inference, drivers limit how much memory one request locks.
		return 0, win32.ERROR_NO_SYSTEM_RESOURCES
	}
	return h.device.writeAt(t, p, off)
}

// maxTransfer limits one write, in bytes. Windows, too, can lock only as much memory
// for a request as its drivers allow (general knowledge).
const maxTransfer = 256 << 20

// flush requires a handle with write access (Microsoft: FlushFileBuffers, "must have
// the GENERIC_WRITE access right").
func (h *deviceHandle) flush(*tx) error {
	if err := h.present(); err != nil {
		return err
	}
	if !h.write {
		// Source: document, FlushFileBuffers, "must have the GENERIC_WRITE access right"; the
		// number is inference.
		return win32.ERROR_ACCESS_DENIED
	}
	return h.device.flush()
}

func (h *deviceHandle) close(*tx) error {
	list := h.device.handles()
	*list = slices.DeleteFunc(*list, func(o *deviceHandle) bool { return o == h })
	if v, ok := h.device.(*volume); ok && v.locked == h {
		v.locked = nil
	}
	return nil
}

// usedVolume implements volumeUser.
func (h *deviceHandle) usedVolume() *volume {
	if v, ok := h.device.(*volume); ok && (h.read || h.write) {
		return v
	}
	return nil
}

// CreateFile implements [win32.Handles] for disks and volumes:
// `\\.\PhysicalDrive0`, a device interface path, `\\?\Volume{…}`, `\\.\C:`,
// `\\?\Harddisk1Partition2`; and for the mount manager, `\\.\MountPointManager`.
// A path that leads into a volume is opened as by NtCreateFile.
//
// Two handles with data access to one device must allow each other in their
// share modes. A handle without data access conflicts with none
// (docs/develop/contract/calls.md#handles-and-access).
//
// Source: document, CreateFileW, "Physical Disks and Volumes".
func (n *Node) CreateFile(path string, access, share, disposition, flags uint32) (h win32.Handle, err error) {
	err = n.do(func(t *tx) error {
		name, reserved, err := ntName(path)
		if err != nil {
			return err
		}
		if reserved {
			return win32.ERROR_FILE_NOT_FOUND // Source: node, it has no consoles or ports
		}
		if strings.EqualFold(name, `\??\MountPointManager`) && disposition == win32.OPEN_EXISTING {
			h = n.insert(mountManager{n}, path)
			return nil
		}
		d := n.deviceForNT(name)
		if d == nil {
			if _, rest, ok := n.volumeForNT(name); ok && rest != "" {
				h, err = n.createFileOnVolume(t, name, path, access, share, disposition, flags)
				return err
			}
			// STATUS_OBJECT_NAME_NOT_FOUND for the device itself,
			// STATUS_OBJECT_PATH_NOT_FOUND for a path on it.
			if strings.Contains(strings.TrimPrefix(name, `\??\`), `\`) {
				return win32.ERROR_PATH_NOT_FOUND // Source: inference, by the text of the code in ntstatus.h
			}
			return win32.ERROR_FILE_NOT_FOUND // Source: inference, by the text of the code in ntstatus.h
		}
		h, err = n.openDevice(d, path, access, share, disposition)
		return err
	})
	return h, err
}

// openDevice opens a disk or a volume.
func (n *Node) openDevice(d device, path string, access, share, disposition uint32) (win32.Handle, error) {
	const known = win32.GENERIC_READ | win32.GENERIC_WRITE | genericAll | fileReadData | fileWriteData |
		win32.FILE_READ_ATTRIBUTES | win32.FILE_WRITE_ATTRIBUTES | win32.SYNCHRONIZE | win32.DELETE
	if disposition != win32.OPEN_EXISTING || access&^known != 0 ||
		share&^(win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE) != 0 {
		// A device cannot be created (Microsoft: CreateFileW, dwCreationDisposition).
		// Source: document, CreateFileW, dwCreationDisposition; the number is inference.
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	h := &deviceHandle{
		device: d,
		read:   access&(win32.GENERIC_READ|genericAll|fileReadData) != 0,
		write:  access&(win32.GENERIC_WRITE|genericAll|fileWriteData) != 0,
		share:  share,
	}
	list := d.handles()
	if h.read || h.write {
		if v, ok := d.(*volume); ok && (v.formatting != nil || v.locked != nil) {
			// Source: code, fastfat create.c, of a locked volume.
			return 0, win32.ERROR_ACCESS_DENIED // locked by a format or by its holder
		}
		if v, ok := d.(*volume); ok && h.write && !v.offline && v.writable() != nil && n.win.WriteProtected == behavior.WriteProtectedRefused && v.mounted(&n.tx) {
			n.chosen("writeProtected", "refuse to open a volume for writing", path)
			// Source: inference, of a mounted file system; see the option writeProtected.
			return 0, win32.ERROR_WRITE_PROTECT
		}
		if disk, ok := d.(*disk); ok && disk.held() {
			n.chosen("newDisks", "refuse to open a disk that another program holds", path)
			return 0, win32.ERROR_SHARING_VIOLATION // Source: code, WSL disk.cpp; see the option newDisks
		}
		for _, o := range *list {
			if !h.allows(o) || !o.allows(h) {
				return 0, win32.ERROR_SHARING_VIOLATION // Source: document, CreateFileW, dwShareMode
			}
		}
	}
	*list = append(*list, h)
	return n.insert(h, path), nil
}

// allows reports whether h's share mode allows the access of o.
func (h *deviceHandle) allows(o *deviceHandle) bool {
	if !h.read && !h.write {
		return true
	}
	return (!o.read || h.share&win32.FILE_SHARE_READ != 0) && (!o.write || h.share&win32.FILE_SHARE_WRITE != 0)
}

// Interfaces implements [win32.Devices]. A class without devices has an empty list.
//
// Source: document, CM_Get_Device_Interface_ListW.
func (n *Node) Interfaces(class win32.GUID) (is []win32.Interface, err error) {
	err = n.do(func(*tx) error {
		switch class {
		case win32.GUID_DEVINTERFACE_DISK:
			for _, d := range n.disks {
				is = append(is, win32.Interface{Path: d.interfacePath()})
			}
		case win32.GUID_DEVINTERFACE_VOLUME:
			for _, v := range n.volumes {
				if v.visible() {
					is = append(is, win32.Interface{Path: v.interfacePath()})
				}
			}
		}
		return nil
	})
	return is, err
}

// Reenumerate implements [win32.Devices]. It finds the disks that wait for it, which arrive
// a moment later.
//
// Source: document, CM_Reenumerate_DevNode.
func (n *Node) Reenumerate() error { return n.do(n.reenumerate) }

func (n *Node) reenumerate(t *tx) error {
	// CR_ACCESS_DENIED (Microsoft: CM_Reenumerate_DevNode, "the caller must have
	// SeLoadDriverPrivilege").
	if t.privilege != win32.SE_LOAD_DRIVER_NAME {
		// Source: document, CM_Reenumerate_DevNode, "must have SeLoadDriverPrivilege"; the
		// number is inference.
		return win32.ERROR_ACCESS_DENIED
	}
	for _, d := range n.waiting {
		if d.State == statusWaiting {
			state := d.diskState
			state.State = statusArriving
			d.change(t, state)
			t.onCommit(func() { d.arrives = n.now().Add(arrivalDelay) })
		}
	}
	return nil
}
