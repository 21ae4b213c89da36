package system_test

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
)

// fixture is the system service over an emulated node.
type fixture struct {
	t *testing.T
	*nodetest.Node
	system *system.System

	mu    sync.Mutex
	calls []string // starts and controls, in the order of the calls
}

func newFixture(t *testing.T, cfg nodespec.Config) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.Node = nodetest.New(t, cfg, func(c *win32.Call) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.Name == "StartService" || c.Name == "ControlService" {
			f.calls = append(f.calls, c.Name+" "+c.Path)
		}
	})
	var err error
	if f.system, err = system.New(systemapi.On(f.Node.Node)); err != nil {
		t.Fatal(err)
	}
	return f
}

func services(all ...nodespec.Service) nodespec.Config { return nodespec.Config{Services: all} }

func (f *fixture) start(name string) error {
	_, err := f.system.StartService(f.t.Context(), &system.StartServiceRequest{Name: name})
	return err
}

func (f *fixture) stop(name string, force bool) error {
	_, err := f.system.StopService(f.t.Context(), &system.StopServiceRequest{Name: name, Force: force})
	return err
}

func (f *fixture) status(name string) system.ServiceStatus {
	f.t.Helper()
	out, err := f.system.GetService(f.t.Context(), &system.GetServiceRequest{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Status
}

// controls returns the names of the services that Windows was asked to stop, in order.
func (f *fixture) controls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, c := range f.calls {
		if name, ok := strings.CutPrefix(c, "ControlService "); ok {
			names = append(names, name)
		}
	}
	return names
}

// wants fails the test unless err has the kind and contains all texts.
func wants(t *testing.T, what string, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Errorf("%s = %v, want %v", what, err, kind)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s = %v, want %q in it", what, err, text)
		}
	}
}

func TestGetService(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "boot", StartType: "boot"},
		nodespec.Service{Name: "sys", StartType: "system"},
		nodespec.Service{Name: "off", StartType: "disabled", DisplayName: "Not used"},
		nodespec.Service{Name: "held", State: "paused"},
	))
	for _, c := range []struct {
		name string
		want system.GetServiceResponse
	}{
		{"boot", system.GetServiceResponse{DisplayName: "boot", StartType: system.START_TYPE_BOOT, Status: system.SERVICE_STATUS_RUNNING}},
		{"SYS", system.GetServiceResponse{DisplayName: "sys", StartType: system.START_TYPE_SYSTEM, Status: system.SERVICE_STATUS_RUNNING}},
		{"off", system.GetServiceResponse{DisplayName: "Not used", StartType: system.START_TYPE_DISABLED, Status: system.SERVICE_STATUS_STOPPED}},
		{"held", system.GetServiceResponse{DisplayName: "held", StartType: system.START_TYPE_MANUAL, Status: system.SERVICE_STATUS_PAUSED}},
		{"kubelet", system.GetServiceResponse{DisplayName: "kubelet", StartType: system.START_TYPE_AUTOMATIC, Status: system.SERVICE_STATUS_RUNNING}},
		{"msiscsi", system.GetServiceResponse{DisplayName: "Microsoft iSCSI Initiator Service", StartType: system.START_TYPE_MANUAL, Status: system.SERVICE_STATUS_STOPPED}},
	} {
		got, err := f.system.GetService(t.Context(), &system.GetServiceRequest{Name: c.name})
		if err != nil || *got != c.want {
			t.Errorf("GetService(%q) = %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	_, err := f.system.GetService(t.Context(), &system.GetServiceRequest{Name: "nosuch"})
	wants(t, "GetService(nosuch)", err, hosterr.ErrNotFound, `get service "nosuch": not found`)
}

func TestStartWaitsUntilRunning(t *testing.T) {
	f := newFixture(t, services(nodespec.Service{Name: "slow", StartDelay: nodespec.Duration(5 * time.Second)}))
	begun := f.Clock.Now()
	if err := f.start("slow"); err != nil {
		t.Fatal(err)
	}
	if got := f.status("slow"); got != system.SERVICE_STATUS_RUNNING {
		t.Errorf("status %v, want running", got)
	}
	if took := f.Clock.Now().Sub(begun); took < 5*time.Second || took > 5*time.Second+200*time.Millisecond {
		t.Errorf("took %v, want 5 s and at most one poll more", took)
	}
	// The second start has nothing to do and makes no Win32 call.
	begun, f.calls = f.Clock.Now(), nil
	if err := f.start("slow"); err != nil || len(f.calls) != 0 || f.Clock.Now() != begun {
		t.Errorf("second start = %v after %v with %q, want immediate success without a call", err, f.Clock.Now().Sub(begun), f.calls)
	}
}

func TestStartOfServiceThatDies(t *testing.T) {
	f := newFixture(t, services(nodespec.Service{Name: "frail", Dies: 1067, StartDelay: nodespec.Duration(time.Second)}))
	begun := f.Clock.Now()
	err := f.start("frail")
	wants(t, "start", err, hosterr.ErrFailedPrecondition, `start service "frail"`, "stopped immediately after its start", "exit code 1067", "terminated unexpectedly")
	if !errors.Is(err, win32.ERROR_PROCESS_ABORTED) || hosterr.HintOf(err) == "" {
		t.Errorf("start = %v, hint %q: want ERROR_PROCESS_ABORTED and a hint", err, hosterr.HintOf(err))
	}
	if took := f.Clock.Now().Sub(begun); took > 2*time.Second {
		t.Errorf("the error took %v, want at most 2 s", took)
	}
}

func TestStartOfServiceThatHangs(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "stuck", Hangs: "start"},
		nodespec.Service{Name: "nostop", Hangs: "stop", State: "running"},
		nodespec.Service{Name: "minute", Hangs: "start", WaitHint: nodespec.Duration(time.Minute)},
		nodespec.Service{Name: "weeks", Hangs: "start", WaitHint: nodespec.Duration(1000 * time.Hour)},
	))
	took := func(do func() error) (time.Duration, error) {
		begun := f.Clock.Now()
		err := do()
		return f.Clock.Now().Sub(begun).Truncate(time.Second), err
	}
	for _, c := range []struct {
		name, text string
		do         func() error
		want       time.Duration
	}{
		{"stuck", "timed out waiting for service stuck to become running", func() error { return f.start("stuck") }, 30 * time.Second},
		{"nostop", "timed out waiting for service nostop to stop", func() error { return f.stop("nostop", false) }, 30 * time.Second},
		{"a service that asks for a minute", "timed out waiting for service minute to become running", func() error { return f.start("minute") }, time.Minute},
		{"a service that asks for weeks", "timed out waiting for service weeks to become running", func() error { return f.start("weeks") }, 2 * time.Minute},
	} {
		d, err := took(c.do)
		wants(t, c.name, err, hosterr.ErrUnavailable, c.text)
		if d != c.want {
			t.Errorf("%s: gave up after %v, want %v", c.name, d, c.want)
		}
	}
}

