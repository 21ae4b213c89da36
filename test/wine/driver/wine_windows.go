package driver

import "golang.org/x/sys/windows"

// UnderWine tells Wine from Windows: only Wine's ntdll.dll tells its version.
func UnderWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
