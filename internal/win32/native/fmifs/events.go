package fmifs

import (
	"encoding/binary"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// events derives one result from the events that FormatEx passes to its
// callback, which are its only result. Event numbers are those of winfile's
// fmifs.h; those after text (14) are known from other open sources only.
type events struct {
	finished, success bool
	failure           error // the first one
}

// add processes one event. data is its packet, which may be shorter than
// expected.
func (e *events) add(event uint32, data []byte) {
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
		e.fail(event, win32.ERROR_NOT_SUPPORTED)
	case accessDenied:
		e.fail(event, win32.ERROR_ACCESS_DENIED)
	case writeProtected:
		e.fail(event, win32.ERROR_WRITE_PROTECT)
	case cannotLock:
		e.fail(event, win32.ERROR_SHARING_VIOLATION)
	case ioError:
		e.fail(event, win32.ERROR_IO_DEVICE)
	case badLabel:
		e.fail(event, win32.ERROR_INVALID_NAME)
	case clusterTooSmall, clusterTooBig, volumeTooSmall, volumeTooBig, clusterCount, clusterBelowSector, notClusterAligned:
		e.fail(event, win32.ERROR_INVALID_PARAMETER)
	case volumeOffline:
		e.fail(event, win32.ERROR_NOT_READY)
	case finished:
		// Success, a BOOLEAN at 0; a later Windows may add FinalResult, 32 bits at 4.
		e.finished = true
		e.success = len(data) > 0 && data[0] != 0
		if e.success {
			return
		}
		if len(data) >= 8 {
			if result := binary.LittleEndian.Uint32(data[4:]); result != 0 {
				e.fail(event, resultError(result))
				return
			}
		}
		e.fail(event, win32.ERROR_GEN_FAILURE)
	}
}

func (e *events) fail(event uint32, err error) {
	if e.failure == nil {
		e.failure = fmt.Errorf("fmifs.dll FormatEx, event %d: %w", event, err)
	}
}

// resultError converts FinalResult. The kind of number is undocumented. The high
// bits distinguish an HRESULT of a Win32 number and an NTSTATUS.
func resultError(result uint32) error {
	switch {
	case result>>16 == 0x8007:
		return win32.Errno(result & 0xFFFF)
	case result>>30 == 3:
		return win32.NTStatus(result)
	}
	return win32.Errno(result)
}

// result returns nil only if an event reported success.
func (e *events) result() error {
	switch {
	case e.finished && e.success:
		return nil
	case e.failure != nil:
		return e.failure
	}
	return fmt.Errorf("fmifs.dll FormatEx returned before it reported the end of the format: %w", win32.ERROR_GEN_FAILURE)
}
