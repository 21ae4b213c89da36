package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// administratorsOnly is the access of the directories: LocalSystem and administrators
// have all rights, there and below, and others none.
const administratorsOnly = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// makeDir makes a directory that only administrators can use, or gives an existing one
// that access. It reports whether it made the directory.
func makeDir(path string) (made bool, err error) {
	sd, err := windows.SecurityDescriptorFromString(administratorsOnly)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return false, err
	}
	// The access is there from the start: nothing can be put into the directory between.
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = sizeofSecurityAttributes
	err = windows.CreateDirectory(name, attributes)
	if err == nil {
		return true, nil
	}
	if info, statErr := os.Lstat(path); statErr != nil || !info.IsDir() {
		return false, fmt.Errorf("make directory %s: %w", path, err)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return false, err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return false, err
	}
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what, owner, nil, dacl, nil); err != nil {
		return false, fmt.Errorf("give only administrators access to %s: %w", path, err)
	}
	return false, nil
}

// copyFile copies a file under a temporary name and renames it, so that the target is
// never half a program.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part := to + ".part"
	out, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// removeFile removes a file, and is content if there is none.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// same reports whether two paths are of one file.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y) || strings.EqualFold(filepath.Clean(a), filepath.Clean(b))
}
