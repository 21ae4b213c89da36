package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

// examineInstall checks the program, the configuration and the log of a service, and their
// directories.
func examineInstall(service string) []finding {
	const check = "install"
	args, err := serviceArgs(service)
	switch {
	case err == nil && args == nil:
		return []finding{{resultNote, check, "there is no service " + service + ", so the rights of its files were not checked", ""}}
	case errors.Is(err, errCommandLine):
		return []finding{{resultProblem, check, "the command line of the service " + service + " cannot be read: " + err.Error(), "sc.exe config " + service + " binPath= sets it"}}
	case err != nil:
		return checkFailed(check, err)
	}
	var paths []string
	dirs := map[string]bool{}
	for _, path := range append([]string{args[0]}, filePlaces(args)...) {
		info, err := os.Stat(path)
		dirs[path], dirs[filepath.Dir(path)] = err == nil && info.IsDir(), true
		for _, p := range []string{path, filepath.Dir(path)} {
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	own := len(paths)
	for _, path := range paths[:own:own] {
		for up := filepath.Dir(path); ; up = filepath.Dir(up) {
			if !slices.Contains(paths, up) {
				paths = append(paths, up)
			}
			if up == filepath.Dir(up) {
				break
			}
		}
	}
	var places []place
	for i, path := range paths {
		sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return checkFailed(check, &fs.PathError{Op: "read the rights of", Path: path, Err: err})
		}
		places = append(places, place{path, sd.String(), dirs[path], i >= own})
	}
	_, c, err := configOf(service)
	if err != nil {
		return checkFailed(check, err)
	}
	return append(examinePlaces(places), examineStart(service, c)...)
}

// errCommandLine is the error of a command line that has no arguments.
var errCommandLine = errors.New("it is not a command line")

// examineWindows checks the version of Windows.
func examineWindows() []finding {
	v := windows.RtlGetVersion()
	return examineBuild(v.MajorVersion, v.MinorVersion, v.BuildNumber)
}

// serviceArgs returns the command line of csi-proxy in a service, and nil if there is no such service.
func serviceArgs(service string) ([]string, error) {
	command, _, err := configOf(service)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	args, err := windows.DecomposeCommandLine(winsvc.InQuotes(command))
	if err != nil || len(args) == 0 {
		return nil, fmt.Errorf("%w: %s", errCommandLine, command)
	}
	if child := winsvc.Child(service, args[0]); child != nil {
		return child, nil
	}
	return args, nil
}

// configOf returns the command line of a service, and how Windows starts it. It needs no rights to change it.
func configOf(name string) (command string, c serviceConfig, err error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return "", c, err
	}
	defer windows.CloseServiceHandle(h)
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return "", c, err
	}
	s, err := windows.OpenService(h, text, windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return "", c, err
	}
	defer windows.CloseServiceHandle(s)
	buffer := make([]uint64, 1024) // 8 KiB is the most that Windows returns
	config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(s, config, uint32(8*len(buffer)), &needed); err != nil {
		return "", c, err
	}
	command, c.automatic = windows.UTF16PtrToString(config.BinaryPathName), config.StartType == windows.SERVICE_AUTO_START
	if windows.QueryServiceConfig2(s, windows.SERVICE_CONFIG_FAILURE_ACTIONS, (*byte)(unsafe.Pointer(&buffer[0])), uint32(8*len(buffer)), &needed) != nil {
		return command, c, nil // nothing is known about failures, such as under Wine
	}
	failure := (*windows.SERVICE_FAILURE_ACTIONS)(unsafe.Pointer(&buffer[0]))
	c.stays = !slices.ContainsFunc(unsafe.Slice(failure.Actions, failure.ActionsCount), func(a windows.SC_ACTION) bool { return a.Type == windows.SC_ACTION_RESTART })
	return command, c, nil
}
