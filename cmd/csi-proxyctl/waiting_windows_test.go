package main

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// This process has a pipe that a service of Windows, which stands in for csi-proxy, does not
// serve.
func TestExamineServer(t *testing.T) {
	running, err := winsvc.Processes()
	if err != nil {
		t.Fatal(err)
	}
	service := ""
	for name, pid := range running {
		if pid != 0 && pid != uint32(os.Getpid()) {
			service = name
		}
	}
	if service == "" {
		t.Fatalf("no service runs: %v", running)
	}
	path := pipe.Path("csi-proxy-waiting-" + rand.Text())
	l, err := pipes.ListenAt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	found := examineServer(winsvc.Installed{Name: service}, []string{path})
	t.Logf("%+v", found)
	if len(found) != 1 || found[0].Result != resultProblem || !strings.Contains(found[0].What, "the service "+service) || !strings.Contains(found[0].Hint, "taskkill") {
		t.Errorf("findings %+v, want one with the service and this process", found)
	}
	if found := examineServer(winsvc.Installed{Name: "no-such-service"}, []string{path}); len(found) != 0 {
		t.Errorf("without the service: %+v", found)
	}
}