func TestStartWaitsForProgress(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "large", StartDelay: nodespec.Duration(2 * time.Minute), WaitHint: nodespec.Duration(10 * time.Second)},
		nodespec.Service{Name: "endless", StartDelay: nodespec.Duration(time.Hour), WaitHint: nodespec.Duration(10 * time.Second)},
	))
	if err := f.start("large"); err != nil {
		t.Errorf("a service that took 2 minutes with progress: %v", err)
	}
	begun := f.Clock.Now()
	wants(t, "a service that takes an hour", f.start("endless"), hosterr.ErrUnavailable, "timed out")
	if took := f.Clock.Now().Sub(begun); took > 6*time.Minute {
		t.Errorf("waited %v, want a bound", took)
	}
}

func TestStartFailures(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "off", StartType: "disabled"},
		nodespec.Service{Name: "held", State: "paused"},
		nodespec.Service{Name: "nologon", StartError: 1069},
		nodespec.Service{Name: "needy", DependsOn: []string{"off"}},
		nodespec.Service{Name: "yin", DependsOn: []string{"yang"}},
		nodespec.Service{Name: "yang", DependsOn: []string{"yin"}},
	))
	for name, want := range map[string]error{
		"off": win32.ERROR_SERVICE_DISABLED, "nologon": win32.ERROR_SERVICE_LOGON_FAILED,
		"needy": win32.ERROR_SERVICE_DEPENDENCY_FAIL, "yin": win32.ERROR_CIRCULAR_DEPENDENCY,
	} {
		err := f.start(name)
		wants(t, name, err, hosterr.ErrFailedPrecondition, want.Error())
		if !errors.Is(err, want) {
			t.Errorf("start %s = %v, want %v", name, err, want)
		}
	}
	if hint := hosterr.HintOf(f.start("off")); !strings.Contains(hint, "start type") {
		t.Errorf("hint for a disabled service: %q", hint)
	}
	wants(t, "held", f.start("held"), hosterr.ErrFailedPrecondition, "paused")
	wants(t, "nosuch", f.start("nosuch"), hosterr.ErrNotFound, "not found")
}

