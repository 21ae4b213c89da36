package native

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// https://learn.microsoft.com/windows/win32/api/lmuse/nf-lmuse-netuseadd
//sys	netUseAdd(server *uint16, level uint32, info *useInfo3, parameter *uint32) (status uint32) = netapi32.NetUseAdd

// https://learn.microsoft.com/windows/win32/api/lmuse/nf-lmuse-netuseenum
//sys	netUseEnum(server *uint16, level uint32, buf **useInfo2, preferred uint32, read *uint32, total *uint32, resume *uint32) (status uint32) = netapi32.NetUseEnum

// https://learn.microsoft.com/windows/win32/api/lmuse/nf-lmuse-netusedel
//sys	netUseDel(server *uint16, name *uint16, force uint32) (status uint32) = netapi32.NetUseDel

// netUse implements the global mappings with the flat functions of netapi32.dll.
type netUse struct{}

// Flags of USE_INFO_3 for a global mapping, and the parameter that NetUseAdd reports if it does
// not know them (lmuse.h).
const (
	createPersistMapping = 0x20 // outlives a restart of Windows, as those of WMI do by default
	createGlobalMapping  = 0x100
	useFlagsParameter    = 7 // USE_FLAGS_PARMNUM
)

// netStatus returns the error of a NetUse function's result.
func netStatus(status uint32) error {
	if status == 0 {
		return nil
	}
	return win32.Errno(status)
}

// UseAdd is NetUseAdd at level 3 with USE_FLAG_GLOBAL_MAPPING, for a mapping that
// is global and persistent by its flags, too.
//
// The flags are in Microsoft's lmuse.h, but on none of its pages. If Windows does
// not know them, UseAdd returns [backend.ErrUnavailable]. Otherwise it checks
// the new mapping: if the global list lacks it, or the list of this logon session
// has it, Windows made it for this session only. UseAdd then removes it and
// returns the same error.
func (n netUse) UseAdd(u win32.NewUse) error {
	info := &useInfo3{flags: u.Flags | createGlobalMapping | createPersistMapping}
	var err error
	if info.remote, err = wide(u.Remote); err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(info.remote)
	if u.User != "" {
		text := u.Password.Reveal()
		if strings.ContainsRune(text, 0) {
			return win32.ERROR_INVALID_PARAMETER
		}
		password := append(win32.UTF16(text), 0)
		defer clear(password)
		info.password = unsafe.SliceData(password)
		if info.user, err = wide(u.User); err != nil {
			return err
		}
		if info.domain, err = wide(u.Domain); err != nil {
			return err
		}
		pin.Pin(info.password)
		pin.Pin(info.user)
		pin.Pin(info.domain)
	}
	pin.Pin(info)
	if _, err := n.UseEnum(); err != nil {
		return err
	}
	var parameter uint32
	if err := netStatus(netUseAdd(nil, 3|win32.USE_FLAG_GLOBAL_MAPPING, info, &parameter)); err != nil {
		if win32.IsCode(err, win32.ERROR_INVALID_PARAMETER) && parameter == useFlagsParameter {
			return fmt.Errorf("NetUseAdd does not know the flags of a persistent global mapping (%w): %w", err, backend.ErrUnavailable)
		}
		return err
	}
	global, err := n.UseEnum()
	var own []win32.Use
	if err == nil {
		own, err = useEnum(0)
	}
	if err != nil {
		// The kind of the new mapping is unknown, so remove it.
		if undo := n.UseDel(u.Remote); undo != nil {
			return fmt.Errorf("%w; the mapping that NetUseAdd made cannot be removed: %v", err, undo)
		}
		return err
	}
	if mapped(global, u.Remote) && !mapped(own, u.Remote) {
		return nil
	}
	ignored := fmt.Errorf("NetUseAdd mapped the share for one logon session only: %w", backend.ErrUnavailable)
	if err := netStatus(netUseDel(nil, info.remote, win32.USE_LOTS_OF_FORCE)); err != nil {
		return fmt.Errorf("%w; the mapping cannot be removed: %v", ignored, err)
	}
	return ignored
}

// mapped reports whether a share is among uses.
func mapped(uses []win32.Use, remote string) bool {
	for _, u := range uses {
		if winpath.SameShare(u.Remote, remote) {
			return true
		}
	}
	return false
}

// UseEnum is NetUseEnum at level 2 with USE_FLAG_GLOBAL_MAPPING. It returns
// [backend.ErrUnavailable] if Windows does not support the flag; nothing else in
// the call can be invalid.
func (netUse) UseEnum() ([]win32.Use, error) {
	uses, err := useEnum(win32.USE_FLAG_GLOBAL_MAPPING)
	if win32.IsCode(err, win32.ERROR_INVALID_LEVEL, win32.ERROR_INVALID_PARAMETER, win32.ERROR_NOT_SUPPORTED, win32.ERROR_CALL_NOT_IMPLEMENTED) {
		return nil, fmt.Errorf("NetUseEnum does not support global mappings (%w): %w", err, backend.ErrUnavailable)
	}
	return uses, err
}

func useEnum(flag uint32) ([]win32.Use, error) {
	var uses []win32.Use
	var resume uint32
	for {
		more, err := useEnumPart(flag, &resume, &uses)
		if err != nil || !more {
			return uses, err
		}
	}
}

// useEnumPart appends the result of one call. It frees the buffer after every
// result, because ERROR_MORE_DATA comes with one too.
func useEnumPart(flag uint32, resume *uint32, uses *[]win32.Use) (more bool, err error) {
	const whole = 0xFFFFFFFF // MAX_PREFERRED_LENGTH
	// UseAdd and UseDel list the mappings first.
	if err := errors.Join(found(procNetUseEnum), found(procNetUseAdd), found(procNetUseDel)); err != nil {
		return false, err
	}
	var buf *useInfo2
	var read, total uint32
	status := netUseEnum(nil, 2|flag, &buf, whole, &read, &total, resume)
	if buf != nil {
		defer windows.NetApiBufferFree((*byte)(unsafe.Pointer(buf)))
	}
	more = win32.Errno(status) == win32.ERROR_MORE_DATA
	if err := netStatus(status); err != nil && !more {
		return false, err
	}
	if buf == nil || read == 0 {
		return false, nil
	}
	for _, u := range unsafe.Slice(buf, read) {
		*uses = append(*uses, win32.Use{
			Remote: windows.UTF16PtrToString(u.remote), Local: windows.UTF16PtrToString(u.local), User: windows.UTF16PtrToString(u.user),
			Domain: windows.UTF16PtrToString(u.domain), Status: u.status, FlagsUnknown: true, // USE_INFO_2 has none
		})
	}
	return more, nil
}

// UseDel is NetUseDel with USE_FLAG_GLOBAL_MAPPING.
func (n netUse) UseDel(remote string) error {
	name, err := wide(remote)
	if err != nil {
		return err
	}
	if _, err := n.UseEnum(); err != nil {
		return err
	}
	return netStatus(netUseDel(nil, name, win32.USE_LOTS_OF_FORCE|win32.USE_FLAG_GLOBAL_MAPPING))
}
