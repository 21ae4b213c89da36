package sanity_test

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/internal/exampledriver"
	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// csi-sanity passes for the example driver, whose controller is that of a cloud.
func TestRun(t *testing.T) {
	n := simnode.New(t)
	preset, err := cloud.Named("example")
	if err != nil {
		t.Fatal(err)
	}
	controller, err := cloud.New(n, preset).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	suite := sanity.Suite{Endpoint: exampledriver.Start(t, n), Controller: controller, Files: n.Filesystem(), VolumeID: preset.VolumeID}
	good, err := sanity.Run(t.Output(), suite)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("csi-sanity: %s", good)
	for _, s := range good.In(sanity.Failed) {
		t.Errorf("%s: %s", s.Name, s.Message)
	}
	if len(good.Left) > 0 {
		t.Errorf("left on the node: %q", good.Left)
	}
	if passed := len(good.In(sanity.Passed)); passed < 25 {
		t.Errorf("%d specs passed, want at least 25", passed)
	}
	names := map[string]bool{}
	for _, s := range good.Specs {
		names[s.Name] = true
		if !strings.HasPrefix(s.Name, "Node Service ") && !strings.HasPrefix(s.Name, "Identity Service ") {
			t.Errorf("spec %q ran, want those of the node and identity services only", s.Name)
		}
	}
	if want := "Node Service NodeGetInfo should return appropriate values"; !names[want] {
		t.Errorf("no spec is called %q", want)
	}
	if _, err := sanity.Run(t.Output(), suite); err == nil {
		t.Error("a second Run succeeds, want an error")
	}
}
