package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

// examineInstall checks the program, the configuration and the log of a service, and their
// directories.
func examineInstall(service winsvc.Installed) []finding {
	const check = "install"
	if service.Program == "" {
		return []finding{{resultNote, check, "there is no service " + service.Name + ", so the rights of its files were not checked", ""}}
	}
	var paths []string
	dirs := map[string]bool{}
	for _, path := range append([]string{service.Program}, filePlaces(service.Args)...) {
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
	return append(examinePlaces(places), examineStart(service)...)
}

// examineWindows checks the version of Windows.
func examineWindows() []finding {
	v := windows.RtlGetVersion()
	return examineBuild(v.MajorVersion, v.MinorVersion, v.BuildNumber)
}
