package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"sigs.k8s.io/yaml"
)

// image are the values that each set has as well.
const image = "image: {repository: example.com/csi-proxy}\n"

// valuesSets are values of the chart, as YAML, by what is refused in them; "" if nothing is.
var valuesSets = []struct{ given, refused string }{
	{"image: {repository: ''}", "set image.repository"},
	{"kubletPath: C:\\k", "kubletPath"},
	{"kubeletPath: /var/lib/kubelet", "/kubeletPath"},
	{`kubeletPath: 'C:\%TEMP%'`, "/kubeletPath"},
	{`kubeletPath: "C:\\k\nevil"`, "/kubeletPath"},
	{`kubeletPath: 'C:\a"b'`, "/kubeletPath"},
	{`kubeletPath: 'C:\O''Brien\k'`, ""},
	{`workingDirs: ['D:\R&D']`, "/workingDirs"},
	{`workingDirs: ['D:\volumes', 'E:\with blank', 'F:\größe']`, ""},
	{"verbosity: 11", "/verbosity"},
	{"verbosity: 1.0e+30", "/verbosity"},
	{"verbosity: 10", ""},

	{"extraArgs: [v=4]", "/extraArgs"},
	{"extraArgs: [-no-such-flag]", "has no flag -no-such-flag; docs"},
	{"extraArgs: [-v=4]", "set the value verbosity"},
	{"extraArgs: [-windows-service]", "not a service"},
	{"extraArgs: [-audit-log=no]", "matches true|false"},
	{"extraArgs: [-read-only-disks=maybe]", "matches writable|keep"},
	{"extraArgs: [-log_file_max_size=99999999999999999999]", "matches [0-9]{1,7}"},
	{"extraArgs: [-log-file-max-age=1.2.3h]", "-log-file-max-age=1.2.3h: want"},
	{"extraArgs: [-enable-api=disks]", "-enable-api=disks: want"},
	{"extraArgs: [-log_dir]", "want -log_dir=VALUE"},
	{"extraArgs: ['-log_dir=a&calc.exe']", "/extraArgs"},
	{"extraArgs: ['-log_dir=%TEMP%']", "/extraArgs"},
	{`extraArgs: ['-log_dir=a"b']`, "/extraArgs"},
	{`extraArgs: ['-log_dir=C:\it''s', -logtostderr=false, -require-privacy=false, --audit-log, '-enable-api=disk,volume/v1', -log-file-max-age=1.5h30m]`, ""},
	{`extraArgs: ['-log_dir=%CONTAINER_SANDBOX_MOUNT_POINT%\logs (x)', -logtostderr=false, '-vmodule=a=1,b=2', '-pprof-bind-address=[::1]:6060']`, ""},

	{"config: {kubelet-pth: x}", "kubelet-pth"},
	{"config: {audit-log: 'no'}", "/config/audit-log"},
	{`config: {protected-dir: 'D:\a'}`, "/config/protected-dir"},
	{`config: {log_dir: "D:\\a\nv: 9"}`, "/config/log_dir"},
	{`config: {log_dir: "a\u2028evil: true"}`, "/config/log_dir"},
	{`config: {protected-dir: ["a\u0085evil: true"]}`, "/config/protected-dir/0"},
	{"config: {read-only-disks: maybe}", "/config/read-only-disks"},
	{"config: {log_file_max_size: 1.0e+20}", "/config/log_file_max_size"},
	{"config: {log-file-backups: -1}", "/config/log-file-backups"},
	{"config: {log-file-max-age: 9999999999999h}", "/config/log-file-max-age"},
	{"config: {enable-api: [disk/1]}", "/config/enable-api"},
	{"config: {pprof-bind-address: '127.0.0.1:99999'}", "/config/pprof-bind-address"},
	{"config: {pprof-bind-address: '127.0.0.1.1:1'}", "/config/pprof-bind-address"},
	{"config: {service-allow: ['a*']}", "/config/service-allow"},
	{"config: {vmodule: x}", "/config/vmodule"},
	{"config: {stderrthreshold: LOUD}", "/config/stderrthreshold"},
	{"config: {log_dir: a}\nextraArgs: ['-config=C:\\other.yaml']", "leave -config out"},
	{"config: {log_dir: a}\npodAnnotations: {checksum/config: '0'}", "'checksum/config'"},
	{`config: {log_dir: 'D:\it''s: #1', logtostderr: false, log_file_max_size: 2000000, log-file-max-age: 0, enable-api: [disk, volume/v1beta2], stderrthreshold: 1}`, ""},
	{`extraArgs: ['-config=C:\k\own.yaml']`, ""},

	{"image: {digest: 'sha256:1'}", "/image/digest"},
	{"image: {tag: 20240101}", "/image/tag"},
	{"image: {repository: 'Example.com/A B'}", "/image/repository"},
	{"image: {pullPolicy: Sometimes}", "/image/pullPolicy"},
	{"image: {tag: '20240101'}", ""},
	{"global: {imageRegistry: 'mirror.example.com:5000/hub', imagePullSecrets: [a, {name: b}], other: 1}\nimagePullSecrets: [{name: c}]", ""},
	{"global: {imageRegistry: 'https://mirror'}", "/global/imageRegistry"},
	{"imagePullSecrets: [a]", "/imagePullSecrets"},
	{"fullnameOverride: Up", "/fullnameOverride"},
	{"fullnameOverride: csi-proxy-with-a-name-of-more-than-forty-characters", "/fullnameOverride"},
	{"fullnameOverride: second\npolicy: {enabled: false}", ""},
	{"env: [{name: CSI_PROXY_POD, value: x}]", "/env"},
	{"env: [{name: A, value: 1}]", "/env"},
	{"env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]", "/env"},
	{"env: [{name: A, value: x}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]", ""},

	{"updateStrategy: {maxUnavailable: 0}", "/updateStrategy/maxUnavailable"},
	{"updateStrategy: {maxUnavailable: 0%}", "/updateStrategy/maxUnavailable"},
	{"updateStrategy: {maxUnavailable: 2000000}", "/updateStrategy/maxUnavailable"},
	{"updateStrategy: {type: Recreate}", "/updateStrategy/type"},
	{"updateStrategy: {type: OnDelete}", ""},
	{"updateStrategy: {maxUnavailable: 3}", ""},

	{"nodeSelector: {kubernetes.io/os: windows}", "'kubernetes.io/os'"},
	{"nodeSelector: {a: 'not a label'}", "/nodeSelector"},
	{"nodeSelector: {a: true}", "/nodeSelector"},
	{"nodeSelector: {a: 'true', example.com/b: ''}", ""},
	{"podLabels: {app.kubernetes.io/name: x}", "'app.kubernetes.io/name'"},
	{"podLabels: {a/b/c: x}", "'a/b/c'"},
	{"podLabels: {team: storage}\npodAnnotations: {a/b: c}", ""},
	{"podAnnotations: {a: 1}", "/podAnnotations"},
	{"priorityClassName: 'a b'", "/priorityClassName"},
	{"priorityClassName: 'true'", ""},
	{"priorityClassName: ''", ""},
	{"resources: {requests: {cpu: lots}}", "/resources"},
	{"resources: {request: {cpu: 1}}", "/resources"},
	{"resources: {requests: {cpu: 0.5}}", "/resources"},
	{"resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 2}}", ""},
	{"resources: {}", ""},
	{"tolerations: [{operator: Exists, value: x}]", "/tolerations"},
	{"tolerations: [{operator: Equal}]", "/tolerations"},
	{"tolerations: [{key: a, operator: In}]", "/tolerations"},
	{"tolerations: [{key: os, operator: Equal, value: windows, effect: NoExecute, tolerationSeconds: 300}]", ""},
	{"tolerations: []", ""},
	{"affinity: {nodeAfinity: {}}", "nodeAfinity"},

	{"pools: [{name: a}]", "/pools/0"},
	{"pools: [{name: a, nodeSelector: {}}]", "/pools/0/nodeSelector"},
	{"pools: [{name: A, nodeSelector: {p: a}}]", "/pools/0/name"},
	{"pools: [{name: a, nodeSelector: {kubernetes.io/os: windows}}]", "'kubernetes.io/os'"},
	{"pools: [{name: a, nodeSelector: {p: a}, extraArgs: [-no-such-flag]}]", "has no flag"},
	{"pools: [{name: a, nodeSelector: {p: a}, config: {}}]", "/pools/0"},
	{"pools: [{name: a, nodeSelector: {p: a}}, {name: b, nodeSelector: {q: b}}]", "a and b may select one node"},
	{"pools: [{name: a, nodeSelector: {p: a}}, {name: b, nodeSelector: {p: a, q: b}}]", "a and b may select one node"},
	{"pools: [{name: a, nodeSelector: {p: a, q: x}}, {name: b, nodeSelector: {p: b}}]", ""},
	{`pools: [{name: rke2, nodeSelector: {pool: rke2}, kubeletPath: 'D:\it''s', workingDirs: ['D:\v'], extraArgs: [-admin-pipe=false], tolerations: [], image: {tag: edge}}]
nodeSelector: {storage: 'yes'}
config: {read-only-disks: keep}
metrics: {enabled: true, address: 0.0.0.0}
affinity:
  podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {}}}]}
  nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}}`, ""},

	{"metrics: {port: 0}", "/metrics/port"},
	{"metrics: {port: 65536}", "/metrics/port"},
	{"metrics: {enabled: true, address: '::1'}", "in brackets, such as [::1]"},
	{"metrics: {enabled: true, address: '[::1'}", "in brackets, such as [::1]"},
	{"metrics: {enabled: true, address: 300.0.0.1}", "in brackets, such as [::1]"},
	{"metrics: {enabled: true, address: 'a b'}", "/metrics/address"},
	{"metrics: {enabled: true, address: '[::1]'}", ""},
	{"metrics: {enabled: true, address: '[::]', firewallRule: {enabled: true, from: [10.0.0.0/8, 'fd00::/8']}}", ""},
	{"metrics: {enabled: true, address: 0.0.0.0, firewallRule: {enabled: true}, serviceMonitor: {interval: 30s, sampleLimit: 2000000, metricRelabelings: [{action: drop, regex: go_.*, sourceLabels: [__name__]}]}}", ""},
	{"metrics: {firewallRule: {enabled: true, from: [anywhere]}}", "/metrics/firewallRule/from"},
	{"metrics: {firewallRule: {from: ['10.0.0.0/8 & calc.exe']}}", "/metrics/firewallRule/from"},
	{"metrics: {serviceMonitor: {interval: 30}}", "/metrics/serviceMonitor/interval"},
	{"metrics: {serviceMonitor: {interval: soon}}", "/metrics/serviceMonitor/interval"},
	{"metrics: {serviceMonitor: {sampleLimit: 1.0e+30}}", "/metrics/serviceMonitor/sampleLimit"},
	{"metrics: {serviceMonitor: {labels: {app.kubernetes.io/instance: x}}}", "'app.kubernetes.io/instance'"},
	{"livenessProbe: {enabled: true}", ""},

	{"policy: {action: Warn}", "/policy/action"},
	{"policy: {action: Audit}", ""},
	{"policy: {enabled: false}", ""},
	{"policy: {access: [{namespace: a, serviceAccount: b, groups: [disks]}]}", "/policy/access/0/groups"},
	{"policy: {access: [{namespace: a, serviceAccount: b, groups: []}]}", "/policy/access/0/groups"},
	{`policy: {access: [{namespace: "a'", serviceAccount: b, groups: [disk]}]}`, "/policy/access/0/namespace"},
	{`policy: {persistentVolumeUsers: ["a' || true || '"]}`, "/policy/persistentVolumeUsers"},
	{`policy: {persistentVolumeUsers: ['a\x27']}`, "/policy/persistentVolumeUsers"},
	{"policy: {access: [{namespace: a, serviceAccount: b, groups: [disk]}, {namespace: a, serviceAccount: b, groups: [disk, smb]}], persistentVolumeUsers: [ann, 'system:serviceaccount:a:b']}", ""},
}

