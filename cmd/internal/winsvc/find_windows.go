package winsvc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// Processes returns the process of each service that runs.
func Processes() (map[string]uint32, error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_ENUMERATE_SERVICE)
	if err != nil {
		return nil, err
	}
	defer windows.CloseServiceHandle(h)
	return list(h, windows.SERVICE_ACTIVE)
}

// list returns services in a state, with their processes, which are 0 if they do not run.
func list(manager windows.Handle, state uint32) (map[string]uint32, error) {
	for size := uint32(64 << 10); ; {
		buffer := make([]uint64, (size+7)/8)
		var needed, count uint32
		err := windows.EnumServicesStatusEx(manager, windows.SC_ENUM_PROCESS_INFO, windows.SERVICE_WIN32, state, (*byte)(unsafe.Pointer(&buffer[0])), size, &needed, &count, nil, nil)
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

// Find returns the services that run csi-proxy, by their programs, and one with the name [Name]
// whatever it runs.
func Find() ([]Installed, error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_ENUMERATE_SERVICE)
	if err != nil {
		return nil, fmt.Errorf("connect to the service manager: %w", err)
	}
	defer windows.CloseServiceHandle(h)
	services, err := list(h, windows.SERVICE_STATE_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	var found []Installed
	for name := range services {
		command, automatic, stays, err := configOf(h, name)
		if err != nil {
			if strings.EqualFold(name, Name) {
				return nil, fmt.Errorf("read the configuration of service %s: %w", name, err)
			}
			continue // it was removed, or is one that this account may not read
		}
		if i := installed(name, command); i.Program != "" {
			i.Automatic, i.Stays = automatic, stays
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b Installed) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// installed returns what a service runs, without a program if that is not csi-proxy.
func installed(name, command string) Installed {
	all, err := windows.DecomposeCommandLine(inQuotes(command))
	if err != nil || len(all) == 0 {
		all = []string{""}
	}
	if child := childOf(name, all[0]); child != nil {
		return Installed{Name: name, Program: child[0], Args: child[1:], Manager: all[0]}
	}
	if isProgram(all[0]) || strings.EqualFold(name, Name) {
		return Installed{Name: name, Program: all[0], Args: all[1:]}
	}
	return Installed{}
}

// childOf returns the command line with which the program of a service starts csi-proxy, as nssm.exe
// does, or nil if it does not.
func childOf(service, program string) []string {
	if isProgram(program) {
		return nil
	}
	args, err := windows.DecomposeCommandLine(parameters(service))
	if err != nil || len(args) == 0 || !isProgram(args[0]) {
		return nil
	}
	return args
}

// parameters returns the command line that a service's program is to start, where programs such
// as nssm.exe keep it, or "".
func parameters(name string) string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+name+`\Parameters`, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close()
	value := func(name string) string {
		text, kind, err := k.GetStringValue(name)
		if err != nil {
			return ""
		}
		if kind == registry.EXPAND_SZ {
			if expanded, err := registry.ExpandString(text); err == nil {
				return expanded
			}
		}
		return text
	}
	program := value("Application")
	if program == "" {
		return ""
	}
	return `"` + strings.Trim(program, `"`) + `" ` + value("AppParameters")
}

// configOf returns the command line of a service, and how Windows starts it. It needs no rights to
// change it.
func configOf(manager windows.Handle, name string) (command string, automatic, stays bool, err error) {
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return "", false, false, err
	}
	s, err := windows.OpenService(manager, text, windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return "", false, false, err
	}
	defer windows.CloseServiceHandle(s)
	buffer := make([]uint64, 1024) // 8 KiB is the most that Windows returns
	config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(s, config, uint32(8*len(buffer)), &needed); err != nil {
		return "", false, false, err
	}
	command, automatic = windows.UTF16PtrToString(config.BinaryPathName), config.StartType == windows.SERVICE_AUTO_START
	if windows.QueryServiceConfig2(s, windows.SERVICE_CONFIG_FAILURE_ACTIONS, (*byte)(unsafe.Pointer(&buffer[0])), uint32(8*len(buffer)), &needed) != nil {
		return command, automatic, false, nil // nothing is known about failures, such as under Wine
	}
	failure := (*windows.SERVICE_FAILURE_ACTIONS)(unsafe.Pointer(&buffer[0]))
	stays = !slices.ContainsFunc(unsafe.Slice(failure.Actions, failure.ActionsCount), func(a windows.SC_ACTION) bool { return a.Type == windows.SC_ACTION_RESTART })
	return command, automatic, stays, nil
}
