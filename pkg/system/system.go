package system

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
)

// System is the Interface over a HostAPI.
//
// A context that ends stops a method between two calls of Windows, and its
// caller at once. A call of Windows itself cannot be stopped: it goes on, and
// holds the service's lock until it returns.
type System struct {
	base service.Base[systemapi.HostAPI]
}

var _ Service = (*System)(nil)

// New makes the service. Its locks are those of the node that hostAPI works on;
// a hostAPI of another make gets locks of its own.
func New(hostAPI systemapi.HostAPI) (*System, error) {
	base, err := service.New("system", hostAPI)
	return service.Response(&System{base}, err)
}

// change does work to one service, under its lock.
func (s *System) change(ctx context.Context, op, name string, work func(systemapi.HostAPI) error) error {
	lock := service.Exclusive(&s.base.Node.Locks.Services, strings.ToLower(name))
	return service.Wrap(op, hosterr.Quote(name), service.Do(ctx, s.base, []service.Lock{lock}, work))
}

// GetBIOSSerialNumber implements [Interface]. Firmware without a serial number
// is an error that is not-found.
func (s *System) GetBIOSSerialNumber(ctx context.Context, in *GetBIOSSerialNumberRequest) (*GetBIOSSerialNumberResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetBIOSSerialNumber")
	}
	serial, err := service.Get(ctx, s.base, nil, systemapi.HostAPI.GetBIOSSerialNumber)
	return service.Response(&GetBIOSSerialNumberResponse{SerialNumber: serial}, hosterr.Wrap("get BIOS serial number", "", err))
}

// GetService implements [Interface].
func (s *System) GetService(ctx context.Context, in *GetServiceRequest) (*GetServiceResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetService")
	}
	const op = "get service"
	name := in.Name
	info, err := service.Get(ctx, s.base, nil, func(host systemapi.HostAPI) (*systemapi.ServiceInfo, error) { return host.GetService(name) })
	if err == nil && info == nil {
		err = errors.New("the HostAPI has no answer")
	}
	if err != nil {
		return nil, service.Wrap(op, hosterr.Quote(name), err)
	}
	start, err := startTypeOf(info.StartType)
	if err != nil {
		return nil, service.Wrap(op, hosterr.Quote(name), err)
	}
	return &GetServiceResponse{DisplayName: info.DisplayName, StartType: start, Status: statusOf(info.Status)}, nil
}

// statusOf reads the state of a ServiceInfo. A text that is not known is
// SERVICE_STATUS_UNKNOWN.
func statusOf(text string) ServiceStatus {
	switch text {
	case "Stopped":
		return SERVICE_STATUS_STOPPED
	case "Start Pending":
		return SERVICE_STATUS_START_PENDING
	case "Stop Pending":
		return SERVICE_STATUS_STOP_PENDING
	case "Running":
		return SERVICE_STATUS_RUNNING
	case "Continue Pending":
		return SERVICE_STATUS_CONTINUE_PENDING
	case "Pause Pending":
		return SERVICE_STATUS_PAUSE_PENDING
	case "Paused":
		return SERVICE_STATUS_PAUSED
	}
	return SERVICE_STATUS_UNKNOWN
}

// startTypeOf reads the start type of a ServiceInfo. There is no number for one
// that is not known, and 0 would say that the boot loader starts the service.
func startTypeOf(text string) (StartType, error) {
	switch text {
	case "Boot":
		return START_TYPE_BOOT, nil
	case "System":
		return START_TYPE_SYSTEM, nil
	case "Auto":
		return START_TYPE_AUTOMATIC, nil
	case "Manual":
		return START_TYPE_MANUAL, nil
	case "Disabled":
		return START_TYPE_DISABLED, nil
	}
	return 0, fmt.Errorf("start type %q is not known", text)
}

// StartService implements [Interface].
func (s *System) StartService(ctx context.Context, in *StartServiceRequest) (*StartServiceResponse, error) {
	if in == nil {
		return nil, service.NoRequest("StartService")
	}
	err := s.change(ctx, "start service", in.Name, func(host systemapi.HostAPI) error { return host.StartService(in.Name) })
	return service.Response(&StartServiceResponse{}, err)
}

// StopService implements [Interface].
func (s *System) StopService(ctx context.Context, in *StopServiceRequest) (*StopServiceResponse, error) {
	if in == nil {
		return nil, service.NoRequest("StopService")
	}
	err := s.change(ctx, "stop service", in.Name, func(host systemapi.HostAPI) error { return host.StopService(in.Name, in.Force) })
	return service.Response(&StopServiceResponse{}, err)
}
