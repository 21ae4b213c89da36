package services

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// openService is OpenServiceW.
//
// Source: document, OpenServiceW, ERROR_INVALID_NAME and ERROR_SERVICE_DOES_NOT_EXIST.
func (n *Services) openService(name string) (*service, error) {
	if !validServiceName(name) {
		return nil, win32.ERROR_INVALID_NAME
	}
	if s := n.service(name); s != nil {
		return s, nil
	}
	return nil, win32.ERROR_SERVICE_DOES_NOT_EXIST
}

// ServiceStatus implements [win32.Services].
//
// Source: document, QueryServiceStatusEx.
func (n *Services) ServiceStatus(name string) (status win32.ServiceStatus, err error) {
	err = n.Do(func(*kernel.Tx) error {
		s, err := n.openService(name)
		if err == nil {
			status = s.status(n.Now())
		}
		return err
	})
	return status, err
}

// ServiceConfig implements [win32.Services].
//
// Source: document, QueryServiceConfigW.
func (n *Services) ServiceConfig(name string) (config win32.ServiceConfig, err error) {
	err = n.Do(func(*kernel.Tx) error {
		s, err := n.openService(name)
		if err != nil {
			return err
		}
		config.DisplayName = cmp.Or(s.DisplayName, s.Name)
		config.StartType, err = startType(s.StartType)
		return err
	})
	return config, err
}

// StartService implements [win32.Services].
//
// Source: document, StartServiceW.
func (n *Services) StartService(name string) error {
	return n.Do(func(t *kernel.Tx) error {
		s, err := n.openService(name)
		if err != nil {
			return err
		}
		_, err = n.start(t, s, nil)
		return err
	})
}

// start starts s after the services that it depends on, and returns when it will
// run. path are the services that wait for s.
//
// Errors are those of Microsoft's page of StartServiceW. A service that is start
// or stop pending counts as running there.
//
// Source: document, StartServiceW, the table of errors.
// Source of ERROR_CIRCULAR_DEPENDENCY: inference, by the text of the code in winerror.h.
func (n *Services) start(t *kernel.Tx, s *service, path []*service) (time.Time, error) {
	if slices.Contains(path, s) {
		return time.Time{}, win32.ERROR_CIRCULAR_DEPENDENCY
	}
	now := n.Now()
	if state := s.status(now).State; state != win32.SERVICE_STOPPED {
		if len(path) == 0 {
			return time.Time{}, win32.ERROR_SERVICE_ALREADY_RUNNING
		}
		if state == win32.SERVICE_START_PENDING {
			return s.until, nil
		}
		return now, nil
	}
	if s.StartType == "disabled" {
		return time.Time{}, win32.ERROR_SERVICE_DISABLED
	}
	ready := now
	for _, name := range s.DependsOn {
		d := n.service(name)
		if d == nil {
			// Source: inference, the page of StartServiceW has ERROR_SERVICE_DEPENDENCY_DELETED
			// for a service that does not exist.
			return time.Time{}, win32.ERROR_SERVICE_DEPENDENCY_FAIL
		}
		up, err := n.start(t, d, append(slices.Clone(path), s))
		if errors.Is(err, win32.ERROR_CIRCULAR_DEPENDENCY) {
			return time.Time{}, err
		}
		if err != nil || d.Dies != 0 {
			return time.Time{}, win32.ERROR_SERVICE_DEPENDENCY_FAIL // Source: document, StartServiceW
		}
		if up.After(ready) {
			ready = up
		}
	}
	if s.StartError != 0 {
		return time.Time{}, win32.Errno(s.StartError)
	}
	next := *s
	next.Now, next.ExitCode, next.since, next.until = win32.SERVICE_START_PENDING, 0, now, ready.Add(time.Duration(s.StartDelay))
	n.putService(t, next)
	return next.until, nil
}

// ControlService implements [win32.Services] for SERVICE_CONTROL_STOP. Other
// controls fail as for a service that does not accept them.
//
// Source: document, ControlService, the table of errors. Of a service that starts, the page says
// both that it gets the control and that it does not.
func (n *Services) ControlService(name string, control uint32) (status win32.ServiceStatus, err error) {
	err = n.Do(func(t *kernel.Tx) error {
		s, err := n.openService(name)
		if err != nil {
			return err
		}
		now := n.Now()
		status = s.status(now)
		switch status.State {
		case win32.SERVICE_STOPPED:
			return win32.ERROR_SERVICE_NOT_ACTIVE
		case win32.SERVICE_START_PENDING, win32.SERVICE_STOP_PENDING:
			return win32.ERROR_SERVICE_CANNOT_ACCEPT_CTRL
		}
		if control != win32.SERVICE_CONTROL_STOP || status.ControlsAccepted&win32.SERVICE_ACCEPT_STOP == 0 {
			return win32.ERROR_INVALID_SERVICE_CONTROL
		}
		for _, d := range n.dependents(s) {
			if d.status(now).State != win32.SERVICE_STOPPED {
				return win32.ERROR_DEPENDENT_SERVICES_RUNNING
			}
		}
		next := *s
		next.Now, next.since, next.until = win32.SERVICE_STOP_PENDING, now, now.Add(time.Duration(s.StopDelay))
		n.putService(t, next)
		status = next.status(now)
		return nil
	})
	return status, err
}

// dependents returns the services that depend directly on s, sorted by name.
func (n *Services) dependents(s *service) []*service {
	var found []*service
	for _, d := range n.services {
		if slices.ContainsFunc(d.DependsOn, func(name string) bool { return strings.EqualFold(name, s.Name) }) {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b *service) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return found
}

// DependentServices implements [win32.Services]. It lists direct and indirect
// dependents that are not stopped, those without dependents of their own first (Microsoft:
// EnumDependentServicesW, "reverse sequence of start order").
//
// Source: document, EnumDependentServicesW.
func (n *Services) DependentServices(name string) (list []win32.DependentService, err error) {
	err = n.Do(func(*kernel.Tx) error {
		s, err := n.openService(name)
		if err != nil {
			return err
		}
		seen := map[*service]bool{s: true}
		var visit func(*service)
		visit = func(s *service) {
			for _, d := range n.dependents(s) {
				if seen[d] {
					continue
				}
				seen[d] = true
				visit(d)
				if status := d.status(n.Now()); status.State != win32.SERVICE_STOPPED {
					list = append(list, win32.DependentService{Name: d.Name, Status: status})
				}
			}
		}
		visit(s)
		return nil
	})
	return list, err
}
