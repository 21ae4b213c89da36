package emulated

import (
	"errors"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func state(t *testing.T, n *Node, name string) uint32 {
	t.Helper()
	s, err := n.ServiceStatus(name)
	ok(t, err)
	return s.State
}

// Refusals of the service control manager, from the pages of Microsoft that
// services.go cites.
func TestServiceControlRefusals(t *testing.T) {
	n := start(t, nodespec.Config{Services: []nodespec.Service{
		{Name: "up", State: "running"}, {Name: "off", StartType: "disabled"}, {Name: "stuck", Hangs: "start"},
		{Name: "leaving", State: "running", Hangs: "stop"}, {Name: "firm", State: "running", RefusesStop: true},
		{Name: "base", State: "running"}, {Name: "top", State: "paused", DependsOn: []string{"base"}},
		{Name: "orphan", DependsOn: []string{"nobody"}}, {Name: "heir", DependsOn: []string{"frail"}}, {Name: "frail", Dies: 1},
	}})
	stop := func(name string) error {
		_, err := n.ControlService(name, win32.SERVICE_CONTROL_STOP)
		return err
	}
	status := func(name string) error { _, err := n.ServiceStatus(name); return err }
	config := func(name string) error { _, err := n.ServiceConfig(name); return err }
	dependents := func(name string) error { _, err := n.DependentServices(name); return err }
	ok(t, errors.Join(n.StartService("stuck"), stop("leaving")))
	pause := func() error { _, err := n.ControlService("up", 2); return err }
	for _, c := range []struct {
		name string
		err  error
		want win32.Errno
	}{
		{"status of an unknown service", status("nosuch"), win32.ERROR_SERVICE_DOES_NOT_EXIST},
		{"config of an invalid name", config(`a\b`), win32.ERROR_INVALID_NAME},
		{"status of the empty name", status(""), win32.ERROR_INVALID_NAME},
		{"dependents of an unknown service", dependents("nosuch"), win32.ERROR_SERVICE_DOES_NOT_EXIST},
		{"start of a running service", n.StartService("up"), win32.ERROR_SERVICE_ALREADY_RUNNING},
		{"start of a start pending service", n.StartService("stuck"), win32.ERROR_SERVICE_ALREADY_RUNNING},
		{"start of a stop pending service", n.StartService("leaving"), win32.ERROR_SERVICE_ALREADY_RUNNING},
		{"start of a paused service", n.StartService("top"), win32.ERROR_SERVICE_ALREADY_RUNNING},
		{"start of a disabled service", n.StartService("off"), win32.ERROR_SERVICE_DISABLED},
		{"start with a missing dependency", n.StartService("orphan"), win32.ERROR_SERVICE_DEPENDENCY_FAIL},
		{"start with a dependency that fails", n.StartService("heir"), win32.ERROR_SERVICE_DEPENDENCY_FAIL},
		{"start of an unknown service", n.StartService("nosuch"), win32.ERROR_SERVICE_DOES_NOT_EXIST},
		{"stop of a stopped service", stop("off"), win32.ERROR_SERVICE_NOT_ACTIVE},
		{"stop of a start pending service", stop("stuck"), win32.ERROR_SERVICE_CANNOT_ACCEPT_CTRL},
		{"stop of a stop pending service", stop("leaving"), win32.ERROR_SERVICE_CANNOT_ACCEPT_CTRL},
		{"stop of a service that refuses it", stop("firm"), win32.ERROR_INVALID_SERVICE_CONTROL},
		{"stop with running dependents", stop("base"), win32.ERROR_DEPENDENT_SERVICES_RUNNING},
		{"an unknown control", pause(), win32.ERROR_INVALID_SERVICE_CONTROL},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %s", c.name, c.err, c.want.Name())
		}
	}
}

func TestStartDependenciesFirst(t *testing.T) {
	now := time.Unix(1e9, 0)
	n := startOn(t, nodespec.Config{Services: []nodespec.Service{
		{Name: "base", StartDelay: nodespec.Duration(2 * time.Second), WaitHint: nodespec.Duration(4 * time.Second)},
		{Name: "top", DependsOn: []string{"BASE"}, StartDelay: nodespec.Duration(time.Second)},
	}}, kernel.Machine{Now: func() time.Time { return now }})
	ok(t, n.StartService("top"))
	var points []uint32
	for range 2 {
		s, err := n.ServiceStatus("base")
		if err != nil || s.State != win32.SERVICE_START_PENDING || s.WaitHint != 4000 || s.ControlsAccepted != 0 {
			t.Errorf("base = %+v, %v", s, err)
		}
		points = append(points, s.CheckPoint)
		now = now.Add(time.Second)
	}
	if points[1] <= points[0] {
		t.Errorf("the check points %v do not grow", points)
	}
	if state(t, n, "base") != win32.SERVICE_RUNNING || state(t, n, "top") != win32.SERVICE_START_PENDING {
		t.Errorf("after 2 s base is %d and top %d", state(t, n, "base"), state(t, n, "top"))
	}
	now = now.Add(time.Second)
	if state(t, n, "top") != win32.SERVICE_RUNNING {
		t.Errorf("after 3 s top is %d", state(t, n, "top"))
	}
}

// State changes survive the process; pending states have ended when the node is
// opened again.
func TestServicesSurviveReopen(t *testing.T) {
	cfg := nodespec.Config{StateDir: t.TempDir(), Services: []nodespec.Service{{Name: "slow", StartDelay: nodespec.Duration(time.Hour)}, {Name: "up", State: "running"}}}
	n, err := Open(cfg, kernel.Machine{})
	ok(t, err)
	_, stopped := n.ControlService("up", win32.SERVICE_CONTROL_STOP)
	err = errors.Join(n.StartService("slow"), stopped, n.SetService(nodespec.Service{Name: "late", StartType: "auto"}), n.Close())
	ok(t, err)
	n = start(t, cfg)
	for name, want := range map[string]uint32{"slow": win32.SERVICE_RUNNING, "up": win32.SERVICE_STOPPED, "late": win32.SERVICE_RUNNING} {
		if got := state(t, n, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

func TestInvalidServiceConfigs(t *testing.T) {
	for name, c := range map[string][]nodespec.Service{
		"a slash": {{Name: "a/b"}}, "twice": {{Name: "a"}, {Name: "A"}},
	} {
		if n, err := Open(nodespec.Config{Services: c}, kernel.Machine{}); err == nil {
			t.Errorf("%s: opened", name)
			n.Close()
		}
	}
	if n, err := Open(nodespec.Config{Firmware: nodespec.Firmware{SMBIOS: "xyz"}}, kernel.Machine{}); err == nil {
		t.Error("SMBIOS tables that are not hexadecimal: opened")
		n.Close()
	}
}
