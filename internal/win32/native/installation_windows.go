package native

import "golang.org/x/sys/windows"

// WindowsDirectory is GetSystemWindowsDirectoryW.
// https://learn.microsoft.com/windows/win32/api/sysinfoapi/nf-sysinfoapi-getsystemwindowsdirectoryw
func (a *API) WindowsDirectory() (string, error) {
	dir, err := windows.GetSystemWindowsDirectory()
	return dir, errorOf(err)
}
