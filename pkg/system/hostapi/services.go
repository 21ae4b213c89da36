package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const (
	// firstPause and longestPause are the times between two queries of a service's state.
	firstPause   = 10 * time.Millisecond
	longestPause = 200 * time.Millisecond
	// stallLimit is how long a service may make no progress. If the service estimates a
	// longer step, it may take that time, up to maxHint.
	stallLimit = 30 * time.Second
	maxHint    = 2 * time.Minute
	// limit is the longest wait, even if the service reports progress.
	limit = 5 * time.Minute
	// rounds is how often work is tried again because other programs start or stop
	// services at the same time.
	rounds = 3
)

// nameMax is in UTF-16 units (Microsoft: CreateServiceW, lpServiceName).
const nameMax = 256

// checkName returns an error if name cannot be the name of a service.
func checkName(name string) error {
	switch {
	case name == "":
		return hosterr.Text(hosterr.ErrInvalid, "the service name is empty")
	case len(win32.UTF16(name)) > nameMax:
		return hosterr.Text(hosterr.ErrInvalid, "service name of %d characters, want at most %d", len(win32.UTF16(name)), nameMax)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return hosterr.Text(hosterr.ErrInvalid, "service name %s: slashes and control characters are not allowed", hosterr.Quote(name))
	}
	return nil
}

// mayChange returns an error if the node's rules do not allow changes of a service.
func (s SystemAPI) mayChange(name string) error {
	allowed := s.host.Node.AllowedServices
	if allowed == nil || slices.ContainsFunc(allowed, func(a string) bool { return winpath.Fold(a) == winpath.Fold(name) }) {
		return nil
	}
	return hosterr.Text(hosterr.ErrPermissionDenied, "service %s may not be started or stopped; allowed are %q", hosterr.Quote(name), allowed)
}

// begin checks that there is a node, and the name of the service.
func (s SystemAPI) begin(name string) error {
	if err := s.host.Ready(); err != nil {
		return err
	}
	return checkName(name)
}

// stateTexts are the values of Win32_Service.State, startTexts those of
// Win32_Service.StartMode.
var (
	stateTexts = map[uint32]string{
		win32.SERVICE_STOPPED: "Stopped", win32.SERVICE_START_PENDING: "Start Pending", win32.SERVICE_STOP_PENDING: "Stop Pending",
		win32.SERVICE_RUNNING: "Running", win32.SERVICE_CONTINUE_PENDING: "Continue Pending",
		win32.SERVICE_PAUSE_PENDING: "Pause Pending", win32.SERVICE_PAUSED: "Paused",
	}
	startTexts = map[uint32]string{
		win32.SERVICE_BOOT_START: "Boot", win32.SERVICE_SYSTEM_START: "System", win32.SERVICE_AUTO_START: "Auto",
		win32.SERVICE_DEMAND_START: "Manual", win32.SERVICE_DISABLED: "Disabled",
	}
)

// GetService implements [HostAPI].
func (s SystemAPI) GetService(name string) (*ServiceInfo, error) {
	if err := s.begin(name); err != nil {
		return nil, err
	}
	config, err := s.host.Node.API.ServiceConfig(name)
	if err != nil {
		return nil, serviceError(err)
	}
	status, err := s.host.Node.API.ServiceStatus(name)
	if err != nil {
		return nil, serviceError(err)
	}
	start, ok := startTexts[config.StartType]
	if !ok {
		return nil, fmt.Errorf("unknown start type %d of the service", config.StartType)
	}
	state, ok := stateTexts[status.State]
	if !ok {
		state = "Unknown"
	}
	return &ServiceInfo{DisplayName: config.DisplayName, StartType: start, Status: state}, nil
}

