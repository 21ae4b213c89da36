package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
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

// makeDirectory makes the cluster's directory, in place of one of a cluster that was killed. It
// returns the marker, which is locked as long as this file or one that a process inherits is open.
func makeDirectory() (*os.File, error) {
	dir := directory()
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err = checkDirectory(); err != nil {
			return nil, err
		}
		if err = removeDirectory(); err != nil {
			return nil, err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(marker(), []byte("csi-proxy-cluster uses this directory.\n"), 0o600); err != nil {
		return nil, err
	}
	return lockDirectory()
}

// errBusy is the error for the directory of a cluster that has programs.
var errBusy = errors.New("a cluster is starting or ending there, or a program of it still runs")

// lockDirectory opens and locks the marker. Every program of a cluster inherits it, so that the
// files stay as long as one of them runs.
func lockDirectory() (*os.File, error) {
	f, err := os.Open(marker())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has files that are not a cluster's; set CSI_PROXY_CLUSTER_DIR to a new directory", directory())
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w (%w); its log is %s", directory(), errBusy, err, logFile()), f.Close())
	}
	return f, nil
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

// removeDirectory removes the cluster's files. It refuses a directory of anything else, and one
// of a cluster that has programs.
func removeDirectory() error {
	lock, err := lockDirectory()
	if err != nil {
		return err
	}
	defer lock.Close()
	return os.RemoveAll(directory())
}

// removeWhenFree is removeDirectory for a cluster whose programs are ending.
func removeWhenFree(limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if err := removeDirectory(); !errors.Is(err, errBusy) || time.Now().After(end) {
			return err
		}
	}
}
