package driver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
)

// proxyIn copies the csi-proxy.exe that CSI_PROXY_BINARY names to a new directory.
func proxyIn(t *testing.T) (exe string) {
	t.Helper()
	path := os.Getenv("CSI_PROXY_BINARY")
	if path == "" {
		t.Skip("needs Windows or Wine and CSI_PROXY_BINARY, the path of csi-proxy.exe; the stage wine of make test builds it and sets that")
	}
	exe = filepath.Join(t.TempDir(), "csi-proxy.exe")
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(exe)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return exe
}

// service returns the process of the service csiproxy, and its state.
func service() (status svc.Status, err error) {
	m, err := mgr.Connect()
	if err != nil {
		return status, err
	}
	defer m.Disconnect()
	s, err := m.OpenService("csiproxy")
	if err != nil {
		return status, err
	}
	defer s.Close()
	return s.Query()
}

// An upgrade while a format runs, and while a client is connected: the format ends first and
// its answer arrives, and then the new process answers the same client.
func TestUpgradeDuringFormat(t *testing.T) {
	exe := proxyIn(t)
	h := newHost(t, online())
	v := rawVolume(t, h)
	if s, err := service(); !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		t.Fatalf("this machine has a service csiproxy, process %d: %v", s.ProcessId, err)
	}
	dir := filepath.Join(t.TempDir(), "csi-proxy")
	run := func(exe string, args ...string) {
		t.Helper()
		out, err := exec.Command(exe, args...).CombinedOutput()
		t.Logf("csi-proxy %q\n%s", args, out)
		if err != nil {
			t.Errorf("csi-proxy %q: %v", args, err)
		}
	}
	defer func() {
		run(exe, "uninstall")
		log, err := os.ReadFile(filepath.Join(dir, "logs", "csi-proxy.log"))
		if t.Failed() {
			t.Logf("the log of the service (%v):\n%s", err, log)
		}
	}()
	run(exe, "install", "-dir", dir, "-start=demand", "--", "-format-backend=native")
	first, err := service()
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
	client, err := volumeclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	formatted := func() bool {
		t.Helper()
		out, err := client.IsVolumeFormatted(t.Context(), &volumev1.IsVolumeFormattedRequest{VolumeId: v})
		if err != nil {
			t.Error(err)
		}
		return out.GetFormatted()
	}
	if formatted() {
		t.Fatal("the volume has a file system")
	}

	began, upgraded := make(chan struct{}), make(chan struct{})
	h.server.SetFormatEvents(func(err error) []Event {
		close(began)
		// The format is held until the upgrade has asked the service to stop.
		err = errors.Join(err, nodetest.Eventually(time.Minute, func() error {
			if s, err := service(); err != nil || s.State != svc.StopPending {
				return fmt.Errorf("the service is in state %d, %v", s.State, err)
			}
			return nil
		}))
		select {
		case <-upgraded:
			t.Error("the upgrade ended before the format")
		default:
		}
		if err != nil {
			t.Errorf("the model's format: %v", err)
		}
		return []Event{{EventFinished, []byte{1, 0, 0, 0, 0, 0, 0, 0}}}
	})
	format := make(chan error, 1)
	go func() {
		_, err := client.FormatVolume(t.Context(), &volumev1.FormatVolumeRequest{VolumeId: v})
		format <- err
	}()
	select {
	case <-began:
	case err := <-format:
		t.Fatalf("FormatVolume: %v", err)
	}
	run(proxyIn(t), "upgrade")
	close(upgraded)
	if err := <-format; err != nil {
		t.Errorf("the format that was running: %v", err)
	}
	second, err := service()
	if err != nil || second.ProcessId == first.ProcessId {
		t.Errorf("the service has process %d, as before the upgrade: %v", second.ProcessId, err)
	}
	if !formatted() {
		t.Error("the volume has no file system")
	}
	t.Attr("measured", "a format that ran when the upgrade began ended, then the upgrade, and the new process answered the same client")
}
