package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// dirAccess is the access to a directory that the daemon makes: for LocalSystem,
// administrators and the account that makes it (OW, OWNER RIGHTS). By what a directory
// inherits from the root of a volume, all users could put files into it.
const dirAccess = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;OW)"

// makeDirs makes a directory, and those above it, unless they exist.
func makeDirs(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "make directory", Path: dir, Err: windows.ERROR_DIRECTORY}
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if up := filepath.Dir(dir); up != dir {
		if err := makeDirs(up); err != nil {
			return err
		}
	}
	sd, err := windows.SecurityDescriptorFromString(dirAccess)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	if err := windows.CreateDirectory(name, attributes); err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "make directory", Path: dir, Err: err}
	}
	return nil
}
