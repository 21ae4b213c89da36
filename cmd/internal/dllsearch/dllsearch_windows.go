package dllsearch

import "golang.org/x/sys/windows"

func systemOnly() error {
	return windows.SetDefaultDllDirectories(windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
}
