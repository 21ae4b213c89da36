package native

import (
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// CreateFile is CreateFileW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-createfilew
func (a *API) CreateFile(path string, access, share, disposition, flags uint32) (win32.Handle, error) {
	if flags&windows.FILE_FLAG_OVERLAPPED != 0 {
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	name, err := wide(path)
	if err != nil {
		return 0, err
	}
	h, err := windows.CreateFile(name, access, share, nil, disposition, flags, 0)
	if err != nil {
		return 0, errorOf(err)
	}
	return win32.Handle(h), nil
}

// CloseHandle is CloseHandle.
// https://learn.microsoft.com/windows/win32/api/handleapi/nf-handleapi-closehandle
func (a *API) CloseHandle(h win32.Handle) error {
	return errorOf(windows.CloseHandle(windows.Handle(h)))
}

// DeviceIoControl is DeviceIoControl.
// https://learn.microsoft.com/windows/win32/api/ioapiset/nf-ioapiset-deviceiocontrol
func (a *API) DeviceIoControl(h win32.Handle, code uint32, in, out []byte) (int, error) {
	inPtr, inLen, err := buffer(in)
	if err != nil {
		return 0, err
	}
	outPtr, outLen, err := buffer(out)
	if err != nil {
		return 0, err
	}
	var n uint32
	err = windows.DeviceIoControl(windows.Handle(h), code, inPtr, inLen, outPtr, outLen, &n, nil)
	return int(min(n, outLen)), errorOf(err)
}

// ReadAt is ReadFile with an offset. At the end of a file it returns
// ERROR_HANDLE_EOF.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-readfile
func (a *API) ReadAt(h win32.Handle, p []byte, off int64) (int, error) {
	at, err := offset(p, off)
	if err != nil {
		return 0, err
	}
	var n uint32
	err = windows.ReadFile(windows.Handle(h), p, &n, at)
	return int(n), errorOf(err)
}

// WriteAt is WriteFile with an offset.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-writefile
func (a *API) WriteAt(h win32.Handle, p []byte, off int64) (int, error) {
	at, err := offset(p, off)
	if err != nil {
		return 0, err
	}
	var n uint32
	err = windows.WriteFile(windows.Handle(h), p, &n, at)
	return int(n), errorOf(err)
}

// offset returns the position for reading or writing p, which is all that an
// OVERLAPPED holds for a synchronous handle. Windows reads the offset -1 as
// "append", so negative offsets are refused.
func offset(p []byte, off int64) (*windows.Overlapped, error) {
	if _, _, err := buffer(p); err != nil {
		return nil, err
	}
	if off < 0 {
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}, nil
}

// FlushFileBuffers is FlushFileBuffers.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-flushfilebuffers
func (a *API) FlushFileBuffers(h win32.Handle) error {
	return errorOf(windows.FlushFileBuffers(windows.Handle(h)))
}
