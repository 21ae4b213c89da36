package win32

// Services is the service control manager. name is a service's key name, such as
// "MSiSCSI", in any case. Each call opens the service with only the rights that
// it needs, and closes it again.
type Services interface {
	// ServiceStatus is QueryServiceStatusEx. ERROR_SERVICE_DOES_NOT_EXIST means
	// that there is no such service, ERROR_INVALID_NAME that name is not valid
	// for a service.
	ServiceStatus(name string) (ServiceStatus, error)
	// ServiceConfig is QueryServiceConfigW.
	ServiceConfig(name string) (ServiceConfig, error)
	// StartService is StartServiceW without arguments. It returns when the
	// service's process has started; the service itself is then still starting
	// (SERVICE_START_PENDING). Windows starts the services that it depends on
	// first.
	StartService(name string) error
	// ControlService sends one of the SERVICE_CONTROL_ codes and returns the
	// state of the service at that time.
	ControlService(name string, control uint32) (ServiceStatus, error)
	// DependentServices is EnumDependentServicesW: the services that depend on
	// this one and are not stopped, in an order in which they can be.
	DependentServices(name string) ([]DependentService, error)
}

// Firmware gives access to the machine's firmware tables.
type Firmware interface {
	// FirmwareTable is GetSystemFirmwareTable of the SMBIOS tables (FirmwareSMBIOS).
	FirmwareTable() ([]byte, error)
}

// ServiceStatus has the fields of SERVICE_STATUS_PROCESS that this project uses.
type ServiceStatus struct {
	State            uint32 // SERVICE_STOPPED … SERVICE_PAUSED
	ControlsAccepted uint32 // SERVICE_ACCEPT_STOP …
	ExitCode         uint32 // a Win32 error number; with ERROR_SERVICE_SPECIFIC_ERROR, see SpecificExitCode
	SpecificExitCode uint32
	CheckPoint       uint32 // grows while a pending service makes progress
	WaitHint         uint32 // milliseconds until CheckPoint grows, as the service estimates
}

// ServiceConfig has the fields of QUERY_SERVICE_CONFIGW that this project uses.
type ServiceConfig struct {
	StartType   uint32 // SERVICE_BOOT_START … SERVICE_DISABLED
	DisplayName string
}

// DependentService is ENUM_SERVICE_STATUSW.
type DependentService struct {
	Name   string
	Status ServiceStatus
}

// Numbers of the service control manager (winsvc.h, winnt.h).
const (
	SERVICE_STOPPED          = 1
	SERVICE_START_PENDING    = 2
	SERVICE_STOP_PENDING     = 3
	SERVICE_RUNNING          = 4
	SERVICE_CONTINUE_PENDING = 5
	SERVICE_PAUSE_PENDING    = 6
	SERVICE_PAUSED           = 7

	SERVICE_BOOT_START   = 0
	SERVICE_SYSTEM_START = 1
	SERVICE_AUTO_START   = 2
	SERVICE_DEMAND_START = 3
	SERVICE_DISABLED     = 4

	SERVICE_CONTROL_STOP = 1
	SERVICE_ACCEPT_STOP  = 1
)

func (o *observed) ServiceStatus(name string) (ServiceStatus, error) {
	return answer(o, Call{Name: "ServiceStatus", Path: name}, func() (ServiceStatus, error) { return o.api.ServiceStatus(name) })
}

func (o *observed) ServiceConfig(name string) (ServiceConfig, error) {
	return answer(o, Call{Name: "ServiceConfig", Path: name}, func() (ServiceConfig, error) { return o.api.ServiceConfig(name) })
}

func (o *observed) StartService(name string) error {
	return o.call(Call{Name: "StartService", Path: name}, func(*Call) error { return o.api.StartService(name) })
}

func (o *observed) ControlService(name string, control uint32) (ServiceStatus, error) {
	return answer(o, Call{Name: "ControlService", Path: name, Code: control}, func() (ServiceStatus, error) { return o.api.ControlService(name, control) })
}

func (o *observed) DependentServices(name string) ([]DependentService, error) {
	return answer(o, Call{Name: "DependentServices", Path: name}, func() ([]DependentService, error) { return o.api.DependentServices(name) })
}

func (o *observed) FirmwareTable() ([]byte, error) {
	return answer(o, Call{Name: "FirmwareTable"}, func() ([]byte, error) { return o.api.FirmwareTable() })
}
