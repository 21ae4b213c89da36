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
	"golang.org/x/sys/windows/svc/mgr"

	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
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

// service returns the process of the service csiproxy.
func service() (pid uint32, err error) {
	m, err := mgr.Connect()
	if err != nil {
		return 0, err
	}
	defer m.Disconnect()
	s, err := m.OpenService("csiproxy")
	if err != nil {
		return 0, err
	}
	defer s.Close()
	status, err := s.Query()
	return status.ProcessId, err
}

// An upgrade while a format runs, and while a client is connected: the format ends first and
// its answer arrives, and then the new process answers the same client.
func TestUpgradeDuringFormat(t *testing.T) {
	exe := proxyIn(t)
	h := newHost(t, online())
	v := rawVolume(t, h)
	if pid, err := service(); !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		t.Fatalf("this machine has a service csiproxy, process %d: %v", pid, err)
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

	const held = 10 * time.Second
	began := make(chan struct{})
	h.server.SetFormatEvents(func(err error) []Event {
		close(began)
		time.Sleep(held)
		if err != nil {
			t.Errorf("the model's format: %v", err)
		}
		return []Event{{EventFinished, []byte{1, 0, 0, 0, 0, 0, 0, 0}}}
	})
	format := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := client.FormatVolume(t.Context(), &volumev1.FormatVolumeRequest{VolumeId: v})
		t.Logf("the format returned after %v", time.Since(start).Round(100*time.Millisecond))
		format <- err
	}()
	select {
	case <-began:
	case err := <-format:
		t.Fatalf("FormatVolume: %v", err)
	}
	run(proxyIn(t), "upgrade")
	upgraded := time.Since(start)
	t.Logf("the upgrade ended after %v", upgraded.Round(100*time.Millisecond))
	if err := <-format; err != nil {
		t.Errorf("the format that was running: %v", err)
	}
	if upgraded < held {
		t.Errorf("the upgrade ended after %v, before the format", upgraded)
	}
	second, err := service()
	if err != nil || second == first {
		t.Errorf("the service has process %d, as before the upgrade: %v", second, err)
	}
	if !formatted() {
		t.Error("the volume has no file system")
	}
	t.Attr("measured", fmt.Sprintf("a format that was held for %v ended, the upgrade ended after %v, and the new process answered the same client", held, upgraded.Round(100*time.Millisecond)))
}
