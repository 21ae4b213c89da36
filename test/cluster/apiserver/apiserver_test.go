package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/deploy"
)

const (
	chartDir     = "../../../deploy/chart"
	manifestsDir = "../../../deploy/manifests"
	release      = "csi-proxy"
	system       = "kube-system"
)

type values = map[string]any

// withPolicy are the values of a chart whose policies answer the cases of package deploy.
func withPolicy() values {
	return values{
		"image":  values{"repository": "example.com/csi-proxy"},
		"policy": values{"access": deploy.PodAccess(), "persistentVolumeUsers": []any{deploy.StorageAdmin}},
	}
}

// TestChart upgrades what the chart made before it had pools, as Helm does, tries the policies and
// has the trial judge running pods, puts them in force, and uninstalls. Then it does the same with
// the manifests, without Helm. Package deploy asks the policies about each case.
func TestChart(t *testing.T) {
	servers, kubectl := startServers(t)
	config := servers.Config
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, client)
	h := helm(t, config)
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("without the chart pods mount pipes", func(t *testing.T) {
		for _, c := range deploy.PodCases()[:1] {
			if err := create(t, config, c, c.User); err != nil {
				t.Errorf("%s: %v", c.Path, err)
			}
		}
		runPods(t, client)
	})
	installed := t.Run("install", func(t *testing.T) {
		install := action.NewInstall(h)
		install.ReleaseName, install.Namespace, install.WaitStrategy = release, system, kube.HookOnlyStrategy
		if _, err := install.Run(before(t), values{}); err != nil {
			t.Fatal(err)
		}
		set, err := client.AppsV1().DaemonSets(system).Get(t.Context(), release, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		given := withPolicy()
		given["policy"].(values)["action"] = "Audit"
		upgrade(t, h, chart, given)
		after, err := client.AppsV1().DaemonSets(system).Get(t.Context(), release, metav1.GetOptions{})
		if err != nil || after.UID != set.UID || after.Generation == set.Generation {
			t.Errorf("the upgrade made of DaemonSet %s generation %d: %s generation %d, %v; want the next generation of the same", set.UID, set.Generation, after.UID, after.Generation, err)
		}
		if objects := ours(t, config); len(objects) < 5 {
			t.Errorf("the chart made %v, want a DaemonSet, 2 policies and 2 bindings", objects)
		} else {
			measured(t, "upgraded from the chart without pools: %d objects: %s", len(objects), strings.Join(objects, ", "))
		}
	})
	if !installed {
		return
	}
	t.Run("trial", func(t *testing.T) { trial(t, kubectl) })
	upgrade(t, h, chart, withPolicy())
	inForce(t, config)
	t.Run("upgrade", func(t *testing.T) {
		given := withPolicy()
		given["workingDirs"] = []any{`D:\volumes`}
		given["config"] = values{"read-only-disks": "keep"}
		given["pools"] = []any{values{"name": "edge", "nodeSelector": values{"pool": "edge"}}}
		upgrade(t, h, chart, given)
		for _, want := range []string{"configmaps/csi-proxy-config", "daemonsets/csi-proxy-edge"} {
			if objects := ours(t, config); !slices.Contains(objects, want) {
				t.Errorf("the upgraded chart made %v, want %s as well", objects, want)
			}
		}
	})
	t.Run("second release", func(t *testing.T) { second(t, config, h, chart) })
	t.Run("uninstall", func(t *testing.T) {
		uninstall := action.NewUninstall(h)
		uninstall.WaitStrategy = kube.HookOnlyStrategy
		if _, err := uninstall.Run(release); err != nil {
			t.Fatal(err)
		}
		if left := ours(t, config); len(left) > 0 {
			t.Errorf("uninstall left %v", left)
		}
	})
	t.Run("manifests", func(t *testing.T) { manifests(t, config) })
}

