package native

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/fmifs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/wmi"
)

// API calls the Windows that the program runs on. It is safe for concurrent use.
type API struct {
	formats *backend.Choice[formatter]
	direct  fmifs.Helper
	storage *wmi.Client // of StorageNamespace; what it lacks does not make formats use another backend
	uses    *backend.Choice[win32.SMB]
}

var _ win32.API = (*API)(nil)

// formatter is a backend of Format.
type formatter interface {
	Format(vol string, o win32.FormatOptions) error
	UpdateCache() error
}

// New returns the API of this Windows. It starts nothing before the first call.
func New(o Options) win32.API {
	o = o.defaults()
	direct, storage := fmifs.Helper{Executable: o.FormatHelper}, wmi.New(wmi.StorageNamespace)
	return &API{
		direct: direct, storage: storage,
		formats: backend.Choose("formatting", o.Log, o.Format,
			backend.Option[formatter]{Name: backend.WMI, Use: storage},
			backend.Option[formatter]{Name: backend.Native, Use: direct}),
		uses: backend.Choose("SMB mappings", o.Log, o.SMB,
			backend.Option[win32.SMB]{Name: backend.WMI, Use: wmi.New(wmi.SMBNamespace)},
			backend.Option[win32.SMB]{Name: backend.Native, Use: netUse{}}),
	}
}

// errorOf converts err to the numbers of package win32. A status that is not a
// failure (NT_SUCCESS) becomes nil.
func errorOf(err error) error {
	switch err := err.(type) {
	case nil:
		return nil
	case syscall.Errno:
		if err>>29 == syscall.APPLICATION_ERROR>>29 {
			// The function failed without setting a number. x/sys then returns an
			// EINVAL of its own.
			return win32.ERROR_GEN_FAILURE
		}
		return win32.Errno(err)
	case windows.NTStatus:
		if err < 0x80000000 {
			return nil
		}
		return win32.NTStatus(err)
	}
	return fmt.Errorf("%w: %v", win32.ERROR_GEN_FAILURE, err)
}

// is reports whether err, from x/sys, is one of codes.
func is(err error, codes ...syscall.Errno) bool {
	for _, c := range codes {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// wide returns s as a NUL-terminated string for a kernel32 function.
func wide(s string) (*uint16, error) {
	if strings.ContainsRune(s, 0) {
		return nil, win32.ERROR_INVALID_NAME
	}
	return unsafe.SliceData(append(win32.UTF16(s), 0)), nil
}

// buffer returns p in the form that Windows takes. An empty p is a nil pointer.
func buffer(p []byte) (*byte, uint32, error) {
	if len(p) == 0 {
		return nil, 0, nil
	}
	if uint64(len(p)) > math.MaxUint32 {
		return nil, 0, win32.ERROR_INVALID_PARAMETER
	}
	return unsafe.SliceData(p), uint32(len(p)), nil
}

// maxString is the length of Windows' longest string, in units, including the
// NUL.
const maxString = 32768

// grow calls get with longer and longer buffers until it succeeds or fails with
// an error other than "too short". get returns how many units it needs (0 if
// unknown) and whether the buffer was too short.
func grow(first int, get func(u []uint16) (want int, short bool, err error)) ([]uint16, error) {
	u := make([]uint16, first)
	for {
		want, short, err := get(u)
		if !short {
			return u, errorOf(err)
		}
		if len(u) >= maxString && want <= len(u) {
			return nil, errorOf(err)
		}
		u = make([]uint16, max(want, 2*len(u)))
	}
}

// defaults returns o with defaults for the empty fields.
func (o Options) defaults() Options {
	o.Format, o.SMB = cmp.Or(o.Format, backend.WMI), cmp.Or(o.SMB, backend.WMI)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
