package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/admindir"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

// administratorsOnlyFile is the same for a file.
const administratorsOnlyFile = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)"

// partial is the suffix of a file that is being copied.
const partial = ".part"

// What an upgrade appends to the names of the old and the new program.
const (
	oldSuffix = ".old"
	newSuffix = ".new"
)

// leftovers are the files that an upgrade leaves beside the program if it is cut off.
func leftovers(program string) []string {
	return []string{program + oldSuffix, program + newSuffix, program + newSuffix + partial}
}

// place fails unless install may have a directory for itself: others lose their access to
// what is in it. It may have only what an installation leaves, the files of a release, which
// someone has put there to install it, and the configuration file of the service, if there
// is one. Nor may others be able to change it, or to put another one in its place.
func place(dir, config string) error {
	if clean := filepath.Clean(dir); filepath.Dir(clean) == clean {
		return fmt.Errorf(`%s is the root of a volume, to which only administrators would have access: give a directory of its own, such as %[1]scsi-proxy`, dir)
	}
	if err := admindir.Check(dir, sddl.Changes); err != nil {
		return err
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		root, rights := up == filepath.Dir(up), uint32(sddl.Replaces)
		if root {
			rights = sddl.ReplacesInRoot
		}
		if err := admindir.Check(up, rights); err != nil {
			return fmt.Errorf("directory %s cannot be protected: %w", dir, err)
		}
		if root {
			break
		}
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	other := ""
	for _, e := range entries {
		switch name := strings.ToLower(e.Name()); name {
		case logDir, programFile, toolFile, programFile + partial, toolFile + partial, "csi-proxy-verify.exe", "license", "licenses", "sbom.cdx.json":
		default:
			if !slices.Contains(leftovers(programFile), name) && !same(filepath.Join(dir, name), config) {
				other = e.Name()
			}
		}
	}
	if other != "" {
		return fmt.Errorf("directory %s has other files (%s), to which only administrators would have access: give a new or empty directory with -dir", dir, other)
	}
	return nil
}

// missingDirs returns the directories on the way to dir that do not exist, the topmost first.
func missingDirs(dir string) []string {
	var missing []string
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		if _, err := os.Lstat(up); err == nil || up == filepath.Dir(up) {
			slices.Reverse(missing)
			return missing
		}
		missing = append(missing, up)
	}
}

// secureFile gives only administrators access to a file that someone has put there.
func secureFile(path string) error {
	sd, err := windows.SecurityDescriptorFromString(administratorsOnlyFile)
	if err != nil {
		return err
	}
	return admindir.SetAccess(path, sd)
}

// copyFile copies a file under a temporary name and renames it, so that the target is
// never half a program. The file is a new one, with the access of its directory, whatever
// someone has put there under these names.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part := to + partial
	if err := removeFile(part); err != nil {
		return err
	}
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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

// equal reports whether two files have the same content.
func equal(a, b string) bool {
	x, errX := os.ReadFile(a)
	y, errY := os.ReadFile(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
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
