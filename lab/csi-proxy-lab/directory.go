package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// directory returns the directory of the lab's files.
func directory() string {
	if dir := os.Getenv("CSI_PROXY_LAB_DIR"); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			return abs // up prints it, for any current directory
		}
		return dir
	}
	return filepath.Join(os.TempDir(), "csi-proxy-lab-"+strconv.Itoa(os.Getuid()))
}

// pipes returns the directory of CSI Proxy's sockets.
func pipes() string   { return filepath.Join(directory(), "pipes") }
func control() string { return filepath.Join(directory(), "control.sock") }
func logFile() string { return filepath.Join(directory(), "log") }

// reportFile returns the file with csi-sanity's own report of the last run.
func reportFile() string { return filepath.Join(directory(), "csi-sanity.txt") }

// marker returns the file that distinguishes a lab's directory from any other.
func marker() string { return filepath.Join(directory(), "csi-proxy-lab") }

// makeDirectory makes the lab's directory. One that exists is accepted if it is empty or
// has the files of a lab that was killed, which are removed.
func makeDirectory() error {
	dir := directory()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := checkDirectory(); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(marker()); err == nil {
		if err := removeFiles(); err != nil {
			return err
		}
	} else if len(entries) > 0 {
		return fmt.Errorf("%s has files that are not a lab's, such as %s; set CSI_PROXY_LAB_DIR to a new directory", dir, entries[0].Name())
	}
	return os.WriteFile(marker(), []byte("csi-proxy-lab uses this directory.\n"), 0o600)
}

// checkDirectory returns an error if another user could have made the lab's directory or
// can change it: its name is predictable, in a directory in which all users may write.
func checkDirectory() error {
	dir := directory()
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	const remedy = "set CSI_PROXY_LAB_DIR to a new directory"
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link; %s", dir, remedy)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory; %s", dir, remedy)
	case owner(info) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d; %s", dir, owner(info), remedy)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users may use %s, its mode is %v; change it with chmod 700, or %s", dir, info.Mode().Perm(), remedy)
	}
	return nil
}

// removeFiles removes the lab's files.
func removeFiles() error {
	var errs []error
	for _, file := range []string{control(), logFile(), reportFile(), marker()} {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(pipes()))...)
}

// removeDirectory removes the lab's files, and then the directory unless it has others.
func removeDirectory() error {
	if err := removeFiles(); err != nil {
		return err
	}
	if entries, err := os.ReadDir(directory()); err == nil && len(entries) > 0 {
		return nil
	}
	return os.Remove(directory())
}
