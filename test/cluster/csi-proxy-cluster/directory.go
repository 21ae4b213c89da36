package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// directory returns the directory of the cluster's files.
func directory() string {
	if dir := os.Getenv("CSI_PROXY_CLUSTER_DIR"); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			return abs
		}
		return dir
	}
	return filepath.Join(os.TempDir(), "csi-proxy-cluster-"+strconv.Itoa(os.Getuid()))
}

func control() string { return filepath.Join(directory(), "control.sock") }
func logFile() string { return filepath.Join(directory(), "log") }

// marker returns the file that distinguishes a cluster's directory from any other.
func marker() string { return filepath.Join(directory(), "csi-proxy-cluster") }

// makeDirectory makes the cluster's directory, in place of one of a cluster that was killed.
func makeDirectory() error {
	dir := directory()
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err = checkDirectory(); err != nil {
			return err
		}
		if err = removeDirectory(); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(marker(), []byte("csi-proxy-cluster uses this directory.\n"), 0o600)
}

// checkDirectory returns an error if another user could have made the cluster's directory or
// can change it: its name is predictable, in a directory in which all users may write.
func checkDirectory() error {
	dir := directory()
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory that only you may use; set CSI_PROXY_CLUSTER_DIR to a new one", dir)
	}
	return nil
}

// removeDirectory removes the cluster's files. It refuses a directory of anything else.
func removeDirectory() error {
	if _, err := os.Lstat(marker()); err != nil {
		return fmt.Errorf("%s has files that are not a cluster's; set CSI_PROXY_CLUSTER_DIR to a new directory", directory())
	}
	return os.RemoveAll(directory())
}
