// Package system starts, stops and looks at the services of a Windows node and
// reads the serial number of its firmware.
//
// A service is named by its key name, such as MSiSCSI, not by the name that is
// displayed. The daemon may limit which services can be named; this package does not.
//
// The requests and responses here have no version. The gRPC daemon translates
// every published API version to them; a driver that runs as a HostProcess
// container calls the same [Interface] in process.
package system

import "context"

// Interface is what can be asked of one node as a whole.
//
// Every method may be called from several goroutines at once; calls that change
// one service wait for each other. A service that the node does not have is an
// error that is not-found.
type Interface interface {
	// GetBIOSSerialNumber returns the serial number in the node's firmware.
	GetBIOSSerialNumber(context.Context, *GetBIOSSerialNumberRequest) (*GetBIOSSerialNumberResponse, error)

	// GetService returns name, start type and state of a service.
	GetService(context.Context, *GetServiceRequest) (*GetServiceResponse, error)

	// StartService starts a service and waits until it runs. It gives up when
	// the service makes no progress for 30 seconds, or for as long as the service
	// itself estimates. A service that runs already is success; one that is
	// disabled or paused is an error that is a failed precondition, and so is one
	// that ends before it runs.
	StartService(context.Context, *StartServiceRequest) (*StartServiceResponse, error)

	// StopService stops a service and waits until it has stopped, as long as
	// StartService does. A service that is stopped already is success. One on
	// which services depend that are not stopped is stopped only with Force,
	// after those, each once; without Force it is an error that is a failed
	// precondition and names them. What was stopped along is not started again.
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

// StartType says when a service starts.
type StartType uint32

// Startype is what the release v2.0.0-alpha.1 called StartType.
type Startype = StartType

// The start types of a service.
const (
	// START_TYPE_BOOT is a driver that the boot loader starts.
	START_TYPE_BOOT StartType = 0
	// START_TYPE_SYSTEM is a driver that starts with the kernel.
	START_TYPE_SYSTEM StartType = 1
	// START_TYPE_AUTOMATIC is a service that starts with the system.
	START_TYPE_AUTOMATIC StartType = 2
	// START_TYPE_MANUAL is a service that starts when it is asked to.
	START_TYPE_MANUAL StartType = 3
	// START_TYPE_DISABLED is a service that cannot be started.
	START_TYPE_DISABLED StartType = 4
)

// GetBIOSSerialNumberRequest has no parameters.
type GetBIOSSerialNumberRequest struct{}

// GetBIOSSerialNumberResponse holds the serial number as the firmware has it.
type GetBIOSSerialNumberResponse struct {
	SerialNumber string
}

// StartServiceRequest names the service to be started.
type StartServiceRequest struct {
	Name string
}

// StartServiceResponse is empty.
type StartServiceResponse struct{}

// StopServiceRequest names the service to be stopped.
type StopServiceRequest struct {
	Name string
	// Force stops running services that depend on it first.
	Force bool
}

// StopServiceResponse is empty.
type StopServiceResponse struct{}

// GetServiceRequest names the service that is asked about.
type GetServiceRequest struct {
	Name string
}

// GetServiceResponse describes a service.
type GetServiceResponse struct {
	DisplayName string
	StartType   StartType
	Status      ServiceStatus
}
