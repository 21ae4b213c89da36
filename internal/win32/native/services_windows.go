package native

import (
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// withService opens the service control manager with the right to connect, and a
// service with the rights in access, and calls do with the service.
// https://learn.microsoft.com/windows/win32/api/winsvc/nf-winsvc-openservicew
func withService(name string, access uint32, do func(windows.Handle) error) error {
	key, err := wide(name)
	if err != nil {
		return err
	}
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return errorOf(err)
	}
	defer windows.CloseServiceHandle(manager)
	service, err := windows.OpenService(manager, key, access)
	if err != nil {
		return errorOf(err)
	}
	defer windows.CloseServiceHandle(service)
	return errorOf(do(service))
}

// ServiceStatus is QueryServiceStatusEx.
// https://learn.microsoft.com/windows/win32/api/winsvc/nf-winsvc-queryservicestatusex
func (a *API) ServiceStatus(name string) (win32.ServiceStatus, error) {
	var s windows.SERVICE_STATUS_PROCESS
	err := withService(name, windows.SERVICE_QUERY_STATUS, func(h windows.Handle) error {
		var needed uint32
		return windows.QueryServiceStatusEx(h, windows.SC_STATUS_PROCESS_INFO, (*byte)(unsafe.Pointer(&s)), uint32(unsafe.Sizeof(s)), &needed)
	})
	if err != nil {
		return win32.ServiceStatus{}, err
	}
	return plainStatus((*windows.SERVICE_STATUS)(unsafe.Pointer(&s))), nil // whose members it begins with
}

// plainStatus is SERVICE_STATUS.
func plainStatus(s *windows.SERVICE_STATUS) win32.ServiceStatus {
	return win32.ServiceStatus{
		State: s.CurrentState, ControlsAccepted: s.ControlsAccepted, ExitCode: s.Win32ExitCode,
		SpecificExitCode: s.ServiceSpecificExitCode, CheckPoint: s.CheckPoint, WaitHint: s.WaitHint,
	}
}

// ServiceConfig is QueryServiceConfigW, whose output is at most 8 KiB.
// https://learn.microsoft.com/windows/win32/api/winsvc/nf-winsvc-queryserviceconfigw
func (a *API) ServiceConfig(name string) (win32.ServiceConfig, error) {
	var config win32.ServiceConfig
	err := withService(name, windows.SERVICE_QUERY_CONFIG, func(h windows.Handle) error {
		buf := make([]uint64, 8<<10/8) // aligned like the structure
		c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
		var needed uint32
		if err := windows.QueryServiceConfig(h, c, uint32(len(buf)*8), &needed); err != nil {
			return err
		}
		config.StartType = c.StartType
		if c.DisplayName != nil {
			config.DisplayName = windows.UTF16PtrToString(c.DisplayName)
		}
		return nil
	})
	return config, err
}

// StartService is StartServiceW.
// https://learn.microsoft.com/windows/win32/api/winsvc/nf-winsvc-startservicew
func (a *API) StartService(name string) error {
	return withService(name, windows.SERVICE_START, func(h windows.Handle) error {
		return windows.StartService(h, 0, nil)
	})
}

// ControlService is ControlService, for controls that need SERVICE_STOP.
// https://learn.microsoft.com/windows/win32/api/winsvc/nf-winsvc-controlservice
func (a *API) ControlService(name string, control uint32) (win32.ServiceStatus, error) {
	if control != win32.SERVICE_CONTROL_STOP {
		return win32.ServiceStatus{}, win32.ERROR_INVALID_SERVICE_CONTROL
	}
	var s windows.SERVICE_STATUS
	err := withService(name, windows.SERVICE_STOP, func(h windows.Handle) error {
		return windows.ControlService(h, control, &s)
	})
	return plainStatus(&s), err
}

// DependentServices is EnumDependentServicesW.
// https://learn.microsoft.com/windows/win32/api/winsvc/nf-winsvc-enumdependentservicesw
func (a *API) DependentServices(name string) ([]win32.DependentService, error) {
	var list []win32.DependentService
	err := withService(name, windows.SERVICE_ENUMERATE_DEPENDENTS, func(h windows.Handle) error {
		size := uint32(8 << 10)
		for {
			buf := make([]uint64, (size+7)/8) // aligned like the structures
			first := (*windows.ENUM_SERVICE_STATUS)(unsafe.Pointer(&buf[0]))
			var needed, count uint32
			err := windows.EnumDependentServices(h, windows.SERVICE_ACTIVE, first, uint32(len(buf)*8), &needed, &count)
			if is(err, windows.ERROR_MORE_DATA) && needed > size && needed <= 1<<20 {
				size = needed
				continue
			}
			if err != nil {
				return err
			}
			count = min(count, uint32(len(buf)*8/int(unsafe.Sizeof(*first))))
			for _, e := range unsafe.Slice(first, count) {
				list = append(list, win32.DependentService{Name: windows.UTF16PtrToString(e.ServiceName), Status: plainStatus(&e.ServiceStatus)})
			}
			return nil
		}
	})
	return list, err
}
