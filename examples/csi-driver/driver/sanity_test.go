package driver_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
)

// skipped are the texts with which csi-sanity skips specs here. Any other text fails
// the test.
var skipped = map[string]string{
	"GetCapacity not supported":                            "the driver does not have this capability",
	"ListVolumes not supported":                            "the driver does not have this capability",
	"Snapshot not supported":                               "the driver does not have this capability",
	"CreateSnapshot not supported":                         "the driver does not have this capability",
	"DeleteSnapshot not supported":                         "the driver does not have this capability",
	"ListSnapshots not supported":                          "the driver does not have this capability",
	"Volume Cloning not supported":                         "the driver does not have this capability",
	"Modify volume not supported":                          "the driver does not have this capability",
	"Modify Volume not supported":                          "the driver does not have this capability",
	"ControllerModifyVolume not supported":                 "the driver does not have this capability",
	"GroupControllerService not supported":                 "the driver does not have this service",
	"ControllerPublishVolume.readonly field not supported": "the driver does not have this capability",
	"testnodevolumeattachlimit not enabled":                "the driver has no limit of volumes on a node",

	// Since CSI 1.13.
	"GetSnapshot not supported":                                 "the driver does not have this capability",
	"ControllerGetVolumeHealth not supported":                   "the driver does not have this capability",
	"ControllerListVolumeHealth not supported":                  "the driver does not have this capability",
	"NodeGetVolumeHealth not supported":                         "the driver does not have this capability",
	"NodeGetStorageHealth not supported":                        "the driver does not have this capability",
	"Service does not have single node multi writer capability": "the driver does not have this capability",

	"": "csi-sanity itself marks the spec as pending",
}

// csi-sanity passes in every setup. The test prints a table of the specs. Ginkgo runs
// one suite in a process, so all setups are parts of one.
func TestSanity(t *testing.T) {
	counts := map[string]map[types.SpecState]int{}
	skips := map[string]int{}
	var envs []*env
	for _, s := range setups() {
		e := newEnv(t, s, klog.Logger{})
		envs = append(envs, e)
		config := e.sanityConfig()
		ginkgo.Describe(s.String(), func() {
			ginkgo.BeforeEach(func() {
				if e.stopDriver == nil {
					e.serve()
					e.begin()
				}
			})
			sanity.GinkgoTest(&config)
		})
		counts[s.String()] = map[types.SpecState]int{}
	}
	ginkgo.ReportAfterSuite("count", func(r ginkgo.Report) {
		for _, spec := range r.SpecReports {
			if spec.LeafNodeType != types.NodeTypeIt {
				continue
			}
			counts[spec.ContainerHierarchyTexts[0]][spec.State]++
			if spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
				skips[spec.Failure.Message]++
			}
		}
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.Succinct, reporter.NoColor = true, true
	ginkgo.RunSpecs(t, "csi-sanity", suite, reporter)

	var table strings.Builder
	fmt.Fprintf(&table, "%-22s %-8s %-10s %6s %6s %7s\n", "kind", "versions", "mode", "passed", "failed", "skipped")
	for _, e := range envs {
		n := counts[e.setup.String()]
		passed, skipped := n[types.SpecStatePassed], n[types.SpecStateSkipped]+n[types.SpecStatePending]
		failed := -passed - skipped
		for _, c := range n {
			failed += c
		}
		fmt.Fprintf(&table, "%-22s %-8s %-10s %6d %6d %7d\n", e.setup.volumes(), e.setup.versions(), e.setup.mode(), passed, failed, skipped)
		if passed < 40 || failed > 0 {
			t.Errorf("%s: %d specs passed and %d failed, want at least 40 and none", e.setup, passed, failed)
		}
		if left := e.left(); len(left) > 0 {
			t.Errorf("%s: left on the node: %q", e.setup, left)
		}
	}
	t.Logf("csi-sanity:\n%s", table.String())
	for text, n := range skips {
		why := skipped[text]
		if why == "" {
			t.Errorf("csi-sanity skipped %d specs for an unexpected reason: %s", n, text)
		}
		t.Logf("skipped %3d specs: %s: %s", n, why, text)
	}
}

// dialSlowly connects to the driver after a delay. csi-sanity waits for a change of the
// connection's state, and never sees one if the connection is ready before it looks.
func (e *env) dialSlowly(ctx context.Context, _ string) (net.Conn, error) {
	time.Sleep(200 * time.Millisecond)
	return new(net.Dialer).DialContext(ctx, "unix", e.socket)
}

// sanityConfig makes csi-sanity use the paths of the simulated node.
func (e *env) sanityConfig() sanity.TestConfig {
	c := sanity.NewTestConfig()
	c.Address = "passthrough:///driver"
	c.DialOptions = append(c.DialOptions, grpc.WithContextDialer(e.dialSlowly))
	c.TestVolumeParameters = map[string]string{"kind": e.setup.kind}
	c.IdempotentCount = 3
	c.TargetPath = kubelet + `\pods\pod-1`
	c.StagingPath = kubelet + `\plugins\kubernetes.io\csi\example\globalmount`
	create := func(path string) (string, error) { return path, e.mkdir(path) }
	c.CreateTargetDir, c.CreateStagingDir = create, create
	c.RemoveTargetPath, c.RemoveStagingPath = e.rmdir, e.rmdir
	c.CheckPath = func(path string) (sanity.PathKind, error) {
		switch there, err := e.exists(path); {
		case err != nil:
			return "", err
		case !there:
			return sanity.PathIsNotFound, nil
		}
		return sanity.PathIsOther, nil
	}
	var secrets strings.Builder
	secrets.WriteString("NodeStageVolumeSecret:\n")
	for k, v := range stageSecrets() {
		fmt.Fprintf(&secrets, "  %s: %s\n", k, v)
	}
	c.SecretsFile = filepath.Join(e.t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(c.SecretsFile, []byte(secrets.String()), 0o600); err != nil {
		e.t.Fatal(err)
	}
	return c
}
