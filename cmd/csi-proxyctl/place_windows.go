package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"
)

// examineInstall checks the program, the configuration and the log of a service, and their
// directories.
func examineInstall(service string) []finding {
	const check = "install"
	command, err := serviceCommand(service)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return []finding{{resultNote, check, "there is no service " + service + ", so the rights of its files were not checked", ""}}
	}
	if err != nil {
		return checkFailed(check, err)
	}
	args, err := windows.DecomposeCommandLine(command)
	if err != nil || len(args) == 0 {
		return []finding{{resultProblem, check, "the command line of the service " + service + " cannot be read: " + command, "sc.exe config " + service + " binPath= sets it"}}
	}
	var paths []string
	for _, path := range append([]string{args[0]}, filePlaces(args)...) {
		for _, p := range []string{path, filepath.Dir(path)} {
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	var places []place
	for _, path := range paths {
		sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return checkFailed(check, &fs.PathError{Op: "read the rights of", Path: path, Err: err})
		}
		places = append(places, place{path, sd.String()})
	}
	return examinePlaces(places)
}

// serviceCommand returns the command line of a service. It needs no rights to change it.
func serviceCommand(name string) (string, error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return "", err
	}
	defer windows.CloseServiceHandle(h)
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return "", err
	}
	s, err := windows.OpenService(h, text, windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return "", err
	}
	defer windows.CloseServiceHandle(s)
	buffer := make([]uint64, 1024) // 8 KiB is the most that Windows returns
	config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(s, config, uint32(8*len(buffer)), &needed); err != nil {
		return "", err
	}
	return windows.UTF16PtrToString(config.BinaryPathName), nil
}
