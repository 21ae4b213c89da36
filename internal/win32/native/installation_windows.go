package native

import "golang.org/x/sys/windows"

// WindowsDirectory is GetSystemWindowsDirectoryW.
// https://learn.microsoft.com/windows/win32/api/sysinfoapi/nf-sysinfoapi-getsystemwindowsdirectoryw
func (a *API) WindowsDirectory() (string, error) {
	dir, err := windows.GetSystemWindowsDirectory()
	return dir, errorOf(err)
}

// ComputerName is GetComputerNameExW.
// https://learn.microsoft.com/windows/win32/api/sysinfoapi/nf-sysinfoapi-getcomputernameexw
func (a *API) ComputerName(kind uint32) (string, error) {
	u, err := grow(windows.MAX_COMPUTERNAME_LENGTH+1, func(u []uint16) (int, bool, error) {
		n := uint32(len(u))
		err := windows.GetComputerNameEx(kind, &u[0], &n)
		return int(n), err == windows.ERROR_MORE_DATA, err
	})
	if err != nil {
		return "", err
	}
	return terminated(u), nil
}
