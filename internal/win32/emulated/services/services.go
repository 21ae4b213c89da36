package services

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// serviceNameMax is in characters (Microsoft: CreateServiceW, lpServiceName).
const serviceNameMax = 256

// validServiceName reports whether a service can have this name.
func validServiceName(name string) bool {
	return name != "" && len(win32.UTF16(name)) <= serviceNameMax && !strings.ContainsAny(name, `/\`+"\x00")
}

func startType(name string) (uint32, error) {
	switch name {
	case "boot":
		return win32.SERVICE_BOOT_START, nil
	case "system":
		return win32.SERVICE_SYSTEM_START, nil
	case "auto":
		return win32.SERVICE_AUTO_START, nil
	case "", "manual":
		return win32.SERVICE_DEMAND_START, nil
	case "disabled":
		return win32.SERVICE_DISABLED, nil
	}
	return 0, fmt.Errorf("start type %q, want boot, system, auto, manual or disabled", name)
}

// startsByItself reports whether Windows starts such services at boot.
func startsByItself(startType uint32) bool { return startType <= win32.SERVICE_AUTO_START }

// firstState returns the state of the service on a new node.
func firstState(c nodespec.Service) (uint32, error) {
	switch c.State {
	case "running":
		return win32.SERVICE_RUNNING, nil
	case "stopped":
		return win32.SERVICE_STOPPED, nil
	case "paused":
		return win32.SERVICE_PAUSED, nil
	case "":
		if kind, err := startType(c.StartType); err != nil || startsByItself(kind) {
			return win32.SERVICE_RUNNING, err
		}
		return win32.SERVICE_STOPPED, nil
	}
	return 0, fmt.Errorf("state %q, want running, stopped or paused", c.State)
}

// Validate refuses descriptions of services that cannot be.
func Validate(c nodespec.Service) error {
	if !validServiceName(c.Name) {
		return fmt.Errorf("service name %q, want 1 to %d characters without slashes", c.Name, serviceNameMax)
	}
	if _, err := startType(c.StartType); err != nil {
		return fmt.Errorf("service %q: %w", c.Name, err)
	}
	if _, err := firstState(c); err != nil {
		return fmt.Errorf("service %q: %w", c.Name, err)
	}
	if c.StartDelay < 0 || c.StopDelay < 0 || c.WaitHint < 0 {
		return fmt.Errorf("service %q: negative delay", c.Name)
	}
	switch c.Hangs {
	case "", "start", "stop":
	default:
		return fmt.Errorf("service %q: hangs at %q, want start or stop", c.Name, c.Hangs)
	}
	return nil
}

// ISCSI must run for the calls of the iSCSI initiator (docs/develop/contract/iscsi.md#the-service).
const ISCSI = "MSiSCSI"

// defaultServices are on every node whose configuration does not have services
// with these names.
func defaultServices() []nodespec.Service {
	return []nodespec.Service{
		{Name: "RpcSs", DisplayName: "Remote Procedure Call (RPC)", StartType: "auto", RefusesStop: true},
		{Name: "LanmanWorkstation", DisplayName: "Workstation", StartType: "auto"},
		{Name: "kubelet", StartType: "auto", DependsOn: []string{"RpcSs"}},
		{Name: ISCSI, DisplayName: "Microsoft iSCSI Initiator Service", StartType: "manual"},
	}
}

// service is the stored state of a service.
type service struct {
	nodespec.Service
	// Now is the state. A pending state ends at until, which is not stored: when
	// the node is opened again, pending states have ended.
	Now      uint32 `json:"now"`
	ExitCode uint32 `json:"exitCode,omitempty"`

	since, until time.Time
}

func serviceKey(name string) string { return "service/" + strings.ToLower(name) }

// status returns the state at a time. It is a function of time: a pending service
// reaches its next state without any event.
func (s service) status(now time.Time) win32.ServiceStatus {
	st := win32.ServiceStatus{State: s.Now, ExitCode: s.ExitCode}
	hung := s.Now == win32.SERVICE_START_PENDING && s.Hangs == "start" || s.Now == win32.SERVICE_STOP_PENDING && s.Hangs == "stop"
	pending := s.Now == win32.SERVICE_START_PENDING || s.Now == win32.SERVICE_STOP_PENDING
	switch {
	case pending && (hung || now.Before(s.until)):
		st.WaitHint = uint32(time.Duration(s.WaitHint).Milliseconds())
		if step := time.Duration(s.WaitHint) / 4; step > 0 && !hung {
			st.CheckPoint = 1 + uint32(now.Sub(s.since)/step)
		}
		return st
	case s.Now == win32.SERVICE_START_PENDING && s.Dies != 0:
		st.State, st.ExitCode = win32.SERVICE_STOPPED, s.Dies
	case s.Now == win32.SERVICE_START_PENDING:
		st.State = win32.SERVICE_RUNNING
	case s.Now == win32.SERVICE_STOP_PENDING:
		st.State = win32.SERVICE_STOPPED
	}
	if (st.State == win32.SERVICE_RUNNING || st.State == win32.SERVICE_PAUSED) && !s.RefusesStop {
		st.ControlsAccepted = win32.SERVICE_ACCEPT_STOP
	}
	return st
}

// Services are the node's service control manager.
type Services struct {
	*kernel.Kernel
	services map[string]*service // by key
}

// New returns a service control manager without services.
func New(k *kernel.Kernel) *Services {
	return &Services{Kernel: k, services: map[string]*service{}}
}

// iscsiServiceKey is serviceKey(iscsiService). It is a constant because every
// call uses it.
const iscsiServiceKey = "service/msiscsi"

// ISCSIRuns reports whether the service of the iSCSI initiator runs.
func (n *Services) ISCSIRuns() bool {
	s := n.services[iscsiServiceKey]
	return s != nil && s.status(n.Now()).State == win32.SERVICE_RUNNING
}

// Make creates the services of a new node.
func (n *Services) Make() error {
	all := slices.Clone(n.Config.Services)
	for _, d := range defaultServices() {
		if !slices.ContainsFunc(all, func(c nodespec.Service) bool { return strings.EqualFold(c.Name, d.Name) }) {
			all = append(all, d)
		}
	}
	for _, c := range all {
		if n.service(c.Name) != nil {
			return fmt.Errorf("service %q is in the configuration twice", c.Name)
		}
		if err := n.setService(c); err != nil {
			return err
		}
	}
	return nil
}

// setService creates or replaces a service. The caller holds the node's lock.
func (n *Services) setService(c nodespec.Service) error {
	now, err := firstState(c)
	if err != nil {
		return err
	}
	return n.Cause(n.Transact(func(t *kernel.Tx) error {
		c.DependsOn = slices.Clone(c.DependsOn)
		n.putService(t, service{Service: c, Now: now})
		return nil
	}))
}

func (n *Services) putService(t *kernel.Tx, s service) {
	key := serviceKey(s.Name)
	t.Put(key, s)
	t.OnCommit(func() { n.services[key] = &s })
}

// Load loads the stored services. Their pending states have ended.
func (n *Services) Load() error {
	for _, k := range n.Store.Keys("service/") {
		var s service
		if err := n.Store.Read(k, &s); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		if err := Validate(s.Service); err != nil || serviceKey(s.Name) != k {
			return errors.Join(fmt.Errorf("%s: not a service: %+v", k, s), err)
		}
		n.services[k] = &s
	}
	return nil
}

// service returns the service with this name, or nil.
func (n *Services) service(name string) *service { return n.services[serviceKey(name)] }

// SetService creates a service, or replaces the one with its name.
func (n *Services) SetService(c nodespec.Service) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	if err := Validate(c); err != nil {
		return err
	}
	return n.setService(c)
}

// Boot starts the services that Windows starts at boot, and no others,
// all at once.
func (n *Services) Boot(t *kernel.Tx) {
	for _, s := range n.services {
		next := *s
		next.Now, next.ExitCode, next.since, next.until = win32.SERVICE_STOPPED, 0, time.Time{}, time.Time{}
		if kind, err := startType(s.StartType); err == nil && startsByItself(kind) && s.StartError == 0 {
			next.Now = win32.SERVICE_START_PENDING
		}
		n.putService(t, next)
	}
}

// Show returns the services, sorted by name.
func (n *Services) Show() []nodespec.ServiceInfo {
	names := map[uint32]string{
		win32.SERVICE_STOPPED: "stopped", win32.SERVICE_START_PENDING: "start pending", win32.SERVICE_STOP_PENDING: "stop pending",
		win32.SERVICE_RUNNING: "running", win32.SERVICE_PAUSED: "paused",
	}
	var all []nodespec.ServiceInfo
	for _, s := range n.services {
		all = append(all, described(*s, names[s.status(n.Now()).State]))
	}
	slices.SortFunc(all, func(a, b nodespec.ServiceInfo) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return all
}

func described(s service, status string) nodespec.ServiceInfo {
	s.StartType = cmp.Or(s.StartType, "manual")
	s.DependsOn = slices.Clone(s.DependsOn)
	return nodespec.ServiceInfo{Service: s.Service, Status: status}
}
