package operations_test

import (
	"cmp"
	"sync/atomic"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// native says how many calls of Windows the native side (internal/win32/native) makes for the
// methods of win32.API of which it is not one. Calls whose number depends on the result are added
// by [counted], and those that the function of WithPrivilege makes count as well. Format and the
// three of SMB mappings are those of one backend each: a format is one call however many WMI or
// fmifs.dll make for it, and mappings are those of NetUseAdd and its like.
var native = map[string]int64{
	"WithPrivilege":     6, // ImpersonateSelf, OpenThreadToken, LookupPrivilegeValue, AdjustTokenPrivileges, CloseHandle, RevertToSelf
	"RegistryText":      4, // RegOpenKeyEx, RegQueryValueEx for the type and for the text, RegCloseKey
	"Reenumerate":       2, // CM_Locate_DevNode, CM_Reenumerate_DevNode
	"FirmwareTable":     2, // GetSystemFirmwareTable for the size and for the table
	"ServiceStatus":     5, // OpenSCManager, OpenService, the call, and CloseServiceHandle twice; so the next four
	"ServiceConfig":     5,
	"StartService":      5,
	"ControlService":    5,
	"DependentServices": 5,
	"LogonToServer":     5, // LogonUser, ImpersonateLoggedOnUser, NetUseAdd, NetUseDel, CloseHandle
	"UseEnum":           2, // NetUseEnum, NetApiBufferFree
	"UseDel":            3, // UseEnum, NetUseDel
	"UseAdd":            7, // UseEnum before and after, NetUseEnum of the session, NetUseAdd
	"VolumeNames":       2, // FindFirstVolume, FindVolumeClose; and FindNextVolume for each volume
	"Interfaces":        2, // CM_Get_Device_Interface_List_Size, CM_Get_Device_Interface_List
}

// counter counts the calls of a program.
type counter struct {
	calls, reads atomic.Int64
	// others are mappings that the list of mappings has, too. Thousands that are made one
	// after the other take too long.
	others []win32.Use
}

func (c *counter) hook(call *win32.Call) error {
	c.calls.Add(cmp.Or(native[call.Name], 1))
	if call.Name == "ReadAt" {
		c.reads.Add(1)
	}
	return call.Do()
}

// counted adds the calls that depend on a result.
type counted struct {
	win32.API
	c *counter
}

func (a counted) VolumeNames() ([]string, error) {
	names, err := a.API.VolumeNames()
	a.c.calls.Add(int64(len(names)))
	return names, err
}

func (a counted) UseEnum() ([]win32.Use, error) {
	uses, err := a.API.UseEnum()
	return append(uses, a.c.others...), err
}
