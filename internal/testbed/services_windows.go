package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
)

// RunIdleService runs a service that does nothing until it is stopped.
func RunIdleService(name string) error { return svc.Run(name, idle{}) }

type idle struct{}

func (idle) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.Stop, svc.Shutdown:
			return false, 0
		}
	}
	return false, 0
}

// Services are Windows services that do nothing. They run this program.
type Services struct{ made []string }

// Set makes a service.
func (s *Services) Set(want conformance.Service) error {
	m, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer m.Disconnect()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	config := mgr.Config{StartType: mgr.StartManual, Dependencies: want.DependsOn}
	made, err := m.CreateService(want.Name, exe, config, IdleService, want.Name)
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		switch {
		case errors.Is(err, windows.ERROR_SERVICE_EXISTS): // from a run that was killed
			err = discard(m, want.Name)
		case errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE): // a program has it open
			err = nil
		}
		if err != nil {
			break
		}
		made, err = m.CreateService(want.Name, exe, config, IdleService, want.Name)
	}
	if err != nil {
		return fmt.Errorf("create service %s: %w", want.Name, err)
	}
	defer made.Close()
	s.made = append(s.made, want.Name)
	if want.State == "running" {
		if err := made.Start(); err != nil {
			return fmt.Errorf("start service %s: %w", want.Name, err)
		}
		return awaitState(made, svc.Running)
	}
	return nil
}

// Close stops and deletes the services, dependents first.
func (s *Services) Close() error {
	var errs []error
	for _, name := range slices.Backward(s.made) {
		errs = append(errs, RemoveService(name))
	}
	s.made = nil
	return errors.Join(errs...)
}

// RemoveService stops and deletes a service that runs this program. It leaves a
// service alone that another program runs, and says so. A service that does not exist is
// no error.
func RemoveService(name string) error {
	m, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer m.Disconnect()
	if err := discard(m, name); err != nil && !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return fmt.Errorf("remove service %s: %w", name, err)
	}
	return nil
}

// StopService stops a service. One that is stopped is no error.
func StopService(name string) error {
	m, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer m.Disconnect()
	s, err := m.OpenService(name)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return err
	}
	return awaitState(s, svc.Stopped)
}

// discard stops a service, after the services that depend on it, and deletes it.
func discard(m *mgr.Mgr, name string) error {
	s, err := m.OpenService(name)
	if err != nil {
		return err
	}
	defer s.Close()
	program, err := command(s)
	if err != nil {
		return err
	}
	if !strings.Contains(program, IdleService) {
		return fmt.Errorf("it runs %s, so it belongs to another program", program)
	}
	if dependents, err := s.ListDependentServices(svc.Active); err == nil {
		for _, d := range dependents {
			if err := discard(m, d); err != nil {
				return err
			}
		}
	}
	if _, err := s.Control(svc.Stop); err == nil {
		if err := awaitState(s, svc.Stopped); err != nil {
			return err
		}
	}
	return s.Delete()
}

// command returns the command line of a service. Config of package mgr asks for more,
// which Wine does not know.
func command(s *mgr.Service) (string, error) {
	buf := make([]byte, 8192) // the most that a configuration has
	config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(s.Handle, config, uint32(len(buf)), &needed); err != nil {
		return "", err
	}
	return windows.UTF16PtrToString(config.BinaryPathName), nil
}

func awaitState(s *mgr.Service, want svc.State) error {
	pace := node.Pace{Pause: 10 * time.Millisecond, Limit: 30 * time.Second}
	return node.Poll(context.Background(), node.SystemClock{}, pace, func() (bool, error) {
		status, err := s.Query()
		if err == nil && status.State != want {
			err = fmt.Errorf("the service is in state %d, want %d", status.State, want)
		}
		return err == nil, err
	})
}
