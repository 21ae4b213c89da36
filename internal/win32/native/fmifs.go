package native

import (
	"encoding/binary"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// formatParam is the parameter block of fmifs.dll's FormatEx2, version 2.0.
type formatParam struct {
	major, minor uint8
	flags        uint32
	label        *uint16
	clusterSize  uint32 // bytes; 0 lets fmifs choose
	udfVersion   uint16
	context      uintptr
	passes       uint32
	logFileSize  uint32
}

// formatEvents makes one answer out of what FormatEx2 tells its callback, which
// is the only way it tells anything. Event numbers are those of winfile's
// fmifs.h; those after text (14) are known from other open sources only.
type formatEvents struct {
	finished, success bool
	failure           error // the first one heard of
}

// add hears one event; data is its packet, which may be shorter than expected.
func (f *formatEvents) add(event uint32, data []byte) {
	const (
		incompatibleFileSystem = 3
		incompatibleMedia      = 5
		accessDenied           = 6
		writeProtected         = 7
		cannotLock             = 8
		cannotQuickFormat      = 9
		ioError                = 10
		finished               = 11
		badLabel               = 12
		clusterTooSmall        = 16
		clusterTooBig          = 17
		volumeTooSmall         = 18
		volumeTooBig           = 19
		volumeOffline          = 24
		clusterCount           = 35
		clusterBelowSector     = 36
		notClusterAligned      = 37
	)
	switch event {
	case incompatibleFileSystem, incompatibleMedia, cannotQuickFormat:
		f.fail(event, win32.ERROR_NOT_SUPPORTED)
	case accessDenied:
		f.fail(event, win32.ERROR_ACCESS_DENIED)
	case writeProtected:
		f.fail(event, win32.ERROR_WRITE_PROTECT)
	case cannotLock:
		f.fail(event, win32.ERROR_SHARING_VIOLATION)
	case ioError:
		f.fail(event, win32.ERROR_IO_DEVICE)
	case badLabel:
		f.fail(event, win32.ERROR_INVALID_NAME)
	case clusterTooSmall, clusterTooBig, volumeTooSmall, volumeTooBig, clusterCount, clusterBelowSector, notClusterAligned:
		f.fail(event, win32.ERROR_INVALID_PARAMETER)
	case volumeOffline:
		f.fail(event, win32.ERROR_NOT_READY)
	case finished:
		// Success, a BOOLEAN at 0; from FormatEx2 also FinalResult, 32 bits at 4.
		f.finished = true
		f.success = len(data) > 0 && data[0] != 0
		if f.success {
			return
		}
		if len(data) >= 8 {
			if result := binary.LittleEndian.Uint32(data[4:]); result != 0 {
				f.fail(event, formatResult(result))
				return
			}
		}
		f.fail(event, win32.ERROR_GEN_FAILURE)
	}
}

func (f *formatEvents) fail(event uint32, err error) {
	if f.failure == nil {
		f.failure = fmt.Errorf("fmifs.dll FormatEx2, event %d: %w", event, err)
	}
}

// formatResult reads FinalResult. No page says which kind of number it is, so
// an HRESULT made of a Win32 number and an NTSTATUS are told by their high bits.
func formatResult(result uint32) error {
	switch {
	case result>>16 == 0x8007:
		return win32.Errno(result & 0xFFFF)
	case result>>30 == 3:
		return win32.NTStatus(result)
	}
	return win32.Errno(result)
}

// result is nil only if the format said that it finished, and well.
func (f *formatEvents) result() error {
	switch {
	case f.finished && f.success:
		return nil
	case f.failure != nil:
		return f.failure
	}
	return fmt.Errorf("fmifs.dll FormatEx2 returned and had not finished: %w", win32.ERROR_GEN_FAILURE)
}
