package emulated

import (
	"os"
	"syscall"
)

// fsctlSetSparse is FSCTL_SET_SPARSE.
const fsctlSetSparse = 0x900C4

// makeSparse lets f have holes, which NTFS wants to be asked for.
func makeSparse(f *os.File) error {
	var n uint32
	return syscall.DeviceIoControl(syscall.Handle(f.Fd()), fsctlSetSparse, nil, 0, nil, 0, &n, nil)
}

// nextData is the first offset at or after off that may hold something else
// than the zeroes of a hole: off itself, since holes are not asked for here.
func nextData(_ *os.File, off uint64) (uint64, error) { return off, nil }