// serviceError adds the kind to an error of the service control manager.
func serviceError(err error) error {
	code, ok := win32.Code(err)
	if !ok {
		return err
	}
	switch code {
	case win32.ERROR_SERVICE_DOES_NOT_EXIST:
		return hosterr.ErrNotFound // the text that ends in "not found" is published
	case win32.ERROR_SERVICE_DISABLED, win32.ERROR_SERVICE_DEPENDENCY_FAIL, win32.ERROR_CIRCULAR_DEPENDENCY,
		win32.ERROR_SERVICE_LOGON_FAILED, win32.ERROR_SERVICE_MARKED_FOR_DELETE,
		win32.ERROR_DEPENDENT_SERVICES_RUNNING, win32.ERROR_INVALID_SERVICE_CONTROL:
		return hosterr.Text(hosterr.ErrFailedPrecondition, "%w", err)
	case win32.ERROR_SERVICE_CANNOT_ACCEPT_CTRL, win32.ERROR_SERVICE_REQUEST_TIMEOUT, win32.ERROR_SERVICE_DATABASE_LOCKED:
		return hosterr.Text(hosterr.ErrUnavailable, "%w", err)
	}
	return err
}

func pending(state uint32) bool {
	switch state {
	case win32.SERVICE_START_PENDING, win32.SERVICE_STOP_PENDING, win32.SERVICE_CONTINUE_PENDING, win32.SERVICE_PAUSE_PENDING:
		return true
	}
	return false
}

// await polls a service until done returns true. If the service makes no progress, it fails
// with "timed out waiting for service NAME to …".
func (s SystemAPI) await(name, to string, done func(state uint32) bool) (win32.ServiceStatus, error) {
	late := hosterr.Text(hosterr.ErrUnavailable, "timed out waiting for service %s to %s", name, to)
	moved := s.host.Node.Clock.Now()
	var status, last win32.ServiceStatus
	err := s.host.Poll(node.Pace{Pause: firstPause, Longest: longestPause, Limit: limit}, func() (_ bool, err error) {
		status, err = s.host.Node.API.ServiceStatus(name)
		if err != nil {
			return true, serviceError(err)
		}
		if done(status.State) {
			return true, nil
		}
		now := s.host.Node.Clock.Now()
		if status.State != last.State || status.CheckPoint > last.CheckPoint {
			moved = now
		}
		last = status
		hint := min(time.Duration(status.WaitHint)*time.Millisecond, maxHint)
		return now.Sub(moved) >= max(stallLimit, hint), late
	})
	return status, err
}

// settled waits until a service is not in a pending state.
func (s SystemAPI) settled(name, to string) (win32.ServiceStatus, error) {
	return s.await(name, to, func(state uint32) bool { return !pending(state) })
}

const toRun, toStop = "become running", "stop"

// StartService implements [HostAPI]. If the service stops before it runs, StartService
// returns an error with its exit code immediately.
func (s SystemAPI) StartService(name string) error {
	if err := s.begin(name); err != nil {
		return err
	}
	if err := s.mayChange(name); err != nil {
		return err
	}
	for range rounds {
		status, err := s.settled(name, toRun)
		if err != nil {
			return err
		}
		switch status.State {
		case win32.SERVICE_RUNNING:
			return nil
		case win32.SERVICE_PAUSED:
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "resume it, or stop it first", "the service is paused")
		}
		err = s.host.Node.API.StartService(name)
		if win32.IsCode(err, win32.ERROR_SERVICE_ALREADY_RUNNING) {
			continue // another program has started it, or is stopping it
		}
		if win32.IsCode(err, win32.ERROR_SERVICE_DISABLED) {
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "change its start type first, for example with: sc.exe config "+name+" start= demand", "%w", err)
		}
		if err != nil {
			return serviceError(err)
		}
		status, err = s.await(name, toRun, func(state uint32) bool {
			return state == win32.SERVICE_RUNNING || state == win32.SERVICE_STOPPED
		})
		if err == nil && status.State == win32.SERVICE_STOPPED {
			return died(status)
		}
		return err
	}
	return hosterr.Text(hosterr.ErrUnavailable, "other programs start and stop the service at the same time; try again")
}

