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
	// pollEvery is how often a service on its way is looked at.
	pollEvery = 200 * time.Millisecond
	// patience is how long a service may make no progress. A service that
	// estimates longer steps gets the time it asks for, up to maxHint.
	patience = 30 * time.Second
	maxHint  = 2 * time.Minute
	// limit bounds a wait whatever progress the service claims.
	limit = 5 * time.Minute
	// rounds bounds how often work begins anew because somebody else started or
	// stopped services meanwhile.
	rounds = 3
)

// nameMax is in UTF-16 units (Microsoft: CreateServiceW, lpServiceName).
const nameMax = 256

// checkName refuses what no service can be called.
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

// mayChange refuses services that the node's rules do not allow.
func (s SystemAPI) mayChange(name string) error {
	allowed := s.host.Node.AllowedServices
	if allowed == nil || slices.ContainsFunc(allowed, func(a string) bool { return winpath.Fold(a) == winpath.Fold(name) }) {
		return nil
	}
	return hosterr.Text(hosterr.ErrPermissionDenied, "service %s is not one of those that may be started and stopped: %q", hosterr.Quote(name), allowed)
}

// begin is what every method asks first.
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
	info, err := s.getService(name)
	return info, named("get service", name, err)
}

func (s SystemAPI) getService(name string) (*ServiceInfo, error) {
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
		return nil, fmt.Errorf("start type %d of the service is not known", config.StartType)
	}
	state, ok := stateTexts[status.State]
	if !ok {
		state = "Unknown"
	}
	return &ServiceInfo{DisplayName: config.DisplayName, StartType: start, Status: state}, nil
}

// serviceError gives an error of the service control manager its kind.
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

// advice is an error with a hint, until named gives it an operation.
type advice struct {
	error
	hint string
}

func (a *advice) Unwrap() error { return a.error }

// named says of which operation on which service err is the error.
func named(op, name string, err error) error {
	var a *advice
	if errors.As(err, &a) {
		return hosterr.WithHint(op, hosterr.Quote(name), err, a.hint)
	}
	return hosterr.Wrap(op, hosterr.Quote(name), err)
}

func pending(state uint32) bool {
	switch state {
	case win32.SERVICE_START_PENDING, win32.SERVICE_STOP_PENDING, win32.SERVICE_CONTINUE_PENDING, win32.SERVICE_PAUSE_PENDING:
		return true
	}
	return false
}

// await looks at a service until it is done, and says "timed out waiting for
// service NAME to …" when it makes no progress.
func (s SystemAPI) await(name, to string, done func(state uint32) bool) (win32.ServiceStatus, error) {
	late := hosterr.Text(hosterr.ErrUnavailable, "timed out waiting for service %s to %s", name, to)
	moved := s.host.Node.Clock.Now()
	var status, last win32.ServiceStatus
	err := s.host.Poll(node.Pace{Pause: pollEvery, Limit: limit}, func() (_ bool, err error) {
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
		return now.Sub(moved) >= max(patience, hint), late
	})
	return status, err
}

// settled waits until a service is not on its way from one state to another.
func (s SystemAPI) settled(name, to string) (win32.ServiceStatus, error) {
	return s.await(name, to, func(state uint32) bool { return !pending(state) })
}

const toRun, toStop = "become running", "stop"

// StartService implements [HostAPI]. It judges the state that the service has
// now: one that ends before it runs is an error at once, with its exit code.
func (s SystemAPI) StartService(name string) error {
	return named("start service", name, s.startService(name))
}

func (s SystemAPI) startService(name string) error {
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
			return &advice{hosterr.Text(hosterr.ErrFailedPrecondition, "the service is paused"),
				"whoever paused it has to resume it, or to stop it first"}
		}
		err = s.host.Node.API.StartService(name)
		if win32.IsCode(err, win32.ERROR_SERVICE_ALREADY_RUNNING) {
			continue // somebody else started it, or is stopping it
		}
		if win32.IsCode(err, win32.ERROR_SERVICE_DISABLED) {
			return &advice{serviceError(err),
				"its start type has to be changed first, as by: sc.exe config " + name + " start= demand"}
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
	return hosterr.Text(hosterr.ErrUnavailable, "the service is started and stopped by others at the same time")
}

