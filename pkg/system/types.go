// Package system starts, stops and queries the services of a Windows node and reads the
// serial number of its firmware.
//
// A service is identified by its key name, such as MSiSCSI, not by its display name. The
// daemon limits which services can be started and stopped; this package does not.
//
// The requests and responses here have no version. The daemon translates every published
// version of the API to them; a driver in a HostProcess container calls the same
// [Interface] in process.
package system

import "context"

// Interface is the published API of one node as a whole.
//
// The methods may be called concurrently; calls that change one service wait for each
// other. They fail with hosterr.ErrNotFound if there is no such service.
type Interface interface {
	// GetBIOSSerialNumber returns the serial number in the node's firmware.
	GetBIOSSerialNumber(context.Context, *GetBIOSSerialNumberRequest) (*GetBIOSSerialNumberResponse, error)

	// GetService returns the display name, start type and state of a service.
	GetService(context.Context, *GetServiceRequest) (*GetServiceResponse, error)

	// StartService starts a service and waits until it runs. It fails with
	// hosterr.ErrUnavailable if the service makes no progress for 30 seconds, or longer if
	// the service itself estimates more. It succeeds if the service already runs. It fails
	// with hosterr.ErrFailedPrecondition if the service is disabled or paused, or stops
	// before it runs.
	StartService(context.Context, *StartServiceRequest) (*StartServiceResponse, error)

	// StopService stops a service and waits until it has stopped, as long as StartService
	// does. It succeeds if the service is already stopped. If other services that are not
	// stopped depend on the service, it fails with hosterr.ErrFailedPrecondition and names
	// them; with Force it stops them first. It does not start them again.
	StopService(context.Context, *StopServiceRequest) (*StopServiceResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// ServiceStatus is the state of a service.
type ServiceStatus uint32

// The states of a service.
const (
	SERVICE_STATUS_UNKNOWN          ServiceStatus = 0
	SERVICE_STATUS_STOPPED          ServiceStatus = 1
	SERVICE_STATUS_START_PENDING    ServiceStatus = 2
	SERVICE_STATUS_STOP_PENDING     ServiceStatus = 3
	SERVICE_STATUS_RUNNING          ServiceStatus = 4
	SERVICE_STATUS_CONTINUE_PENDING ServiceStatus = 5
	SERVICE_STATUS_PAUSE_PENDING    ServiceStatus = 6
	SERVICE_STATUS_PAUSED           ServiceStatus = 7
)

// StartType is when a service starts.
type StartType uint32

// Startype is the name of StartType in release v2.0.0-alpha.1.
type Startype = StartType

// The start types of a service.
const (
	// START_TYPE_BOOT is a driver that the boot loader starts.
	START_TYPE_BOOT StartType = 0
	// START_TYPE_SYSTEM is a driver that starts with the kernel.
	START_TYPE_SYSTEM StartType = 1
	// START_TYPE_AUTOMATIC is a service that starts with the system.
	START_TYPE_AUTOMATIC StartType = 2
	// START_TYPE_MANUAL is a service that starts on demand.
	START_TYPE_MANUAL StartType = 3
	// START_TYPE_DISABLED is a service that cannot be started.
	START_TYPE_DISABLED StartType = 4
)

// GetBIOSSerialNumberRequest has no parameters.
type GetBIOSSerialNumberRequest struct{}

// GetBIOSSerialNumberResponse has the serial number from the firmware.
type GetBIOSSerialNumberResponse struct {
	SerialNumber string
}

// StartServiceRequest is the request of StartService.
type StartServiceRequest struct {
	Name string
}

// StartServiceResponse is empty.
type StartServiceResponse struct{}

// StopServiceRequest is the request of StopService.
type StopServiceRequest struct {
	Name string
	// Force first stops the services that depend on this one.
	Force bool
}

// StopServiceResponse is empty.
type StopServiceResponse struct{}

// GetServiceRequest is the request of GetService.
type GetServiceRequest struct {
	Name string
}

// GetServiceResponse describes a service.
type GetServiceResponse struct {
	DisplayName string
	StartType   StartType
	Status      ServiceStatus
}
