package driver

import "golang.org/x/sys/windows"

// UnderWine reports whether this Windows is Wine: only Wine's ntdll.dll reports
// its version.
func UnderWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
