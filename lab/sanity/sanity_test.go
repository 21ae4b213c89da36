package sanity_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/internal/exampledriver"
	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// csi-sanity passes for the example driver, whose controller is that of a cloud. A second
// suite fails, because its driver does not start.
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
	endpoint := exampledriver.Start(t, n)
	suite := sanity.Suite{Name: "example", Controller: controller, Files: n.Filesystem(), VolumeID: preset.VolumeID,
		Start: func() (string, error) { return endpoint, nil }}
	broken := suite
	broken.Name, broken.Start = "broken", func() (string, error) { return "", os.ErrNotExist }
	results, err := sanity.Run(t.Output(), suite, broken)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := results[0], results[1]
	t.Logf("%s: %s", good.Suite, good)
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
	if failed := bad.In(sanity.Failed); len(failed) > 0 && strings.Contains(failed[0].String(), "\n") {
		t.Errorf("a failed spec is %q, want one line", failed[0])
	}
	if len(bad.In(sanity.Passed)) > 0 || len(bad.In(sanity.Failed)) == 0 || !strings.Contains(bad.In(sanity.Failed)[0].Message, os.ErrNotExist.Error()) {
		t.Errorf("a driver that does not start: %s, want each spec to fail with the error of Start", bad)
	}
	if _, err := sanity.Run(t.Output(), suite); err == nil {
		t.Error("a second Run succeeds, want an error")
	}
}
