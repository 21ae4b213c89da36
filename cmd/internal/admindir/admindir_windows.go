package admindir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

// Access is the access of the directories: LocalSystem and administrators
// have all rights, there and below, and others none.
const Access = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// Check fails if an account other than LocalSystem, administrators and TrustedInstaller owns
// a directory or has one of the rights to it. One that does not exist is closed.
func Check(dir string, rights uint32) error {
	sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read who may change directory %s: %w", dir, err)
	}
	const remedy = "remove it, or give a new directory in one that only administrators may change, such as \"%ProgramFiles%\\csi-proxy\""
	if owner := sddl.Owner(sd.String()); owner != "" {
		return fmt.Errorf("directory %s is owned by %s, who may change what is in it: %s", dir, owner, remedy)
	}
	if who := sddl.Others(sd.String(), rights); len(who) > 0 {
		return fmt.Errorf("directory %s may be changed by %s: %s", dir, strings.Join(who, ", "), remedy)
	}
	return nil
}

// Make makes a directory that only administrators can use, or gives an existing one that
// access, if others may not change it: what they have there would stay. It reports whether it
// made the directory.
func Make(path string) (made bool, err error) {
	sd, err := windows.SecurityDescriptorFromString(Access)
	if err != nil {
		return false, err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return false, err
	}
	// The access is there from the start: nothing can be put into the directory between.
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	err = windows.CreateDirectory(name, attributes)
	if err == nil {
		return true, nil
	}
	if info, statErr := os.Lstat(path); statErr != nil || !info.IsDir() {
		return false, fmt.Errorf("make directory %s: %w", path, err)
	}
	if err := Check(path, sddl.Changes); err != nil {
		return false, err
	}
	return false, SetAccess(path, sd)
}

// SetAccess gives an existing file or directory the owner and the access of sd.
func SetAccess(path string, sd *windows.SECURITY_DESCRIPTOR) error {
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what, owner, nil, dacl, nil); err != nil {
		return fmt.Errorf("give only administrators access to %s: %w", path, err)
	}
	return nil
}
