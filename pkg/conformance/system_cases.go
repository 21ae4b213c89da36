package conformance

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// initiator is the service that drivers start.
const initiator = "MSiSCSI"

func (e *env) start(name string) error {
	return do(e, e.n.System.StartService, &system.StartServiceRequest{Name: name})
}

func (e *env) stop(name string, force bool) error {
	return do(e, e.n.System.StopService, &system.StopServiceRequest{Name: name, Force: force})
}

func (e *env) service(name string) (system.GetServiceResponse, error) {
	return get(e, e.n.System.GetService, &system.GetServiceRequest{Name: name}, func(r *system.GetServiceResponse) system.GetServiceResponse { return *r })
}

// wantStatus checks the state of services.
func (e *env) wantStatus(want system.ServiceStatus, names ...string) {
	e.Helper()
	for _, name := range names {
		if got, err := e.service(name); err != nil || got.Status != want {
			e.Errorf("service %s has the status %d, %v, want %d", name, got.Status, err, want)
		}
	}
}

func (e *env) services(all ...Service) {
	e.Helper()
	if e.n.SetService == nil {
		e.lacks("make services")
	}
	for _, s := range all {
		e.need("make a service", e.n.SetService(s))
	}
}

// diamond makes running services: top depends on left and right, and both of
// these depend on base.
func (e *env) diamond() (all []string) {
	e.Helper()
	e.services(
		Service{Name: "contract-base", State: "running"},
		Service{Name: "contract-left", State: "running", DependsOn: []string{"contract-base"}},
		Service{Name: "contract-right", State: "running", DependsOn: []string{"contract-base"}},
		Service{Name: "contract-top", State: "running", DependsOn: []string{"contract-left", "contract-right"}},
	)
	return []string{"contract-base", "contract-left", "contract-right", "contract-top"}
}

func systemCases() []testCase {
	const stopped, running = system.SERVICE_STATUS_STOPPED, system.SERVICE_STATUS_RUNNING
	return []testCase{
		{name: "iSCSI initiator is started and stopped repeatedly", run: func(e *env) {
			for range 2 {
				for range 2 {
					e.ok(e.start(initiator))
					e.wantStatus(running, initiator)
				}
				for range 2 {
					e.ok(e.stop(initiator, false))
					e.wantStatus(stopped, initiator)
				}
			}
		}},
		{name: "service names ignore case", run: func(e *env) {
			upper, err := e.service(strings.ToUpper(initiator))
			e.ok(err)
			lower, err := e.service(strings.ToLower(initiator))
			e.ok(err)
			if upper != lower || upper.DisplayName == "" {
				e.Errorf("%+v and %+v, want the same service with a display name", upper, lower)
			}
			e.ok(e.start(strings.ToLower(initiator)))
			e.wantStatus(running, strings.ToUpper(initiator))
		}},
		{name: "unknown service is not found", run: func(e *env) {
			e.want("GetService", errOf(e.service("contract-nosuch")), hosterr.ErrNotFound, "contract-nosuch")
			// contract-left is allowed where services are limited, so it must be not found.
			if e.n.SetService == nil && e.n.Confined {
				e.lacks("allow the services of these cases")
			}
			e.want("StartService", e.start("contract-left"), hosterr.ErrNotFound, "contract-left")
			e.want("StopService", e.stop("contract-left", true), hosterr.ErrNotFound, "contract-left")
		}},
		{name: "malformed service names are refused", run: func(e *env) {
			for _, name := range []string{"", `a\b`, "a/b", "a\x00b", "a\nb", strings.Repeat("x", 257)} {
				e.want("GetService", errOf(e.service(name)), hosterr.ErrInvalid)
				if name != "" && e.n.Confined {
					continue // not listed
				}
				e.want("StartService", e.start(name), hosterr.ErrInvalid)
				e.want("StopService", e.stop(name, true), hosterr.ErrInvalid)
			}
			// The name must not be interpreted as part of a WMI query.
			e.want("GetService", errOf(e.service("it's' OR Name LIKE '%")), hosterr.ErrNotFound)
		}},
		{name: "service with dependents is stopped only with force", run: func(e *env) {
			all := e.diamond()
			e.want("StopService", e.stop("contract-base", false), hosterr.ErrFailedPrecondition, "contract-left", "contract-right", "contract-top")
			e.wantStatus(running, all...)
			e.ok(e.stop("contract-base", true))
			e.wantStatus(stopped, all...)
			// A start also starts the services that it depends on, but no dependents.
			e.ok(e.start("contract-base"))
			e.wantStatus(running, "contract-base")
			e.wantStatus(stopped, "contract-left", "contract-right", "contract-top")
			e.ok(e.start("contract-top"))
			e.wantStatus(running, all...)
		}},
		{name: "stopped dependents do not prevent a stop", run: func(e *env) {
			all := e.diamond()
			for _, name := range []string{"contract-top", "contract-right", "contract-left"} {
				e.ok(e.stop(name, false))
			}
			e.ok(e.stop("contract-base", false))
			e.wantStatus(stopped, all...)
		}},
		{name: "unlisted service can be queried but not changed", run: func(e *env) {
			e.confined()
			e.services(Service{Name: "contract-unlisted", State: "running"})
			e.want("StopService", e.stop("contract-unlisted", true), hosterr.ErrPermissionDenied, "contract-unlisted", initiator)
			e.want("StartService", e.start("contract-unlisted"), hosterr.ErrPermissionDenied, "contract-unlisted", initiator)
			e.wantStatus(running, "contract-unlisted")
		}},
		{name: "force does not stop unlisted services", run: func(e *env) {
			e.confined()
			e.services(Service{Name: "contract-base", State: "running"},
				Service{Name: "contract-left", State: "running", DependsOn: []string{"contract-base"}},
				Service{Name: "contract-unlisted", State: "running", DependsOn: []string{"contract-left"}})
			e.want("StopService", e.stop("contract-base", true), hosterr.ErrPermissionDenied, "contract-unlisted")
			e.wantStatus(running, "contract-base", "contract-left", "contract-unlisted")
		}},
		{name: "service that starts on demand is stopped after a restart", run: func(e *env) {
			if e.n.Restart == nil {
				e.lacks("restart Windows")
			}
			e.services(Service{Name: "contract-base", State: "running"})
			e.ok(e.start(initiator))
			e.need("restart Windows", e.n.Restart())
			e.wantStatus(stopped, "contract-base")
			e.ok(e.start("contract-base"))
			e.wantStatus(running, "contract-base")
		}},
		{name: "firmware serial number does not change", run: func(e *env) {
			var first string
			for range 2 {
				out, err := e.n.System.GetBIOSSerialNumber(e.ctx, &system.GetBIOSSerialNumberRequest{})
				e.ok(checkResponse(e, out, err))
				if first == "" {
					first = out.SerialNumber
				}
				if out.SerialNumber == "" || out.SerialNumber != first {
					e.Errorf("serial number %q, and %q before", out.SerialNumber, first)
				}
			}
		}},
	}
}
