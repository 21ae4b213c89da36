package gcepd

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/lab/session"
	"github.com/kubernetes-csi/csi-proxy/lab/shim"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
	"github.com/kubernetes-csi/csi-proxy/lab/winlab"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// failing are the specs of csi-sanity that fail with v1, and whose fault that is.
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
	{cloud: "gce", versions: "beta"},
	{cloud: "gce-nvme", versions: "beta", step: "NodeStageVolume", text: "could not find disk number",
		why: "the published v1beta2 calls the identifier `serialNumber`, and the driver looks for `SerialNumber`"},
	{cloud: "gce", versions: "v1"},
	{cloud: "gce-nvme", versions: "v1"},
}

// The driver, its .exe as it is, works with our proxy as far as the tables say.
func TestGCEPD(t *testing.T) {
	exe := os.Getenv("CSI_PROXY_GCEPD_BINARY")
	if exe == "" {
		t.Skip("CSI_PROXY_GCEPD_BINARY does not name the driver's .exe; make gcepd builds it")
	}
	n := simnode.New(t, func(c *simnode.Config) { c.Attach = "seen" }) // the driver does not rescan, and a cloud needs longer than Windows to attach
	var lab *winlab.Lab                                                // one at a time: each watches the files of the node
	now := ""
	start := func(versions, metadata string) (endpoint string, err error) {
		if now != versions {
			config := winlab.Config{Log: t.Output()}
			if versions == "beta" {
				config.Serve = serve.Config{APIs: winlab.BeforeV1()}
			}
			if lab != nil {
				err = lab.Close()
			}
			next, opening := winlab.Open(t.Context(), n, config)
			if err = errors.Join(err, opening); err != nil {
				return "", err
			}
			lab, now = next, versions
		}
		err = lab.RunWith(t.Context(), winlab.Driver{Exe: exe, Args: []string{"--endpoint=ENDPOINT", "--run-controller-service=false", "--v=4"}, Env: cloud.Environment(metadata)})
		return lab.Endpoint(), err
	}
	controller, metadata, preset := startCloud(t, n, "gce")
	if _, err := start("v1", metadata); errors.Is(err, session.ErrNoWine) || errors.Is(err, shim.ErrNoCompiler) {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	result, err := sanity.Run(t.Output(), sanity.Suite{Endpoint: lab.Endpoint(), Controller: controller, Files: n.Filesystem(), VolumeID: preset.VolumeID})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("csi-sanity: %s", result)
	checkSpecs(t, result)

	for _, s := range stories {
		controller, metadata, _ := startCloud(t, n, s.cloud)
		endpoint, err := start(s.versions, metadata)
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
}

// startCloud starts a cloud's controller and metadata server for a node.
func startCloud(t *testing.T, n *simnode.Node, name string) (controller, metadata string, preset cloud.Cloud) {
	t.Helper()
	preset, err := cloud.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	c := cloud.New(n, preset)
	if controller, err = c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if metadata, err = c.StartMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	return controller, metadata, preset
}

// checkSpecs compares the specs that failed with the table.
func checkSpecs(t *testing.T, result sanity.Result) {
	t.Helper()
	known := map[string]bool{}
	for _, f := range failing {
		known[f.spec] = true
		if !slices.ContainsFunc(result.Specs, func(s sanity.Spec) bool { return s.Name == f.spec }) {
			t.Errorf("csi-sanity: there is no spec %q", f.spec)
		}
	}
	for _, s := range result.Specs {
		switch {
		case s.State == sanity.Failed && !known[s.Name]:
			t.Errorf("csi-sanity: %s\nfails unexpectedly: %s", s.Name, s.Message)
		case s.State != sanity.Failed && known[s.Name]:
			t.Errorf("csi-sanity: %s\n%s unexpectedly; change the table", s.Name, s.State)
		}
	}
	if len(result.Left) > 0 {
		t.Errorf("csi-sanity: the driver left something in %q", result.Left)
	}
}
