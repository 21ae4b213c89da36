package wine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fsapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The service, created as in the published instructions.
const (
	serviceName = "csiproxy"
	installDir  = `C:\etc\kubernetes\node\bin`
	logFile     = `C:\etc\kubernetes\logs\csi-proxy.log`
	flags       = `-windows-service -log_file=\etc\kubernetes\logs\csi-proxy.log -logtostderr=false`
)

// sc runs sc.exe.
func sc(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("sc.exe", args...).CombinedOutput(); err != nil {
		t.Fatalf("sc.exe %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// service returns the service csiproxy that runs a program. The end of the test
// stops and deletes it.
func service(t *testing.T, what program, more ...string) *mgr.Service {
	t.Helper()
	path := what.path(t)
	installed := filepath.Join(installDir, filepath.Base(path))
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Disconnect()
	if s, err := m.OpenService(serviceName); err == nil { // another installation, or left by a run that was killed
		s.Close()
		t.Fatalf("this machine has a service %s, and the test would replace its program: sc.exe delete %[1]s", serviceName)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, dir := range []string{installDir, filepath.Dir(logFile)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	to, err := os.Create(installed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	os.Remove(logFile)

	sc(t, "create", serviceName, "binPath=", strings.Join(append([]string{installed, flags}, more...), " "))
	s, err := m.OpenService(serviceName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if st, err := s.Query(); err == nil && st.State != svc.Stopped && st.State != svc.StartPending {
			s.Control(svc.Stop)
			awaitState(t, s, svc.Stopped)
		}
		if t.Failed() {
			log, err := os.ReadFile(logFile)
			t.Logf("the service's log (%v):\n%s", err, log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		sc(t, "delete", serviceName)
		m, err := mgr.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Disconnect()
		if left, err := m.OpenService(serviceName); !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
			t.Errorf("the service can still be opened after sc.exe delete: %v, %v", left, err)
		}
	})
	return s
}

// awaitState waits until the service is in a state.
func awaitState(t *testing.T, s *mgr.Service, want svc.State) svc.Status {
	t.Helper()
	var st svc.Status
	err := nodetest.Eventually(timeout, func() (err error) {
		if st, err = s.Query(); err == nil && st.State != want {
			err = fmt.Errorf("the service is in state %d, want %d", st.State, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The service as published, over the local Windows.
func TestServiceAsPublished(t *testing.T) {
	s := service(t, csiProxy)
	begin := time.Now()
	sc(t, "start", serviceName)
	awaitState(t, s, svc.Running)
	measured(t, "running after %v", time.Since(begin))
	if n := answering(t, apiPipes()); n < 17 {
		t.Errorf("the service runs, but %d pipes respond", n)
	}
	st, err := s.Control(svc.Interrogate)
	if err != nil || st.State != svc.Running || st.Accepts&svc.AcceptStop == 0 {
		t.Errorf("query: %+v, %v, want a running service that accepts a stop", st, err)
	}

	c, err := filesystem.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const dir = `C:\var\lib\kubelet\plugins\service`
	if _, err := c.Mkdir(t.Context(), &fsapi.MkdirRequest{Path: dir}); err != nil {
		t.Errorf("Mkdir: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("the directory that the service created: %v, %v", info, err)
	}

	admins, err := transport.Connect(pipe.Path(admin.Pipe))
	if err != nil {
		t.Fatal(err)
	}
	defer admins.Close()
	if _, err := admin.NewAdminClient(admins).Stop(t.Context(), &admin.StopRequest{}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "Stop-Service") {
		t.Errorf("Stop = %v, want %v, because the service manager stops it", err, codes.FailedPrecondition)
	}

	sc(t, "stop", serviceName)
	st = awaitState(t, s, svc.Stopped)
	if st.Win32ExitCode != 0 || st.ServiceSpecificExitCode != 0 {
		t.Errorf("exit codes %d and %d, want 0", st.Win32ExitCode, st.ServiceSpecificExitCode)
	}
	if n := answering(t, apiPipes()); n != 0 {
		t.Errorf("the service is stopped, but %d pipes respond", n)
	}
	log, err := os.ReadFile(logFile)
	if err != nil || !strings.Contains(string(log), "Stopped CSI-Proxy Server") {
		t.Errorf("the log does not have the stop: %v\n%s", err, log)
	}

	// Start it again: nothing that a stop leaves may prevent that.
	sc(t, "start", serviceName)
	awaitState(t, s, svc.Running)
}

// A stop waits for the running call, including its response, and then ends.
func TestServiceStopDuringCall(t *testing.T) {
	s := service(t, csiProxySim)
	sc(t, "start", serviceName)
	awaitState(t, s, svc.Running)

	node, err := control.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	// Long enough to request the stop in the meantime.
	const delay = 8 * time.Second
	if err := node.Fail(nodespec.Fault{Call: "NtCreateFile", Times: 1, Delay: delay}); err != nil {
		t.Fatal(err)
	}
	c, err := filesystem.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type answer struct {
		exists bool
		err    error
	}
	answered := make(chan answer, 1)
	begin := time.Now()
	go func() {
		out, err := c.PathExists(context.Background(), &fsapi.PathExistsRequest{Path: `C:\var\lib\kubelet`})
		answered <- answer{out.GetExists(), err}
	}()
	err = nodetest.Eventually(timeout, func() error {
		out, err := node.Show()
		if err == nil && (len(out.Faults) != 1 || out.Faults[0].Hits != 1) {
			err = fmt.Errorf("the call has not met the fault: %+v", out.Faults)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	st, err := s.Control(svc.Stop)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != svc.StopPending && st.State != svc.Running {
		t.Errorf("after the request to stop during a call, the service is in state %d at once", st.State)
	}
	if got := <-answered; got.err != nil || !got.exists {
		t.Errorf("the running call: exists %t, %v; want its response", got.exists, got.err)
	}
	if took := time.Since(begin); took < delay {
		t.Errorf("the call took %v, so it was not delayed", took)
	}
	if st := awaitState(t, s, svc.Stopped); st.Win32ExitCode != 0 || st.ServiceSpecificExitCode != 0 {
		t.Errorf("exit codes %d and %d, want 0", st.Win32ExitCode, st.ServiceSpecificExitCode)
	}
}

// A service that cannot serve never runs. Its process ends without reporting a stop, so that
// Windows runs failure actions.
func TestServiceCannotServe(t *testing.T) {
	t.Run("rights", func(t *testing.T) { cannotServe(t, "-pipe-sddl=nonsense", "flag -pipe-sddl: security descriptor", 1) })
	t.Run("flag", func(t *testing.T) { cannotServe(t, "-nonsense", "flag provided but not defined: -nonsense", 2) })
}

// cannotServe starts a service with a wrong flag, and checks the reason in its log and the exit code.
func cannotServe(t *testing.T, flag, reason string, code int) {
	s := service(t, csiProxy, flag)
	if err := s.Start(); err != nil && err != windows.ERROR_SERVICE_REQUEST_TIMEOUT { // the process may have ended already
		t.Fatal(err)
	}
	err := nodetest.Eventually(timeout, func() error {
		log, err := os.ReadFile(logFile)
		if err == nil && !strings.Contains(string(log), reason) {
			err = fmt.Errorf("the log does not have the reason:\n%s", log)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	st, err := s.Query()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(int(st.ProcessId)); st.ProcessId != 0 && err == nil { // else it has ended already
		if ended, err := p.Wait(); err != nil || ended.ExitCode() != code {
			t.Errorf("the process of the service ended with %v, %v, want exit code %d", ended, err, code)
		}
	}
	if st.State == svc.Running {
		t.Error("the service runs")
	}
	// Windows notices that the process is gone; Wine says that the service still starts, or that
	// it never did, if the process ended at once.
	if st, err := s.Query(); err == nil && st.State == svc.Stopped && st.Win32ExitCode != uint32(windows.ERROR_PROCESS_ABORTED) && st.Win32ExitCode != uint32(windows.ERROR_SERVICE_NEVER_STARTED) {
		t.Errorf("the service reported that it stopped: %+v", st)
	}
}
