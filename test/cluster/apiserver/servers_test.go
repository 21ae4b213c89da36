package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// measured records a figure, which the run of the stage prints.
func measured(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Attr("measured", fmt.Sprintf(format, args...))
}

// figures writes lines as measured figures.
type figures struct{ t *testing.T }

func (f figures) Write(line []byte) (int, error) {
	measured(f.t, "%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

// startServers starts etcd and kube-apiserver, which end with the test. It returns them, and a
// kubectl of their administrator.
func startServers(t *testing.T) (s *cluster.Servers, kubectl string) {
	t.Helper()
	source, err := programs.Source(".")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := programs.Kubernetes(t.Context(), source, figures{t})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	s, err = cluster.StartServers(t.Context(), t.TempDir(), exe)
	if err != nil {
		t.Fatal(err)
	}
	measured(t, "etcd and kube-apiserver %s: ready %.1f s after their start", s.Version, time.Since(started).Seconds())
	t.Cleanup(func() {
		for _, p := range s.Processes() {
			if t.Failed() {
				t.Logf("the end of the output of %s:\n%s", p.Name, p.End())
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	kubectl = filepath.Join(t.TempDir(), "kubectl")
	script := fmt.Sprintf("#!/bin/sh\nKUBECONFIG='%s' exec '%s' kubectl \"$@\"\n", s.Kubeconfig(), exe)
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return s, kubectl
}

// await calls try until it succeeds, for a minute.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s is not ready after a minute: %v", what, err)
}
