package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

const (
	servedName  = "csi-proxy-verify-service"
	failingName = "csi-proxy-verify-failing"
	// fails is the argument of a service that ends with failingCode soon after its start.
	fails       = "fails"
	failingCode = 3
	// ends is that of one that ends before it registers, and adds a byte to a file.
	ends = "ends"
)

// runServedService is the process of a service: it serves this node on pipes of its own,
// with the daemon's server and its code for services.
func runServedService(args []string) error {
	if len(args) < 2 {
		return errors.New("a service needs its name and the prefix of its pipes")
	}
	prefix := args[1]
	if prefix == ends && len(args) > 2 {
		return runEnd(args[2])
	}
	_, err := winsvc.Run(func(ctx context.Context, _ string, ready func()) int {
		if prefix == fails {
			ready()
			time.Sleep(500 * time.Millisecond)
			return failingCode
		}
		if err := serveAs(ctx, prefix, ready); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
		return 0
	}, os.Exit)
	return err
}

func serveAs(ctx context.Context, prefix string, ready func()) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	n, err := node.OpenNative(node.NativeOptions{FormatHelper: self, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	s, err := services.Open(n)
	if err != nil {
		return err
	}
	server, err := serve.Open(ctx, serve.Config{
		Log:    slog.New(slog.DiscardHandler),
		Listen: func(name string) (net.Listener, error) { return pipes.ListenAt(pipe.Path(prefix + name)) },
		Ready:  ready,
	}, serve.Pipes(wire.Services(wire.Groups{
		Disk: s.Disk, Volume: s.Volume, Filesystem: s.Filesystem, SMB: s.SMB, ISCSI: s.ISCSI, System: s.System,
	}))...)
	if err != nil {
		return err
	}
	return server.Serve(ctx)
}

// runService installs this program as a service, and does with it what an administrator,
// Windows and a crash do.
func runService(t *testing.T, o options) {
	switch {
	case o.Simulated:
		t.Skip("needs Windows: a simulated node runs no programs")
	case !o.MachineSettings:
		t.Skip("installs a service: needs -machine-settings")
	}
	prefix := fmt.Sprintf("%sservice-%d-", directoryPrefix, os.Getpid())
	s := install(t, o, servedName, "", testbed.ServedService, servedName, prefix)
	dial := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := pipe.Dial(ctx, pipe.Path(prefix+"csi-proxy-disk-v1"))
		if err != nil {
			return err
		}
		return c.Close()
	}
	var running svc.Status
	t.Run("it runs only when its pipes answer", func(t *testing.T) {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		running = awaitService(t, s, svc.Running, 0)
		if err := dial(); err != nil {
			t.Error(err)
		}
		if running.Accepts&svc.AcceptStop == 0 || running.Accepts&svc.AcceptShutdown == 0 || running.Accepts&svc.AcceptPreShutdown != 0 {
			t.Errorf("it accepts %#x, want a stop and the shutdown, and not the notice before it, in which the kubelet unmounts", running.Accepts)
		}
	})
	t.Run("it starts again after its process was ended", func(t *testing.T) {
		if o.Wine {
			t.Skip("needs Windows: Wine has no failure actions")
		}
		if err := s.SetRecoveryActions([]mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: 100 * time.Millisecond}}, 60); err != nil {
			t.Fatal(err)
		}
		p, err := os.FindProcess(int(running.ProcessId))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		awaitService(t, s, svc.Running, running.ProcessId)
		if err := dial(); err != nil {
			t.Error(err)
		}
	})
	t.Run("it stops, and its pipes are gone", func(t *testing.T) {
		if _, err := s.Control(svc.Stop); err != nil {
			t.Fatal(err)
		}
		if status := awaitService(t, s, svc.Stopped, 0); status.Win32ExitCode != 0 {
			t.Errorf("exit code %d, want 0", status.Win32ExitCode)
		}
		if err := dial(); !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
			t.Errorf("a pipe of the stopped service: %v, want that there is none", err)
		}
	})
	t.Run("a failure is an end without a stop", func(t *testing.T) {
		s := install(t, o, failingName, "", testbed.ServedService, failingName, fails)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		// Only then Windows runs failure actions without the failure-actions flag.
		if status := awaitService(t, s, svc.Stopped, 0); status.Win32ExitCode == 0 {
			t.Error("exit code 0, want that of a process that ended without a word")
		} else {
			t.Attr("answer", fmt.Sprintf("exit code %d, of the service %d", status.Win32ExitCode, status.ServiceSpecificExitCode))
		}
	})
}

// install makes a service that runs a program, or this one, until the end of the test.
func install(t *testing.T, o options, name, exe string, args ...string) *mgr.Service {
	t.Helper()
	if exe == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		exe = self
	}
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Disconnect()
	if err := (&journal{o.Journal}).add(entry{Kind: kindService, Name: name}); err != nil {
		t.Fatal(err)
	}
	s, err := m.CreateService(name, exe, mgr.Config{StartType: mgr.StartManual}, args...)
	if err != nil {
		t.Fatalf("create service %s: %v", name, err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := testbed.RemoveService(name); err != nil {
			t.Error(err)
		}
	})
	return s
}

// awaitService waits for a state, of another process than old if that is not 0.
func awaitService(t *testing.T, s *mgr.Service, want svc.State, old uint32) (status svc.Status) {
	t.Helper()
	pace := node.Pace{Pause: 50 * time.Millisecond, Limit: time.Minute}
	err := node.Poll(context.Background(), node.SystemClock{}, pace, func() (bool, error) {
		var err error
		status, err = s.Query()
		early := status.Win32ExitCode == uint32(windows.ERROR_SERVICE_NEVER_STARTED)
		if err == nil && (status.State != want || old != 0 && status.ProcessId == old || want == svc.Stopped && early) {
			err = fmt.Errorf("the service is in state %d, want %d", status.State, want)
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return status
}
