// Package system is the published surface of the system service.
package system

import (
	"context"

	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
)

type Interface interface {
	GetBIOSSerialNumber(context.Context, *GetBIOSSerialNumberRequest) (*GetBIOSSerialNumberResponse, error)
	GetService(context.Context, *GetServiceRequest) (*GetServiceResponse, error)
	StartService(context.Context, *StartServiceRequest) (*StartServiceResponse, error)
	StopService(context.Context, *StopServiceRequest) (*StopServiceResponse, error)
}

type System struct {
	hostAPI systemapi.HostAPI
}

var _ Interface = &System{}

func New(hostAPI systemapi.HostAPI) (*System, error)

func (*System) GetBIOSSerialNumber(context.Context, *GetBIOSSerialNumberRequest) (*GetBIOSSerialNumberResponse, error)

func (*System) GetService(context.Context, *GetServiceRequest) (*GetServiceResponse, error)

func (*System) StartService(context.Context, *StartServiceRequest) (*StartServiceResponse, error)

func (*System) StopService(context.Context, *StopServiceRequest) (*StopServiceResponse, error)

type GetBIOSSerialNumberRequest struct{}

type StartServiceResponse struct{}

type StopServiceResponse struct{}

type GetBIOSSerialNumberResponse struct{ SerialNumber string }

type StartServiceRequest struct{ Name string }

type StopServiceRequest struct {
	Name  string
	Force bool
}

type GetServiceRequest struct{ Name string }

type GetServiceResponse struct {
	DisplayName string
	StartType   StartType
	Status      ServiceStatus
}

type ServiceStatus uint32

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

type StartType uint32

// Startype is the name of StartType in v2.0.0-alpha.1.
type Startype = StartType

const (
	START_TYPE_BOOT      StartType = 0
	START_TYPE_SYSTEM    StartType = 1
	START_TYPE_AUTOMATIC StartType = 2
	START_TYPE_MANUAL    StartType = 3
	START_TYPE_DISABLED  StartType = 4
)