// died says why a service ended instead of running.
func died(status win32.ServiceStatus) error {
	var err error
	switch status.ExitCode {
	case 0:
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "the service stopped right after it was started, without an error")
	case uint32(win32.ERROR_SERVICE_SPECIFIC_ERROR):
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "the service stopped right after it was started, with its own error %d", status.SpecificExitCode)
	default:
		code := win32.Errno(status.ExitCode)
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "the service stopped right after it was started, with exit code %d: %w", status.ExitCode, code)
	}
	return &advice{err,
		"the node's event log, System, has what the service said"}
}

// StopService implements [HostAPI].
func (s SystemAPI) StopService(name string, force bool) error {
	return named("stop service", name, s.stopService(name, force))
}

func (s SystemAPI) stopService(name string, force bool) error {
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
			return &advice{hosterr.Text(hosterr.ErrFailedPrecondition, "services that are not stopped depend on it: %s: %w",
				strings.Join(needed, ", "), win32.ERROR_DEPENDENT_SERVICES_RUNNING), "with force they are stopped too"}
		}
		for _, d := range needed {
			if err := s.mayChange(d); err != nil {
				return fmt.Errorf("it needs %s to stop first: %w", d, err)
			}
		}
		for _, d := range needed {
			err := s.stop(d)
			if win32.IsCode(err, win32.ERROR_DEPENDENT_SERVICES_RUNNING) {
				break // what needs it was started meanwhile, or they need each other: look again
			}
			if err = serviceError(err); err != nil && !errors.Is(err, hosterr.ErrNotFound) {
				return fmt.Errorf("it needs %s to stop first: %w", d, err)
			}
		}
	}
	return &advice{hosterr.Text(hosterr.ErrFailedPrecondition, "services that depend on it cannot be stopped, or are started again: %s: %w",
		strings.Join(needed, ", "), win32.ERROR_DEPENDENT_SERVICES_RUNNING), "they may depend on each other in a circle, or somebody restarts them"}
}

// stop stops one service and waits for it. Its errors are those of Windows.
func (s SystemAPI) stop(name string) error {
	status, err := s.settled(name, toStop)
	if err != nil || status.State == win32.SERVICE_STOPPED {
		return err
	}
	_, err = s.host.Node.API.ControlService(name, win32.SERVICE_CONTROL_STOP)
	if win32.IsCode(err, win32.ERROR_SERVICE_NOT_ACTIVE) {
		return nil
	}
	// ERROR_SERVICE_CANNOT_ACCEPT_CTRL: it is on its way somewhere, perhaps
	// because another call stops it. Where to, the wait will show.
	if err != nil && !win32.IsCode(err, win32.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) {
		return err
	}
	_, err = s.await(name, toStop, func(state uint32) bool { return state == win32.SERVICE_STOPPED })
	return err
}

// dependents lists what needs name and is not stopped, paused services
// included: each once, and what nobody else of them needs first. That it is
// asked for level by level makes it right whether or not Windows answers with
// indirect dependents too, and a circle ends where it began.
func (s SystemAPI) dependents(name string) ([]string, error) {
	seen := map[string]bool{strings.ToLower(name): true}
	var order []string
	var visit func(string) error
	visit = func(name string) error {
		if err := s.host.Ctx.Err(); err != nil {
			return err
		}
		list, err := s.host.Node.API.DependentServices(name, win32.SERVICE_ACTIVE)
		if err != nil {
			return hosterr.Wrap("list what depends on service", hosterr.Quote(name), serviceError(err))
		}
		for _, d := range list {
			if key := strings.ToLower(d.Name); !seen[key] {
				seen[key] = true
				if err := visit(d.Name); errors.Is(err, hosterr.ErrNotFound) {
					continue // it was removed just now
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
