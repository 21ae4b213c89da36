package files

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// Control implements object. DeviceIoControl returns Win32 error numbers.
func (f *file) Control(t *kernel.Tx, code uint32, in, out []byte) (int, error) {
	n, err := f.fsctl(t, code, in, out)
	if status, ok := err.(win32.NTStatus); ok {
		err = status.Errno()
	}
	return n, err
}

// fsctl is FSCTL_GET_, _SET_ and _DELETE_REPARSE_POINT ([MS-FSA] 2.1.5.10.14, .37
// and .3). Other codes fail with STATUS_INVALID_DEVICE_REQUEST, like unknown
// codes in a file system.
func (f *file) fsctl(t *kernel.Tx, code uint32, in, out []byte) (int, error) {
	if f.vol.FS.Kind != bootsector.NTFS {
		// Source: specification, [MS-FSCC] 2.3.82.
		return 0, win32.STATUS_INVALID_DEVICE_REQUEST // no reparse points there ([MS-FSCC] 2.3.82)
	}
	switch code {
	// Source: specification, [MS-FSA] 2.1.5.10.14.
	case win32.FSCTL_GET_REPARSE_POINT:
		if err := f.check(0); err != nil {
			return 0, err
		}
		return f.getReparse(out)
	// Source: specification, [MS-FSA] 2.1.5.10.37 and 2.1.5.10.3.
	case win32.FSCTL_SET_REPARSE_POINT, win32.FSCTL_DELETE_REPARSE_POINT:
		if err := f.check(kernel.FileWriteData | win32.FILE_WRITE_ATTRIBUTES); err != nil {
			return 0, err
		}
		if len(out) != 0 {
			return 0, win32.STATUS_INVALID_PARAMETER // Source: specification, [MS-FSCC] 2.3.82
		}
		if f.vol.Writable() != nil {
			return 0, win32.STATUS_MEDIA_WRITE_PROTECTED // Source: specification, [MS-FSA] 2.1.5.10.37 and .3
		}
	}
	switch code {
	// Source: specification, [MS-FSA] 2.1.5.10.37; program, Go makes links so.
	case win32.FSCTL_SET_REPARSE_POINT:
		return 0, f.setReparse(t, in)
	// Source: specification, [MS-FSA] 2.1.5.10.3.
	case win32.FSCTL_DELETE_REPARSE_POINT:
		return 0, f.tree.DeleteReparse(f.vol.Changes(t), f.open.Entry(), in)
	}
	// Source: inference, as codes that a file system does not support ([MS-FSCC] 2.3).
	return 0, win32.STATUS_INVALID_DEVICE_REQUEST
}

// getReparse copies what fits into out. If out has space for the header but not
// for all, the error is STATUS_BUFFER_OVERFLOW, and out is full.
func (f *file) getReparse(out []byte) (int, error) {
	b := f.open.Entry().Reparse()
	if b == nil {
		return 0, win32.STATUS_NOT_A_REPARSE_POINT // Source: specification, [MS-FSA] 2.1.5.10.14
	}
	const header = 8
	if len(out) < header {
		return 0, win32.STATUS_BUFFER_TOO_SMALL // Source: specification, [MS-FSA] 2.1.5.10.14
	}
	n := copy(out, b)
	if n < len(b) {
		return n, win32.STATUS_BUFFER_OVERFLOW // Source: specification, [MS-FSA] 2.1.5.10.14
	}
	return n, nil
}

// setReparse does not trust b: both the decoder that the hosts use and filetree's
// own check must accept it.
func (f *file) setReparse(t *kernel.Tx, b []byte) error {
	r, err := win32.DecodeReparse(b)
	if err != nil {
		return win32.STATUS_IO_REPARSE_DATA_INVALID // Source: specification, [MS-FSA] 2.1.5.10.37
	}
	if r.Tag == win32.IO_REPARSE_TAG_SYMLINK && t.Privilege != win32.SE_CREATE_SYMBOLIC_LINK_NAME {
		// FSCTL_SET_REPARSE_POINT's page; Windows printed this number (rubyinstaller2,
		// issue 466). Junctions need no privilege (Go's tests).
		return win32.STATUS_PRIVILEGE_NOT_HELD // Source: Windows, rubyinstaller2 issue 466
	}
	return f.tree.SetReparse(f.vol.Changes(t), f.open.Entry(), b)
}