// second installs a second release beside the first, and uninstalls it. With a policy of its own
// Helm refuses it, and makes nothing.
func second(t *testing.T, config *rest.Config, h *action.Configuration, chart *chartv2.Chart) {
	first := ours(t, config)
	given := withPolicy()
	given["fullnameOverride"], given["nodeSelector"] = "second", values{"release": "second"}
	install := func() error {
		i := action.NewInstall(h)
		i.ReleaseName, i.Namespace, i.WaitStrategy, i.Replace = "second", system, kube.HookOnlyStrategy, true
		_, err := i.Run(chart, given)
		return err
	}
	if err := install(); err == nil || !strings.Contains(err.Error(), `"csi-proxy-pods"`) {
		t.Errorf("a second release with a policy: %v, want an error that names the policy of the first", err)
	}
	if now := ours(t, config); !slices.Equal(now, first) {
		t.Errorf("the refused release left %v, want %v", now, first)
	}
	given["policy"] = values{"enabled": false}
	if err := install(); err != nil {
		t.Fatal(err)
	}
	now := ours(t, config)
	made := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(first, name) })
	if want := []string{"daemonsets/second", "serviceaccounts/second"}; !slices.Equal(made, want) || len(now) != len(first)+len(want) {
		t.Errorf("the second release made %v of %v, want %v", made, now, want)
	}
	measured(t, "a second release beside the first: %s", strings.Join(made, ", "))
	uninstall := action.NewUninstall(h)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run("second"); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the second release", func() error {
		if now := ours(t, config); !slices.Equal(now, first) {
			return fmt.Errorf("there are %v, want %v", now, first)
		}
		return nil
	})
}

// before is a chart with the objects that ours made before it had pools.
func before(t *testing.T) *chartv2.Chart {
	t.Helper()
	text, err := os.ReadFile("../deploy/testdata/before-pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return &chartv2.Chart{
		Metadata:  &chartv2.Metadata{APIVersion: chartv2.APIVersionV2, Name: release, Version: "2.0.0"},
		Templates: []*common.File{{Name: "templates/objects.yaml", Data: text}},
	}
}

// runPods makes pods and says that they run: those that the trial judges, and one without a pipe.
func runPods(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "shop", UID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}}
	for _, p := range []struct {
		namespace, name, account, path string
		owner                          []metav1.OwnerReference
	}{
		{system, "driver", "disk-driver", `\\.\pipe\csi-proxy-disk-v1`, nil},
		{system, "stranger", "other", `//./pipe/csi-proxy-volume-v1beta1`, nil},
		{"shop", "set-1", "smb.driver", `\\.\pipe\csi-proxy-disk-v1`, owner},
		{"shop", "set-2", "smb.driver", `\\.\pipe\csi-proxy-disk-v1`, owner},
		{"default", "spelling", "disk-driver", `\\localhost\pipe\csi-proxy-disk-v1`, nil},
		{"default", "logs", "default", `/var/log`, nil},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name, OwnerReferences: p.owner}, Spec: corev1.PodSpec{
			ServiceAccountName: p.account, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: p.path}}}},
		}}
		made, err := client.CoreV1().Pods(p.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status.Phase = corev1.PodRunning
		if _, err := client.CoreV1().Pods(p.namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// trial runs the script that lists the running pods that the policy would refuse.
func trial(t *testing.T, kubectl string) {
	var out []byte
	await(t, "the policy", func() (err error) {
		cmd := exec.CommandContext(t.Context(), "sh", chartDir+"/files/policy-trial.sh")
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(kubectl)+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err = cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() == 1 && strings.Count(string(out), "refused ") == 3 { // else the server has not read the policy
			return nil
		}
		return fmt.Errorf("%w:\n%s", err, out)
	})
	const none = "it has no access to pipes of CSI Proxy; the administrator of the cluster gives access in policy.access of the chart csi-proxy\n"
	want := `refused  default/spelling: hostPath \\localhost\pipe\csi-proxy-disk-v1 may be another spelling of the path of a pipe, or lead to one; write \\.\pipe\NAME for a pipe, and else the path of a drive, volume, physical disk or share, or say by spec.os or the nodeSelector kubernetes.io/os that the pod is for Linux` + "\n" +
		"admitted kube-system/driver\n" + `refused  kube-system/stranger: service account kube-system/other may not mount \\.\pipe\csi-proxy-volume-v1beta1; ` + none +
		`refused  shop/set-1: service account shop/smb.driver may not mount \\.\pipe\csi-proxy-disk-v1; it has access to the groups smb; the administrator of the cluster gives access in policy.access of the chart csi-proxy` + "\n"
	if string(out) != want {
		t.Errorf("the trial says\n%s\nwant\n%s", out, want)
	}
	for line := range strings.Lines(string(out)) {
		measured(t, "trial: %s", strings.TrimSpace(line))
	}
}

// accounts makes what the controllers of a cluster would: namespaces and service accounts.
func accounts(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for namespace, accounts := range map[string][]string{system: {"default", "disk-driver", "other"}, "default": {"default", "disk-driver"}, "shop": {"default", "smb.driver"}} {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		for _, name := range accounts {
			a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), a, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
}

func helm(t *testing.T, config *rest.Config) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false).WithDiscoveryQPS(500).WithDiscoveryBurst(500)
	flags.WrapConfigFn = func(*rest.Config) *rest.Config { return rest.CopyConfig(config) }
	flags.APIServer, flags.Insecure = &config.Host, &config.Insecure
	namespace := system
	flags.Namespace = &namespace
	c := action.NewConfiguration()
	if err := c.Init(flags, system, "secrets"); err != nil {
		t.Fatal(err)
	}
	return c
}

// upgrade upgrades the release to the chart with values, and tries to with an unknown one.
func upgrade(t *testing.T, h *action.Configuration, chart *chartv2.Chart, given values) {
	t.Helper()
	u := action.NewUpgrade(h)
	u.Namespace, u.WaitStrategy = system, kube.HookOnlyStrategy
	if _, err := u.Run(release, chart, given); err != nil {
		t.Fatal(err)
	}
	given["unknown"] = true
	if _, err := u.Run(release, chart, given); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("an upgrade with an unknown value: %v", err)
	}
}

