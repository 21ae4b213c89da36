package deploy

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	chartDir     = "../../../deploy/chart"
	manifestsDir = "../../../deploy/manifests"
)

var update = flag.Bool("update", false, "write the manifests that are made from the chart")

var managedByHelm = regexp.MustCompile(`(?m)^ *app\.kubernetes\.io/managed-by: Helm\n`)

// withImage are the values that every installation has to give.
func withImage() values {
	return values{"image": values{"repository": "example.com/csi-proxy"}}
}

// driverAccess gives the account of the example driver the pipes that it uses.
func driverAccess() []any {
	return []any{values{"namespace": "kube-system", "serviceAccount": "example-csi-node", "groups": []any{"disk", "filesystem", "volume", "smb", "iscsi", "system"}}}
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart as Helm does for a new release in kube-system.
func render(t *testing.T, given values, kinds ...string) (map[string]string, error) {
	t.Helper()
	return renderAs(common.ReleaseOptions{Name: "csi-proxy", Namespace: "kube-system", Revision: 1, IsInstall: true}, loadChart(t), given, kinds...)
}

func renderAs(release common.ReleaseOptions, c *chart.Chart, given values, kinds ...string) (map[string]string, error) {
	caps := common.DefaultCapabilities.Copy()
	caps.APIVersions = append(caps.APIVersions, kinds...)
	all, err := util.ToRenderValues(c, given, release, caps)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(filepath.Base(name), "_") {
			out[filepath.Base(name)] = text
		}
	}
	return out, nil
}

func mustRender(t *testing.T, given values, kinds ...string) map[string]string {
	t.Helper()
	files, err := render(t, given, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestManifestsAreOfTheChart compares deploy/manifests with what the chart makes, so that
// both install the same. Flag -update writes them.
func TestManifestsAreOfTheChart(t *testing.T) {
	given := withImage()
	given["policy"] = values{"access": driverAccess()}
	files := mustRender(t, given)
	const head = "# Made from deploy/chart by make generate. With Helm, install the chart instead.\n"
	want := map[string]string{
		"csi-proxy.yaml": head + "# Set the image first: there is no published one.\n" + files["daemonset.yaml"],
		"policy.yaml":    head + "# Set the variable \"access\" first: which service accounts may mount the pipes of which groups.\n" + strings.TrimLeft(files["policy.yaml"], "\n"),
	}
	for name, text := range want {
		text = managedByHelm.ReplaceAllString(text, "")
		path := filepath.Join(manifestsDir, name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != text {
			t.Errorf("%s is not what the chart makes; run make generate", path)
		}
	}
}

func TestServiceMonitor(t *testing.T) {
	const kind = "monitoring.coreos.com/v1/ServiceMonitor"
	for name, test := range map[string]struct {
		metrics values
		kinds   []string
		want    bool
	}{
		"no metrics":             {values{"enabled": false, "address": "0.0.0.0"}, []string{kind}, false},
		"metrics on loopback":    {values{"enabled": true}, []string{kind}, false},
		"no such kind":           {values{"enabled": true, "address": "0.0.0.0"}, nil, false},
		"turned off":             {values{"enabled": true, "address": "0.0.0.0", "serviceMonitor": values{"enabled": false}}, []string{kind}, false},
		"metrics on all of them": {values{"enabled": true, "address": "0.0.0.0", "serviceMonitor": values{"labels": values{"release": "prometheus"}}}, []string{kind}, true},
	} {
		t.Run(name, func(t *testing.T) {
			given := withImage()
			given["metrics"] = test.metrics
			files := mustRender(t, given, test.kinds...)
			if _, have := files["servicemonitor.yaml"]; have != test.want {
				t.Errorf("a ServiceMonitor: %t, want %t", have, test.want)
			} else if have && strings.Count(files["servicemonitor.yaml"], "    release: prometheus\n") != 1 {
				t.Errorf("the labels are not those of the ServiceMonitor alone:\n%s", files["servicemonitor.yaml"])
			}
			if test.metrics["enabled"] == true && !strings.Contains(files["daemonset.yaml"], "-metrics-bind-address=") {
				t.Error("csi-proxy gets no address for metrics")
			}
		})
	}
}

func TestNotesSayWhatIsOpen(t *testing.T) {
	for name, test := range map[string]struct {
		policy values
		want   string
	}{
		"the way out": {values{}, "serves none there and\nwaits"},
		"no policy":   {values{"enabled": false}, "No policy of this release guards the pipes"},
		"no access":   {values{}, "No service account may mount a pipe yet"},
		"a trial":     {values{"action": "Audit"}, "The policy refuses nothing yet"},
		"access":      {values{"access": driverAccess()}, "kube-system/example-csi-node: disk, filesystem, volume, smb, iscsi, system"},
	} {
		t.Run(name, func(t *testing.T) {
			given := withImage()
			given["policy"] = test.policy
			notes := mustRender(t, given)["NOTES.txt"]
			if !strings.Contains(notes, test.want) {
				t.Errorf("the notes do not say %q:\n%s", test.want, notes)
			}
		})
	}
}

// documents splits YAML into its documents, without empty ones.
func documents(t *testing.T, text string) [][]byte {
	t.Helper()
	var out [][]byte
	for _, doc := range bytes.Split([]byte("\n"+text), []byte("\n---")) {
		var any map[string]any
		if err := yaml.Unmarshal(doc, &any); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(any) > 0 {
			out = append(out, doc)
		}
	}
	return out
}

// manifests returns all manifests: the files, and the chart with all of its parts.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join(manifestsDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", manifestsDir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	given := withImage()
	maps.Copy(given, values{
		"imagePullSecrets": []any{values{"name": "registry"}}, "workingDirs": []any{`D:\volumes`, `E:\with blank`}, "extraArgs": []any{"-require-privacy=false", `-log_dir=%CONTAINER_SANDBOX_MOUNT_POINT%\logs (x)`},
		"config":       values{"read-only-disks": "keep", "protected-dir": []any{`D:\containers`}},
		"metrics":      values{"enabled": true, "address": "0.0.0.0"},
		"nodeSelector": values{"storage": "yes"}, "podAnnotations": values{"a/b": "c"}, "podLabels": values{"team": "storage"},
		"policy": values{"access": driverAccess(), "persistentVolumeUsers": []any{"ann", "system:serviceaccount:a:b"}},
	})
	rendered := mustRender(t, given, "monitoring.coreos.com/v1/ServiceMonitor")
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if filepath.Ext(name) == ".yaml" {
			all[fmt.Sprintf("chart: %s", name)] = rendered[name]
		}
	}
	return all
}