// Each set of values is refused with a reason, or makes objects that the API server's code
// admits, and pods with flags and a file that csi-proxy accepts.
func TestValues(t *testing.T) {
	capabilities.Setup(true, 0) // the API server's flag --allow-privileged
	exe := csiProxy(t)
	refused, admitted := 0, 0
	for _, set := range valuesSets {
		v := values{}
		for _, text := range []string{image, set.given} {
			if err := yaml.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if strings.Contains(set.given, "image: {") && v["image"].(values)["repository"] == nil {
			v["image"].(values)["repository"] = "example.com/csi-proxy"
		}
		files, err := render(t, v, "monitoring.coreos.com/v1/ServiceMonitor")
		if set.refused != "" {
			refused++
			if err == nil || !strings.Contains(err.Error(), set.refused) {
				t.Errorf("%s: %v, want a refusal that names %q", set.given, err, set.refused)
			} else {
				t.Logf("refused: %s: %v", set.given, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", set.given, err)
			continue
		}
		admitted++
		file := filepath.Join(t.TempDir(), "csi-proxy.yaml")
		var pods []*corev1.Pod
		for name, text := range files {
			if filepath.Ext(name) != ".yaml" {
				continue
			}
			for _, doc := range documents(t, text) {
				if strings.Contains(string(doc), "kind: ServiceMonitor\n") {
					continue // a kind of the Prometheus operator
				}
				_, decoder := strict(t)
				object, _, err := decoder.Decode(doc, nil, nil)
				if err != nil {
					t.Errorf("%s: %v\n%s", set.given, err, doc)
					continue
				}
				if errs := validate(t, object); len(errs) > 0 {
					t.Errorf("%s: the API server refuses\n%s\n%v", set.given, doc, errs.ToAggregate())
				}
				switch o := object.(type) {
				case *corev1.ConfigMap:
					if err := os.WriteFile(file, []byte(o.Data["csi-proxy.yaml"]), 0o600); err != nil {
						t.Fatal(err)
					}
				case *appsv1.DaemonSet:
					pods = append(pods, podOf(o))
				}
			}
		}
		if pools, _ := v["pools"].([]any); len(pods) != 1+len(pools) {
			t.Errorf("%s: %d DaemonSets, want %d", set.given, len(pods), 1+len(pools))
		}
		for _, pod := range pods {
			args := []string{"config", "check"}
			for _, arg := range pod.Spec.Containers[0].Args {
				if strings.HasPrefix(arg, "-config=%") {
					arg = "-config=" + file
				} else if strings.HasPrefix(arg, "-config=") {
					continue // a file of the node
				}
				args = append(args, arg)
			}
			if out, err := exec.Command(exe, args...).CombinedOutput(); err != nil {
				t.Errorf("%s: csi-proxy %q: %v\n%s", set.given, args, err, out)
			}
		}
	}
	t.Logf("%d sets of values: %d refused, %d rendered and admitted", len(valuesSets), refused, admitted)
}

// validate asks the API server's code about a new object, with its defaults.
func validate(t *testing.T, object runtime.Object) field.ErrorList {
	t.Helper()
	legacyscheme.Scheme.Default(object)
	internal := func(to runtime.Object) {
		t.Helper()
		if err := legacyscheme.Scheme.Convert(object, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	switch object.(type) {
	case *appsv1.DaemonSet:
		var o apps.DaemonSet
		internal(&o)
		return appsvalidation.ValidateDaemonSet(&o, corevalidation.PodValidationOptions{})
	case *corev1.ConfigMap:
		var o core.ConfigMap
		internal(&o)
		return corevalidation.ValidateConfigMap(&o)
	case *corev1.Service:
		var o core.Service
		internal(&o)
		o.Spec.ClusterIPs = []string{o.Spec.ClusterIP} // as the server fills in before
		return corevalidation.ValidateServiceCreate(&o)
	case *corev1.ServiceAccount:
		var o core.ServiceAccount
		internal(&o)
		return corevalidation.ValidateServiceAccount(&o)
	case *admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding:
		return nil // package apiserver installs them; here newAPIServer compiles them
	}
	t.Fatalf("nothing validates a %T", object)
	return nil
}

// sets returns the DaemonSets of a rendered chart by name.
func sets(t *testing.T, files map[string]string) map[string]*appsv1.DaemonSet {
	t.Helper()
	_, decoder := strict(t)
	all := map[string]*appsv1.DaemonSet{}
	for _, doc := range documents(t, files["daemonset.yaml"]) {
		object, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if set, ok := object.(*appsv1.DaemonSet); ok {
			all[set.Name] = set
		}
	}
	return all
}

// Fields that the API server does not allow to change are as before, also with pools.
func TestUpgradeKeepsWhatIsImmutable(t *testing.T) {
	text, err := os.ReadFile("testdata/before-pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range sets(t, map[string]string{"daemonset.yaml": string(text)}) {
		for _, pools := range []string{"[]", "[{name: a, nodeSelector: {p: a}}]"} {
			v := values{}
			if err := yaml.Unmarshal([]byte(image+"pools: "+pools), &v); err != nil {
				t.Fatal(err)
			}
			after := sets(t, mustRender(t, v))[name]
			if after == nil || after.Namespace != before.Namespace || !apiequality.Semantic.DeepEqual(after.Spec.Selector, before.Spec.Selector) {
				t.Errorf("with the pools %s the DaemonSet %s/%s with the selector %v became %v", pools, before.Namespace, name, before.Spec.Selector, after)
			}
		}
	}
}

// With --reuse-values a release has the values that it had before the chart had more.
func TestReusedValues(t *testing.T) {
	c := loadChart(t)
	for _, key := range []string{"fullnameOverride", "global", "env", "pools", "livenessProbe"} {
		delete(c.Values, key)
	}
	metrics := c.Values["metrics"].(values)
	delete(metrics, "firewallRule")
	metrics["serviceMonitor"] = values{"enabled": true, "labels": values{}}
	delete(c.Values["updateStrategy"].(values), "type")
	delete(c.Values["policy"].(values), "action")
	given := withImage()
	given["metrics"] = values{"enabled": true, "address": "0.0.0.0"}
	// A name and a namespace that are numbers in YAML, too.
	files, err := renderAs(common.ReleaseOptions{Name: "123", Namespace: "1e3", IsUpgrade: true}, c, given, "monitoring.coreos.com/v1/ServiceMonitor")
	if err != nil {
		t.Fatal(err)
	}
	set := sets(t, files)["csi-proxy"]
	if set.Namespace != "1e3" || set.Spec.Template.Labels["app.kubernetes.io/instance"] != "123" || !strings.Contains(files["policy.yaml"], "[Deny]") {
		t.Errorf("the DaemonSet is in %q, with the labels %v", set.Namespace, set.Spec.Template.Labels)
	}
	for _, doc := range documents(t, files["servicemonitor.yaml"]) {
		if !strings.Contains(string(doc), `namespace: "1e3"`) {
			t.Errorf("not in the release's namespace:\n%s", doc)
		}
	}
}

// No DaemonSet selects the pods of another, and no node is one of two of them.
func TestPoolsAreApart(t *testing.T) {
	v := values{}
	given := image + "fullnameOverride: x\npools: [{name: a, nodeSelector: {p: a, q: x}}, {name: b, nodeSelector: {p: b}, kubeletPath: 'D:\\k', image: {tag: edge}}]"
	if err := yaml.Unmarshal([]byte(given), &v); err != nil {
		t.Fatal(err)
	}
	all := sets(t, mustRender(t, v))
	if len(all) != 3 || all["x"] == nil || all["x-a"] == nil || all["x-b"] == nil {
		t.Fatalf("the DaemonSets are %v, want x, x-a and x-b", all)
	}
	for name, set := range all {
		for other, o := range all {
			selects := true
			for key, value := range set.Spec.Selector.MatchLabels {
				selects = selects && o.Spec.Template.Labels[key] == value
			}
			if selects != (name == other) {
				t.Errorf("%s selects pods of %s: %t", name, other, selects)
			}
		}
	}
	terms := all["x"].Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var found []string
	for _, term := range terms {
		text := ""
		for _, e := range term.MatchExpressions {
			text += " " + e.Key + " " + string(e.Operator) + " " + strings.Join(e.Values, ",")
		}
		found = append(found, text)
	}
	if got, want := strings.Join(found, ";"), " p NotIn a p NotIn b; q NotIn x p NotIn b"; got != want {
		t.Errorf("the nodes of x are those with %q, want %q", got, want)
	}
	a, b := all["x-a"].Spec.Template.Spec, all["x-b"].Spec.Template.Spec
	if a.NodeSelector["p"] != "a" || a.NodeSelector["q"] != "x" || a.Affinity != nil || a.Containers[0].Image != "example.com/csi-proxy:2.0.0" || a.Containers[0].Args[0] != `-kubelet-path=C:\var\lib\kubelet` {
		t.Errorf("pool a is %v %s %q", a.NodeSelector, a.Containers[0].Image, a.Containers[0].Args)
	}
	if b.Containers[0].Image != "example.com/csi-proxy:edge" || b.Containers[0].Args[0] != `-kubelet-path=D:\k` || len(b.Tolerations) != 1 {
		t.Errorf("pool b has image %s, %q and the tolerations %v", b.Containers[0].Image, b.Containers[0].Args, b.Tolerations)
	}
}

// A registry for all charts takes the place of the image's own.
func TestGlobalRegistry(t *testing.T) {
	for repository, want := range map[string]string{
		"example.com/a/csi-proxy": "mirror/hub/a/csi-proxy:2.0.0", "localhost/csi-proxy": "mirror/hub/csi-proxy:2.0.0", "reg:5000/csi-proxy": "mirror/hub/csi-proxy:2.0.0",
		"team/csi-proxy": "mirror/hub/team/csi-proxy:2.0.0", "csi-proxy": "mirror/hub/csi-proxy:2.0.0",
	} {
		v := values{"image": values{"repository": repository}, "global": values{"imageRegistry": "mirror/hub"}}
		if got := sets(t, mustRender(t, v))["csi-proxy"].Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s: %s, want %s", repository, got, want)
		}
	}
}