// create creates the object of a case as a dry run: the server stores nothing.
func create(t *testing.T, config *rest.Config, c deploy.Case, user string) error {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	switch object := c.Object.(type) {
	case *corev1.Pod:
		_, err = client.CoreV1().Pods(object.Namespace).Create(t.Context(), object, dry)
	case *corev1.PersistentVolume:
		_, err = client.CoreV1().PersistentVolumes().Create(t.Context(), object, dry)
	default:
		t.Fatalf("cannot create a %T", object)
	}
	return err
}

// inForce waits until the server has read the policies, and refuses what they refuse, and nothing else.
func inForce(t *testing.T, config *rest.Config) {
	t.Helper()
	for _, cases := range [][]deploy.Case{deploy.PodCases(), deploy.VolumeCases()} {
		refused := cases[slices.IndexFunc(cases, func(c deploy.Case) bool { return c.Refused != "" })]
		await(t, "the policy", func() error { return refused.Judge(create(t, config, refused, refused.User)) })
		admitted := cases[slices.IndexFunc(cases, func(c deploy.Case) bool { return c.Refused == "" })]
		if err := admitted.Judge(create(t, config, admitted, admitted.User)); err != nil {
			t.Error(err)
		}
	}
}

// kinds are the kinds of objects that the chart makes.
func kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "daemonsets"}, {Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "configmaps"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	}
}

// ours returns the kinds and names of the objects with the chart's label.
func ours(t *testing.T, config *rest.Config) []string {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, kind := range kinds() {
		list, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=csi-proxy"})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			names = append(names, kind.Resource+"/"+object.GetName())
		}
	}
	return names
}

// manifests applies the files of deploy/manifests as `kubectl apply --server-side` does, and
// creates a pod of each DaemonSet in them while their policies are in force.
func manifests(t *testing.T, config *rest.Config) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	files, err := filepath.Glob(filepath.Join(manifestsDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var pods []*unstructured.Unstructured
	applied := 0
	for _, file := range files {
		for _, object := range objects(t, file) {
			mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
			}
			text, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resource.Patch(t.Context(), object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}); err != nil {
				t.Errorf("%s: %s %s: %v", file, object.GetKind(), object.GetName(), err)
				continue
			}
			applied++
			if object.GetKind() == "DaemonSet" {
				pods = append(pods, podOf(t, object))
			}
		}
	}
	// The server may still know the chart's policies, which give the example driver nothing.
	for _, pod := range pods {
		await(t, "a pod of "+pod.GetName(), func() error {
			_, err := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(pod.GetNamespace()).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
	}
	cases := deploy.PodCases()
	refused := cases[slices.IndexFunc(cases, func(c deploy.Case) bool { return strings.Contains(c.Refused, `write \\.\pipe`) })]
	// It may have forgotten those before it knows the new ones.
	await(t, "the policy of the manifests", func() error { return refused.Judge(create(t, config, refused, refused.User)) })
	measured(t, "%d objects of %d manifests applied, %d pods of their DaemonSets admitted", applied, len(files), len(pods))
}

// objects returns the objects of a file of YAML.
func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := d.Decode(&object.Object); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// podOf returns the pod that the controller makes of a DaemonSet.
func podOf(t *testing.T, set *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	template, ok, err := unstructured.NestedMap(set.Object, "spec", "template")
	if err != nil || !ok {
		t.Fatalf("DaemonSet %s has no template: %v", set.GetName(), err)
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.SetName(set.GetName())
	pod.SetNamespace(set.GetNamespace())
	return pod
}
