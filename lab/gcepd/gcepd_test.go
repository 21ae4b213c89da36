package gcepd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
	"github.com/kubernetes-csi/csi-proxy/lab/winlab"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// failing are the specs of csi-sanity that fail, with v1 and with the beta versions, and
// whose fault that is.
var failing = []struct{ spec, fault, why string }{
	{"Node Service NodeStageVolume should fail when no volume capability is provided", "the driver",
		"at its end csi-sanity unstages the volume, which was never staged. That is to succeed; the driver asks for the volume at the staging path and returns the error that there is none"},
	{"Node Service NodeExpandVolume should fail when no volume path is provided", "the driver", "the same"},
	{"Node Service NodeExpandVolume should fail when volume is not found", "the driver", "it returns Internal for a disk that it does not find, and not NotFound"},
}

// expectation is what a story of a volume is to do: complete, or fail at a step with a text
// in its error.
type expectation struct {
	cloud, versions string
	step, text, why string
}

func (s expectation) expected() string {
	if s.step == "" {
		return "a complete story"
	}
	return fmt.Sprintf("%s to fail with %q", s.step, s.text)
}

// stories are the stories that the test runs.
var stories = []expectation{
	{cloud: "gce", versions: "v1"},
	{cloud: "gce", versions: "beta"},
	{cloud: "gce-nvme", versions: "v1"},
	{cloud: "gce-nvme", versions: "beta", step: "NodeStageVolume", text: "could not find disk number",
		why: "the published v1beta2 calls the identifier `serialNumber`, and the driver looks for `SerialNumber`"},
}

// The driver, its .exe as it is, works with our proxy as far as the tables say.
func TestGCEPD(t *testing.T) {
	l := open(t)
	n := simnode.New(t, func(c *simnode.Config) { c.Attach = "seen" }) // the driver does not rescan, and a cloud needs longer than Windows to attach
	l.mirror(n)
	served := map[string]*serve.Server{
		"v1":   serve.Start(t, n),
		"beta": serve.Start(t, n, func(c *serve.Config) { c.APIs = winlab.BeforeV1() }),
	}

	preset := named(t, "gce")
	controller, metadata := startCloud(t, n, preset)
	suite := func(versions string) sanity.Suite {
		return sanity.Suite{
			Name: versions, Controller: controller, Files: n.Filesystem(), VolumeID: preset.VolumeID,
			Start: func() (string, error) { return l.start(served[versions].Dir(), metadata) },
		}
	}
	results, err := sanity.Run(t.Output(), suite("v1"), suite("beta"))
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		t.Logf("csi-sanity, %s: %s", result.Suite, result)
		checkSpecs(t, result)
	}

	for _, s := range stories {
		controller, metadata := startCloud(t, n, named(t, s.cloud))
		endpoint, err := l.start(served[s.versions].Dir(), metadata)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := story.Run(t.Context(), story.Config{
			Endpoint: endpoint, Controller: controller, Files: n.Filesystem(), Pod: story.NewPod(n), Name: "story-" + s.cloud + "-" + s.versions,
			Retry: 1,
		})
		t.Logf("story of %s, %s:\n%s", s.cloud, s.versions, story.String(steps))
		switch {
		case err == nil && s.step != "":
			t.Errorf("story of %s, %s: complete, want %s to fail with %q", s.cloud, s.versions, s.step, s.text)
		case err != nil && (s.step == "" || !strings.HasPrefix(err.Error(), s.step+": ") || !strings.Contains(err.Error(), s.text)):
			t.Errorf("story of %s, %s: %v, want %s", s.cloud, s.versions, err, s.expected())
		}
	}

	if calls := kill(t, l); calls > 0 {
		t.Logf("after the kill NodeStageVolume succeeded at call %d", calls)
	}
}

// checkSpecs compares the specs that failed with the table.
func checkSpecs(t *testing.T, result sanity.Result) {
	t.Helper()
	known := map[string]bool{}
	for _, f := range failing {
		known[f.spec] = true
		if !slices.ContainsFunc(result.Specs, func(s sanity.Spec) bool { return s.Name == f.spec }) {
			t.Errorf("csi-sanity, %s: there is no spec %q", result.Suite, f.spec)
		}
	}
	for _, s := range result.Specs {
		switch {
		case s.State == sanity.Failed && !known[s.Name]:
			t.Errorf("csi-sanity, %s: %s\nfails unexpectedly: %s", result.Suite, s.Name, s.Message)
		case s.State != sanity.Failed && known[s.Name]:
			t.Errorf("csi-sanity, %s: %s\n%s unexpectedly; change the table", result.Suite, s.Name, s.State)
		}
	}
	if len(result.Left) > 0 {
		t.Errorf("csi-sanity, %s: the driver left something in %q", result.Suite, result.Left)
	}
}