func TestStopOfStoppedService(t *testing.T) {
	f := newFixture(t, services(nodespec.Service{Name: "a", State: "stopped"}, nodespec.Service{Name: "b", State: "running", StopDelay: nodespec.Duration(time.Second)}))
	for _, name := range []string{"a", "b", "b"} {
		if err := f.stop(name, false); err != nil {
			t.Errorf("stop %s = %v", name, err)
		}
	}
	if got := f.controls(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("Windows was asked to stop %q, want b once", got)
	}
	wants(t, "a service that refuses", f.stop("RpcSs", true), hosterr.ErrFailedPrecondition, "RpcSs")
}

// A start of a service that is stopping waits until it has stopped.
func TestStartDuringStop(t *testing.T) {
	f := newFixture(t, services(nodespec.Service{Name: "b", State: "running", StopDelay: nodespec.Duration(3 * time.Second)}))
	if _, err := f.Windows.ControlService("b", win32.SERVICE_CONTROL_STOP); err != nil {
		t.Fatal(err)
	}
	if err := f.start("b"); err != nil || f.status("b") != system.SERVICE_STATUS_RUNNING {
		t.Errorf("start = %v, status %v", err, f.status("b"))
	}
}

// top depends on left and right, which both depend on base. A paused service depends
// on base as well.
func TestStopDiamondOfDependents(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "base", State: "running"},
		nodespec.Service{Name: "left", State: "running", DependsOn: []string{"BASE"}},
		nodespec.Service{Name: "right", State: "running", DependsOn: []string{"base"}, StopDelay: nodespec.Duration(2 * time.Second)},
		nodespec.Service{Name: "top", State: "running", DependsOn: []string{"left", "right"}},
		nodespec.Service{Name: "paused", State: "paused", DependsOn: []string{"base"}},
		nodespec.Service{Name: "idle", State: "stopped", DependsOn: []string{"base"}},
	))
	err := f.stop("base", false)
	wants(t, "stop without force", err, hosterr.ErrFailedPrecondition, "left", "right", "top", "paused")
	if strings.Contains(err.Error(), "idle") || !strings.Contains(hosterr.HintOf(err), "force") {
		t.Errorf("stop without force = %v (hint %q), want the running dependents and a hint", err, hosterr.HintOf(err))
	}
	if got := f.status("left"); got != system.SERVICE_STATUS_RUNNING {
		t.Errorf("after a stop without force, left is %v", got)
	}

	f.calls = nil
	if err := f.stop("base", true); err != nil {
		t.Fatal(err)
	}
	// base is stopped first: Windows reports whether dependents prevent this.
	got := f.controls()
	if want := []string{"base", "left", "paused", "right", "top", "base"}; len(got) != len(want) || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Fatalf("Windows was asked to stop %q, want base first and last, and each other service once", got)
	}
	if slices.Index(got, "top") > slices.Index(got, "left") || slices.Index(got, "top") > slices.Index(got, "right") || got[len(got)-1] != "base" {
		t.Errorf("order %q, want top before left and right, and base last", got)
	}
	for _, name := range []string{"base", "left", "right", "top", "paused"} {
		if got := f.status(name); got != system.SERVICE_STATUS_STOPPED {
			t.Errorf("%s is %v, want stopped", name, got)
		}
	}
}

// A stop with dependents returns when its context ends.
func TestStopDependentsDeadline(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "base", State: "running"},
		nodespec.Service{Name: "left", State: "running", DependsOn: []string{"base"}, Hangs: "stop"},
		nodespec.Service{Name: "right", State: "running", DependsOn: []string{"base"}, Hangs: "stop"},
	))
	ctx, cancel := context.WithCancel(t.Context())
	polls := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name == "ServiceStatus" {
			if polls++; polls == 5 {
				cancel()
			}
		}
		return c.Do()
	})
	if _, err := f.system.StopService(ctx, &system.StopServiceRequest{Name: "base", Force: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("StopService = %v, want context.Canceled", err)
	}
	f.Observe(nil)
	if got := f.status("base"); got != system.SERVICE_STATUS_RUNNING {
		t.Errorf("base is %v, want it running, as its dependents are", got)
	}
}

// A caller that leaves while a service hangs is answered.
func TestStartDeadline(t *testing.T) {
	f := newFixture(t, services(nodespec.Service{Name: "slow", State: "stopped", Hangs: "start"}))
	ctx, cancel := context.WithCancel(t.Context())
	f.Observe(func(c *win32.Call) error {
		if c.Name == "ServiceStatus" {
			cancel()
		}
		return c.Do()
	})
	if _, err := f.system.StartService(ctx, &system.StartServiceRequest{Name: "slow"}); !errors.Is(err, context.Canceled) {
		t.Errorf("StartService = %v, want context.Canceled", err)
	}
}

