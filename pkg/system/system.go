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

// System implements [Service] with a HostAPI.
//
// When the context of a call ends, the method returns immediately and its work stops
// before the next Windows call. A Windows call itself cannot be stopped: it continues and
// holds the service's lock until it returns.
type System struct {
	base service.Base[systemapi.HostAPI]
}

var _ Service = (*System)(nil)

// New returns a service that uses hostAPI. With the HostAPI of this project it uses the
// locks of the node; any other HostAPI gets locks of its own.
func New(hostAPI systemapi.HostAPI) (*System, error) {
	base, err := service.New("system", hostAPI)
	return service.Response(&System{base}, err)
}

// change runs work that changes a service, under the service's lock.
func (s *System) change(ctx context.Context, op, name string, work func(systemapi.HostAPI) error) error {
	lock := service.Exclusive(&s.base.Node.Locks.Services, strings.ToLower(name))
	return hosterr.Wrap(op, hosterr.Quote(name), service.Do(ctx, s.base, []service.Lock{lock}, work))
}

// GetBIOSSerialNumber implements [Interface]. It fails with [hosterr.ErrNotFound] if the
// firmware has no serial number.
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
		err = errors.New("the HostAPI returned no result")
	}
	if err != nil {
		return nil, hosterr.Wrap(op, hosterr.Quote(name), err)
	}
	start, err := startTypeOf(info.StartType)
	if err != nil {
		return nil, hosterr.Wrap(op, hosterr.Quote(name), err)
	}
	return &GetServiceResponse{DisplayName: info.DisplayName, StartType: start, Status: statusOf(info.Status)}, nil
}

// statusOf parses the state of a ServiceInfo. An unknown text is SERVICE_STATUS_UNKNOWN.
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

// startTypeOf parses the start type of a ServiceInfo. An unknown text is an error, because
// the API has no number for it, and 0 means that the boot loader starts the service.
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
	return 0, fmt.Errorf("unknown start type %q", text)
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