// died returns the reason why a service stopped instead of running.
func died(status win32.ServiceStatus) error {
	var err error
	switch status.ExitCode {
	case 0:
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "the service stopped immediately after its start, without an error")
	case uint32(win32.ERROR_SERVICE_SPECIFIC_ERROR):
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "the service stopped immediately after its start, with its own error %d", status.SpecificExitCode)
	default:
		code := win32.Errno(status.ExitCode)
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "the service stopped immediately after its start, with exit code %d: %w", status.ExitCode, code)
	}
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "see the System event log of the node for messages of the service", "%w", err)
}

// StopService implements [HostAPI].
func (s SystemAPI) StopService(name string, force bool) error {
	if err := s.begin(name); err != nil {
		return err
	}
	if err := s.mayChange(name); err != nil {
		return err
	}
	var needed []string
	for range rounds {
		err := s.stop(name)
		if !win32.IsCode(err, win32.ERROR_DEPENDENT_SERVICES_RUNNING) {
			return serviceError(err)
		}
		if needed, err = s.dependents(name); err != nil {
			return err
		}
		if !force {
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "set force to stop them, too",
				"other services that are not stopped depend on it: %s: %w", strings.Join(needed, ", "), win32.ERROR_DEPENDENT_SERVICES_RUNNING)
		}
		for _, d := range needed {
			if err := s.mayChange(d); err != nil {
				return fmt.Errorf("stop %s, which depends on it: %w", d, err)
			}
		}
		for _, d := range needed {
			err := s.stop(d)
			if win32.IsCode(err, win32.ERROR_DEPENDENT_SERVICES_RUNNING) {
				break // a dependent was started in the meantime, or they depend on each other: list them again
			}
			if err = serviceError(err); err != nil && !errors.Is(err, hosterr.ErrNotFound) {
				return fmt.Errorf("stop %s, which depends on it: %w", d, err)
			}
		}
	}
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "check whether they depend on each other in a circle, or another program restarts them",
		"services that depend on it could not be stopped, or were started again: %s: %w", strings.Join(needed, ", "), win32.ERROR_DEPENDENT_SERVICES_RUNNING)
}

// stop stops one service and waits for it. It returns Windows' errors unchanged.
func (s SystemAPI) stop(name string) error {
	status, err := s.settled(name, toStop)
	if err != nil || status.State == win32.SERVICE_STOPPED {
		return err
	}
	_, err = s.host.Node.API.ControlService(name, win32.SERVICE_CONTROL_STOP)
	if win32.IsCode(err, win32.ERROR_SERVICE_NOT_ACTIVE) {
		return nil
	}
	// ERROR_SERVICE_CANNOT_ACCEPT_CTRL means that the service is in a pending state,
	// perhaps because another call stops it. The wait below shows the result.
	if err != nil && !win32.IsCode(err, win32.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) {
		return err
	}
	_, err = s.await(name, toStop, func(state uint32) bool { return state == win32.SERVICE_STOPPED })
	return err
}

// dependents returns the services that depend on name, directly or indirectly, and are not
// stopped, including paused ones: each once, in an order in which they can be stopped. It
// queries level by level, which is correct whether or not Windows also returns indirect
// dependents, and ends for circular dependencies.
func (s SystemAPI) dependents(name string) ([]string, error) {
	seen := map[string]bool{strings.ToLower(name): true}
	var order []string
	var visit func(string) error
	visit = func(name string) error {
		if err := s.host.Ctx.Err(); err != nil {
			return err
		}
		list, err := s.host.Node.API.DependentServices(name)
		if err != nil {
			return hosterr.Wrap("list dependents of service", hosterr.Quote(name), serviceError(err))
		}
		for _, d := range list {
			if key := strings.ToLower(d.Name); !seen[key] {
				seen[key] = true
				if err := visit(d.Name); errors.Is(err, hosterr.ErrNotFound) {
					continue // it was removed in the meantime
				} else if err != nil {
					return err
				}
				order = append(order, d.Name)
			}
		}
		return nil
	}
	return order, visit(name)
}
