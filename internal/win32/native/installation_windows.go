package native

import (
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

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

// RegistryText is RegQueryValueExW and ExpandEnvironmentStringsW.
// https://learn.microsoft.com/windows/win32/api/winreg/nf-winreg-regqueryvalueexw
func (a *API) RegistryText(key, name string) ([]string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return nil, errorOf(err)
	}
	defer k.Close()
	text, kind, err := k.GetStringValue(name)
	switch {
	case kind == registry.MULTI_SZ:
		list, _, err := k.GetStringsValue(name)
		return list, errorOf(err)
	case err == registry.ErrUnexpectedType:
		return nil, errorOf(windows.ERROR_INVALID_DATA)
	case err == nil && kind == registry.EXPAND_SZ:
		text, err = registry.ExpandString(text)
	}
	if err != nil {
		return nil, errorOf(err)
	}
	return []string{text}, nil
}
