package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"

	"example.com/csi-driver/driver"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "want -endpoint and -node-id"},
		{[]string{"-endpoint", "unix:///a", "-node-id", "n", "more"}, 2, "no arguments"},
		{[]string{"-nonsense"}, 2, "flag provided but not defined"},
		{[]string{"-h"}, 0, "-host-process"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), c.args, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("run(%q) = %d, %q, want %d, %q", c.args, code, stderr.String(), c.code, c.want)
		}
	}
}

// The program serves CSI over the proxy's standard pipes, under the name that it is given, and
// stops.
func TestServe(t *testing.T) {
	for name, args := range map[string][]string{driver.Name: nil, "other.example.com": {"-driver-name", "other.example.com"}} {
		t.Run(name, func(t *testing.T) { testServe(t, name, args...) })
	}
}

func testServe(t *testing.T, name string, args ...string) {
	serve.Start(t, simnode.New(t), func(c *serve.Config) { c.StandardPipes = true })
	endpoint := "unix://" + filepath.Join(t.TempDir(), "csi.sock")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	code := make(chan int)
	go func() {
		code <- run(ctx, append([]string{"-endpoint", endpoint, "-node-id", "n"}, args...), t.Output())
	}()

	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	identity := csi.NewIdentityClient(conn)
	info, err := identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != name {
		t.Errorf("GetPluginInfo = %v, %v, want %s", info, err, name)
	}
	if _, err := identity.Probe(t.Context(), &csi.ProbeRequest{}); err != nil {
		t.Errorf("Probe: %v", err)
	}
	var stderr bytes.Buffer
	if args != nil { // one of them is stopped as by its preStop hook
		if c := run(t.Context(), []string{"-stop", "-endpoint", endpoint}, &stderr); c != 0 {
			t.Errorf("csi-driver -stop = %d, %s", c, &stderr)
		}
	} else {
		stop()
	}
	if c := <-code; c != 0 {
		t.Errorf("the driver ended with %d, want 0", c)
	}
}

func TestListenOnTCP(t *testing.T) {
	l, err := listen("tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestListenRefusesOtherEndpoints(t *testing.T) {
	for _, endpoint := range []string{"", "unix://", "tcp://", "/csi/csi.sock", "udp://127.0.0.1:1"} {
		if l, err := listen(endpoint); err == nil {
			l.Close()
			t.Errorf("listen(%q) succeeds, want an error", endpoint)
		}
	}
}