func TestStopCircularDependents(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "yin", State: "running", DependsOn: []string{"yang"}},
		nodespec.Service{Name: "yang", State: "running", DependsOn: []string{"yin"}},
	))
	err := f.stop("yin", true)
	wants(t, "stop", err, hosterr.ErrFailedPrecondition, "yang", "could not be stopped")
	if !strings.Contains(hosterr.HintOf(err), "circle") || len(f.controls()) > 10 {
		t.Errorf("stop = %v, hint %q, after %d controls", err, hosterr.HintOf(err), len(f.controls()))
	}
}

// The order is correct even if Windows lists direct dependents only.
func TestStopDependentsOfDependents(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "base", State: "running"},
		nodespec.Service{Name: "mid", State: "running", DependsOn: []string{"base"}},
		nodespec.Service{Name: "top", State: "running", DependsOn: []string{"mid"}},
	))
	direct := &levels{f.Windows}
	f.Node.API = direct
	if err := f.stop("base", true); err != nil {
		t.Fatal(err)
	}
	if f.status("top") != system.SERVICE_STATUS_STOPPED || f.status("base") != system.SERVICE_STATUS_STOPPED {
		t.Error("something still runs")
	}
}

// levels lists direct dependents only.
type levels struct{ *emulated.Node }

func (l *levels) DependentServices(name string) ([]win32.DependentService, error) {
	all, err := l.Node.DependentServices(name)
	need := map[string]string{"mid": "base", "top": "mid"}
	return slices.DeleteFunc(all, func(d win32.DependentService) bool { return need[d.Name] != name }), err
}

// A dependent service can be removed after Windows listed it and before its own
// dependents are listed. The stop of the other service must still succeed.
func TestStopWithRemovedDependent(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "base", State: "running"},
		nodespec.Service{Name: "top", State: "running", DependsOn: []string{"base"}},
	))
	removed := false
	f.Observe(func(c *win32.Call) error {
		if c.Name == "DependentServices" && c.Path == "top" {
			removed = true
			if _, err := f.Windows.ControlService("top", win32.SERVICE_CONTROL_STOP); err != nil {
				t.Error(err)
			}
			return win32.ERROR_SERVICE_DOES_NOT_EXIST
		}
		return c.Do()
	})
	if err := f.stop("base", true); err != nil || !removed || f.status("base") != system.SERVICE_STATUS_STOPPED {
		t.Errorf("stop = %v, removed %t, base is %v", err, removed, f.status("base"))
	}
}

func TestServicesNotAllowed(t *testing.T) {
	f := newFixture(t, services(
		nodespec.Service{Name: "base", State: "running"},
		nodespec.Service{Name: "top", State: "running", DependsOn: []string{"base"}},
	))
	f.Node.AllowedServices = []string{"BASE"}
	wants(t, "start what is an allowed name in another alphabet", f.start("ba\u017fe"), hosterr.ErrPermissionDenied, "ba\u017fe")
	wants(t, "start kubelet", f.start("kubelet"), hosterr.ErrPermissionDenied, "kubelet")
	wants(t, "stop kubelet", f.stop("kubelet", true), hosterr.ErrPermissionDenied, "kubelet")
	wants(t, "stop what a service needs that is not allowed", f.stop("base", true), hosterr.ErrPermissionDenied, "top")
	for _, name := range []string{"base", "top", "kubelet"} {
		if got := f.status(name); got != system.SERVICE_STATUS_RUNNING {
			t.Errorf("%s is %v, want running", name, got)
		}
	}
}

func TestBIOSSerialNumber(t *testing.T) {
	for _, c := range []struct {
		name     string
		firmware nodespec.Firmware
		want     string
		kind     error
		text     string
	}{
		{"as configured", nodespec.Firmware{SerialNumber: "VMware-42 1d"}, "VMware-42 1d", nil, ""},
		{"by default", nodespec.Firmware{}, "EMU-0001", nil, ""},
		{"none", nodespec.Firmware{SMBIOS: hex.EncodeToString(win32.EncodeSMBIOS("a", "b", ""))}, "", hosterr.ErrNotFound, "no serial number"},
		{"tables that lie", nodespec.Firmware{SMBIOS: "00030200ff000000" + "01ff0000"}, "", nil, "claims 255 bytes"},
	} {
		f := newFixture(t, nodespec.Config{Firmware: c.firmware})
		out, err := f.system.GetBIOSSerialNumber(t.Context(), &system.GetBIOSSerialNumberRequest{})
		if c.text != "" {
			wants(t, c.name, err, c.kind, c.text)
		} else if err != nil || out.SerialNumber != c.want {
			t.Errorf("%s: %v, %v; want %q", c.name, out, err, c.want)
		}
	}
}
