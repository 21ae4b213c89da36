package native

import (
	"math"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// https://learn.microsoft.com/windows-hardware/drivers/ddi/ntifs/nf-ntifs-ntquerydirectoryfile
//sys	ntQueryDirectoryFile(dir windows.Handle, event windows.Handle, apc uintptr, apcContext uintptr, status *windows.IO_STATUS_BLOCK, buf *byte, size uint32, class uint32, single bool, pattern *windows.NTUnicodeString, restart bool) (ntstatus error) = ntdll.NtQueryDirectoryFile?

// NtCreateFile is NtCreateFile without extended attributes or an allocation size.
// https://learn.microsoft.com/windows/win32/api/winternl/nf-winternl-ntcreatefile
func (a *API) NtCreateFile(root win32.Handle, name string, access, objAttr, share, disposition, options uint32) (win32.Handle, error) {
	if options&win32.FILE_SYNCHRONOUS_IO_NONALERT == 0 {
		return 0, win32.STATUS_INVALID_PARAMETER
	}
	if strings.ContainsRune(name, 0) {
		return 0, win32.STATUS_OBJECT_NAME_INVALID
	}
	u := win32.UTF16(name)
	if len(u) > math.MaxUint16/2 {
		return 0, win32.STATUS_NAME_TOO_LONG
	}
	oa := &windows.OBJECT_ATTRIBUTES{
		Length:        uint32(unsafe.Sizeof(windows.OBJECT_ATTRIBUTES{})),
		RootDirectory: windows.Handle(root),
		ObjectName: &windows.NTUnicodeString{
			Length:        uint16(2 * len(u)),
			MaximumLength: uint16(2 * len(u)),
			Buffer:        unsafe.SliceData(u),
		},
		Attributes: objAttr,
	}
	var h windows.Handle
	var status windows.IO_STATUS_BLOCK
	err := windows.NtCreateFile(&h, access, oa, &status, nil, win32.FILE_ATTRIBUTE_NORMAL, share, disposition, options, 0, 0)
	if err := errorOf(err); err != nil {
		return 0, err
	}
	return win32.Handle(h), nil
}

// QueryDirectory is NtQueryDirectoryFile for FileFullDirectoryInformation, for
// all names, with as many entries as fit.
func (a *API) QueryDirectory(h win32.Handle, restart bool, buf []byte) (int, error) {
	p, size, err := buffer(buf)
	if err != nil {
		return 0, err
	}
	var status windows.IO_STATUS_BLOCK
	err = ntQueryDirectoryFile(windows.Handle(h), 0, 0, 0, &status, p, size, win32.FileFullDirectoryInformation, false, nil, restart)
	return used(&status, buf), errorOf(err)
}

// QueryInformation is NtQueryInformationFile.
// https://learn.microsoft.com/windows-hardware/drivers/ddi/ntifs/nf-ntifs-ntqueryinformationfile
func (a *API) QueryInformation(h win32.Handle, class uint32, buf []byte) (int, error) {
	p, size, err := buffer(buf)
	if err != nil {
		return 0, err
	}
	var status windows.IO_STATUS_BLOCK
	err = windows.NtQueryInformationFile(windows.Handle(h), &status, p, size, class)
	return used(&status, buf), errorOf(err)
}

// used returns how many bytes of buf were filled.
func used(status *windows.IO_STATUS_BLOCK, buf []byte) int {
	return int(min(status.Information, uintptr(len(buf))))
}

// SetInformation is NtSetInformationFile.
// https://learn.microsoft.com/windows-hardware/drivers/ddi/ntifs/nf-ntifs-ntsetinformationfile
func (a *API) SetInformation(h win32.Handle, class uint32, in []byte) error {
	p, size, err := buffer(in)
	if err != nil {
		return err
	}
	var status windows.IO_STATUS_BLOCK
	return errorOf(windows.NtSetInformationFile(windows.Handle(h), &status, p, size, class))
}

// https://learn.microsoft.com/windows-hardware/drivers/ddi/ntifs/nf-ntifs-ntquerysecurityobject
//sys	ntQuerySecurityObject(h windows.Handle, info uint32, descriptor *byte, size uint32, needed *uint32) (ntstatus error) = ntdll.NtQuerySecurityObject?

// QuerySecurity is NtQuerySecurityObject.
func (a *API) QuerySecurity(h win32.Handle, buf []byte) (int, error) {
	p, size, err := buffer(buf)
	if err != nil {
		return 0, err
	}
	var needed uint32
	if err := ntQuerySecurityObject(windows.Handle(h), win32.DACL_SECURITY_INFORMATION, p, size, &needed); err != nil {
		return 0, errorOf(err)
	}
	return min(int(needed), len(buf)), nil
}

// https://learn.microsoft.com/windows-hardware/drivers/ddi/ntifs/nf-ntifs-ntsetsecurityobject
//sys	ntSetSecurityObject(h windows.Handle, info uint32, descriptor *byte) (ntstatus error) = ntdll.NtSetSecurityObject?

// SetSecurity is NtSetSecurityObject. Windows reads as much as the descriptor says itself, so
// it is checked first.
func (a *API) SetSecurity(h win32.Handle, descriptor []byte) error {
	if _, err := win32.DecodeDACL(descriptor); err != nil {
		return win32.STATUS_INVALID_SECURITY_DESCR
	}
	return errorOf(ntSetSecurityObject(windows.Handle(h), win32.DACL_SECURITY_INFORMATION, unsafe.SliceData(descriptor)))
}

// FinalPath is GetFinalPathNameByHandleW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getfinalpathnamebyhandlew
func (a *API) FinalPath(h win32.Handle, flags uint32) (string, error) {
	u, err := grow(windows.MAX_PATH, func(u []uint16) (int, bool, error) {
		n, err := windows.GetFinalPathNameByHandle(windows.Handle(h), &u[0], uint32(len(u)), flags)
		return int(n), err == nil && int(n) >= len(u), err
	})
	if err != nil {
		return "", err
	}
	return terminated(u), nil
}

// Attributes is GetFileAttributesW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getfileattributesw
func (a *API) Attributes(path string) (uint32, error) {
	name, err := wide(path)
	if err != nil {
		return 0, err
	}
	attrs, err := windows.GetFileAttributes(name)
	if err != nil {
		return 0, errorOf(err)
	}
	return attrs, nil
}
