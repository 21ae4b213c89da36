package main

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// examineServer checks whether a running service serves the pipes that exist.
func examineServer(service string, paths []string) []finding {
	running, err := runningServices()
	if err != nil {
		return checkFailed("install", err)
	}
	pid, ok := running[service]
	if !ok {
		return nil
	}
	owners := ownersOf(paths, pipes.ServerOf)
	for name, p := range running {
		for i := range owners {
			if owners[i].pid == p {
				owners[i].service = name
			}
		}
	}
	return examineWaiting(service, pid, owners)
}

// runningServices returns the processes of the running services.
func runningServices() (map[string]uint32, error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_ENUMERATE_SERVICE)
	if err != nil {
		return nil, err
	}
	defer windows.CloseServiceHandle(h)
	for size := uint32(64 << 10); ; {
		buffer := make([]uint64, size/8)
		var needed, count uint32
		err := windows.EnumServicesStatusEx(h, windows.SC_ENUM_PROCESS_INFO, windows.SERVICE_WIN32, windows.SERVICE_ACTIVE, (*byte)(unsafe.Pointer(&buffer[0])), size, &needed, &count, nil, nil)
		if errors.Is(err, windows.ERROR_MORE_DATA) {
			size += needed + 8 // needed is for what was left out
			continue
		}
		if err != nil {
			return nil, err
		}
		services := map[string]uint32{}
		for _, s := range unsafe.Slice((*windows.ENUM_SERVICE_STATUS_PROCESS)(unsafe.Pointer(&buffer[0])), count) {
			services[windows.UTF16PtrToString(s.ServiceName)] = s.ServiceStatusProcess.ProcessId
		}
		return services, nil
	}
}
