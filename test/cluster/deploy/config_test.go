package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// ofTheChart are the keys of the configuration file that the chart refuses, and a part of
// the reason: its other values are flags, which override the file.
var ofTheChart = map[string]string{
	"kubelet-path": "kubeletPath", "working-dir": "workingDirs", "metrics-bind-address": "metrics", "v": "verbosity",
	"windows-service": "not a service",
}

// programTags are the build tags of the programs, as in the Makefile, so that nothing is compiled
// for these tests alone.
const programTags = "-tags=grpcnotrace,nethttpomithttp2"

// programs returns the directory of csi-proxy, csi-proxy-sim and csi-proxyctl for this system: that of
// CSI_PROXY_SIM_BINARY, else one for which they are built.
func programs(t *testing.T) string {
	t.Helper()
	if sim := os.Getenv("CSI_PROXY_SIM_BINARY"); sim != "" {
		return filepath.Dir(sim)
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", programTags, "-o", dir, "./cmd/csi-proxy", "./cmd/csi-proxy-sim", "./cmd/csi-proxyctl")
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "GOWORK=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	return dir
}

// csiProxy returns the path of csi-proxy for this system, where it can check a configuration.
func csiProxy(t *testing.T) string {
	t.Helper()
	return filepath.Join(programs(t), "csi-proxy")
}

// everyKey returns a value other than the default for each key that the chart takes, by the
// schema. Without a value of its own, a text is one that needs quotes.
func everyKey(t *testing.T) values {
	t.Helper()
	var schema struct {
		Properties struct {
			Config struct {
				Properties map[string]struct {
					Type any
					Enum []any
					Ref  string `json:"$ref"`
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	odd := `D:\it's # 'odd': "x"`
	config := values{}
	for key, s := range schema.Properties.Config.Properties {
		switch {
		case s.Enum != nil:
			config[key] = s.Enum[len(s.Enum)-1]
		case s.Ref == "#/$defs/texts":
			config[key] = []any{odd, `E:\b`}
		case s.Ref == "#/$defs/text":
			config[key] = odd
		case s.Type == "boolean":
			config[key] = true
		case s.Type == "integer":
			config[key] = float64(20000) // as YAML and JSON files give it
		default:
			config[key] = 3
		}
	}
	config["enable-api"] = []any{"disk", "volume/v1"}
	config["service-allow"] = []any{"My Service"}
	config["log_backtrace_at"], config["vmodule"], config["log-file-max-age"] = "a.go:1", "a=1", "48h"
	config["log_file_max_size"] = float64(2000000)
	config["pprof-bind-address"] = "127.0.0.1:6060"
	config["logtostderr"], config["alsologtostderr"] = false, true // files are of no use otherwise
	delete(config, "pipe-sddl")                                    // is judged by Windows
	return config
}

// configOf returns the configuration file and the pod of a rendered chart.
func configOf(t *testing.T, given values) (file string, pod *corev1.Pod) {
	t.Helper()
	_, decoder := strict(t)
	for _, doc := range documents(t, mustRender(t, given)["daemonset.yaml"]) {
		object, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		switch o := object.(type) {
		case *corev1.ConfigMap:
			file = o.Data["csi-proxy.yaml"]
		case *appsv1.DaemonSet:
			pod = podOf(o)
		}
	}
	return file, pod
}

// The chart takes every key of the program and no other, but for those that it refuses with
// a remedy, and csi-proxy reads each value of its ConfigMap as it was given.
func TestConfig(t *testing.T) {
	exe := csiProxy(t)
	defaults, err := exec.Command(exe, "config", "check").Output()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range regexp.MustCompile(`(?m)^# ([\w-]+): `).FindAllStringSubmatch(string(defaults), -1) {
		keys = append(keys, m[1])
	}
	text, err := os.ReadFile(filepath.Join(chartDir, "files/flags.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var byPattern map[string][]string
	if err := yaml.Unmarshal(text, &byPattern); err != nil {
		t.Fatal(err)
	}
	flags := append(slices.Concat(slices.Collect(maps.Values(byPattern))...), slices.Collect(maps.Keys(ofTheChart))...)
	if want := append([]string{"config"}, keys...); !slices.Equal(slices.Sorted(slices.Values(flags)), slices.Sorted(slices.Values(want))) {
		t.Errorf("files/flags.yaml and the chart have the flags %q, and csi-proxy %q", flags, want)
	}
	config := everyKey(t)
	if have := slices.Sorted(maps.Keys(config)); !slices.Equal(slices.Sorted(slices.Values(append(have, "pipe-sddl"))), slices.Sorted(slices.Values(keys))) {
		t.Errorf("the schema has the keys %q, and csi-proxy %q", have, keys)
	}
	for key, reason := range ofTheChart {
		given := withImage()
		given["config"] = values{key: config[key]}
		if _, err := render(t, given); err == nil || !strings.Contains(err.Error(), "config."+key+": ") || !strings.Contains(err.Error(), reason) {
			t.Errorf("config.%s: %v, want a refusal that says %q", key, err, reason)
		}
		delete(config, key)
	}

	given := withImage()
	given["config"], given["workingDirs"] = config, []any{`D:\volumes`}
	rendered, pod := configOf(t, given)
	file := filepath.Join(t.TempDir(), "csi-proxy.yaml")
	if err := os.WriteFile(file, []byte(rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"config", "check"}
	for _, arg := range pod.Spec.Containers[0].Args {
		if in, ok := strings.CutPrefix(arg, "-config="); ok {
			mounts := pod.Spec.Containers[0].VolumeMounts
			// Windows Server 2019 has volumes only below the files of the container.
			if len(mounts) != 1 || strings.Replace(mounts[0].MountPath, "C:", "%CONTAINER_SANDBOX_MOUNT_POINT%", 1)+`\csi-proxy.yaml` != in || pod.Spec.Volumes[0].ConfigMap.Name != "csi-proxy-config" {
				t.Errorf("%s is not in a volume of the pod: %v", in, mounts)
			}
			arg = "-config=" + file
		}
		args = append(args, arg)
	}
	out, err := exec.Command(exe, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("csi-proxy config check: %v\n%s\nof\n%s", err, out, rendered)
	}
	if n := strings.Count(string(out), "# "+file+":"); n != len(config) {
		t.Errorf("%d settings are from the file, want %d:\n%s", n, len(config), out)
	}
	for _, want := range []string{"\nlog_file_max_size: 2000000 #", "\nlog_dir: 'D:\\it''s # ''odd'': \"x\"' #", "\n  - 'D:\\it''s # ''odd'': \"x\"'\n  - E:\\b\n", "\nread-only-disks: keep #"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the settings lack %q:\n%s", want, out)
		}
	}
}

// Another configuration makes other pods, and without one there is no ConfigMap.
func TestConfigRestartsPods(t *testing.T) {
	given := withImage()
	if file, pod := configOf(t, given); file != "" || len(pod.Spec.Volumes) > 0 || pod.Annotations != nil {
		t.Errorf("without a configuration: file %q, volumes %v", file, pod.Spec.Volumes)
	}
	sums := map[string]bool{}
	for _, keep := range []string{"keep", "writable"} {
		given["config"] = values{"read-only-disks": keep}
		file, pod := configOf(t, given)
		if want := "read-only-disks: '" + keep + "'"; strings.TrimSpace(file) != want {
			t.Errorf("the file is %q, want %q", file, want)
		}
		sums[pod.Annotations["checksum/config"]] = true
	}
	if len(sums) != 2 || sums[""] {
		t.Errorf("the checksums of two files are %v", sums)
	}
}
