package system

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
)

// System is the Interface over a HostAPI.
//
// A context that ends stops a method between two calls of Windows, and its
// caller at once. A call of Windows itself cannot be stopped: it goes on, and
// holds the service's lock until it returns.
type System struct {
	host systemapi.HostAPI
	node *node.Node
}

var _ Service = (*System)(nil)

// New makes the service. Its locks are those of the node that hostAPI works on;
// a hostAPI of another make gets locks of its own.
func New(hostAPI systemapi.HostAPI) (*System, error) {
	if hostAPI == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "system service: the HostAPI is nil")
	}
	s := &System{host: hostAPI}
	if h, ok := hostAPI.(interface{ Node() *node.Node }); ok {
		s.node = h.Node()
	}
	if s.node == nil {
		s.node = node.New(nil)
	}
	return s, nil
}

// on is the host that heeds ctx, if it can.
func (s *System) on(ctx context.Context) systemapi.HostAPI {
	if h, ok := s.host.(interface {
		WithContext(context.Context) systemapi.HostAPI
	}); ok {
		return h.WithContext(ctx)
	}
	return s.host
}

// wrapped is err as an error of op on a service. Our HostAPI says so itself.
func wrapped(op, name string, err error) error {
	var e *hosterr.Error
	if errors.As(err, &e) && e.Op == op {
		return err
	}
	return hosterr.Wrap(op, hosterr.Quote(name), err)
}

// change does work to one service, under its lock.
func (s *System) change(ctx context.Context, op, name string, work func(systemapi.HostAPI) error) error {
	_, err := node.Await(ctx, func() (struct{}, error) {
		unlock, err := s.node.Locks.Services.Lock(ctx, strings.ToLower(name))
		if err != nil {
			return struct{}{}, err
		}
		defer unlock()
		return struct{}{}, work(s.on(ctx))
	})
	return wrapped(op, name, err)
}

func noRequest(method string) error {
	return hosterr.Text(hosterr.ErrInvalid, "%s: the request is nil", method)
}

// GetBIOSSerialNumber implements [Interface]. Firmware without a serial number
// is an error that is not-found.
func (s *System) GetBIOSSerialNumber(ctx context.Context, in *GetBIOSSerialNumberRequest) (*GetBIOSSerialNumberResponse, error) {
	if in == nil {
		return nil, noRequest("GetBIOSSerialNumber")
	}
	serial, err := node.Await(ctx, s.on(ctx).GetBIOSSerialNumber)
	if err != nil {
		return nil, hosterr.Wrap("get BIOS serial number", "", err)
	}
	return &GetBIOSSerialNumberResponse{SerialNumber: serial}, nil
}

// GetService implements [Interface].
func (s *System) GetService(ctx context.Context, in *GetServiceRequest) (*GetServiceResponse, error) {
	if in == nil {
		return nil, noRequest("GetService")
	}
	const op = "get service"
	info, err := node.Await(ctx, func() (*systemapi.ServiceInfo, error) { return s.on(ctx).GetService(in.Name) })
	if err == nil && info == nil {
		err = errors.New("the HostAPI has no answer")
	}
	if err != nil {
		return nil, wrapped(op, in.Name, err)
	}
	start, err := startTypeOf(info.StartType)
	if err != nil {
		return nil, wrapped(op, in.Name, err)
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
		return nil, noRequest("StartService")
	}
	err := s.change(ctx, "start service", in.Name, func(host systemapi.HostAPI) error { return host.StartService(in.Name) })
	if err != nil {
		return nil, err
	}
	return &StartServiceResponse{}, nil
}

// StopService implements [Interface].
func (s *System) StopService(ctx context.Context, in *StopServiceRequest) (*StopServiceResponse, error) {
	if in == nil {
		return nil, noRequest("StopService")
	}
	err := s.change(ctx, "stop service", in.Name, func(host systemapi.HostAPI) error { return host.StopService(in.Name, in.Force) })
	if err != nil {
		return nil, err
	}
	return &StopServiceResponse{}, nil
}
