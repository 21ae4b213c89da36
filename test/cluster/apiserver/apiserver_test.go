package apiserver

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
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

// TestChart installs the chart as Helm does, asks the policies about each case, upgrades
// and uninstalls. Then it does the same with the manifests, without Helm.
func TestChart(t *testing.T) {
	config := startServers(t)
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
	})
	installed := t.Run("install", func(t *testing.T) {
		install := action.NewInstall(h)
		install.ReleaseName, install.Namespace, install.WaitStrategy = release, system, kube.HookOnlyStrategy
		if _, err := install.Run(chart, withPolicy()); err != nil {
			t.Fatal(err)
		}
		if objects := ours(t, config); len(objects) < 5 {
			t.Errorf("the chart made %v, want a DaemonSet, 2 policies and 2 bindings", objects)
		} else {
			measured(t, "the chart made %d objects: %s", len(objects), strings.Join(objects, ", "))
		}
	})
	if !installed {
		return
	}
	inForce(t, config)
	t.Run("pods", func(t *testing.T) { ask(t, config, "pods", deploy.PodCases()) })
	t.Run("volumes", func(t *testing.T) { ask(t, config, "volumes", deploy.VolumeCases()) })
	t.Run("upgrade", func(t *testing.T) { upgrade(t, config, h, chart) })
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

func upgrade(t *testing.T, config *rest.Config, h *action.Configuration, chart *chartv2.Chart) {
	given := withPolicy()
	given["workingDirs"] = []any{`D:\volumes`}
	given["config"] = values{"read-only-disks": "keep"}
	u := action.NewUpgrade(h)
	u.Namespace, u.WaitStrategy = system, kube.HookOnlyStrategy
	if _, err := u.Run(release, chart, given); err != nil {
		t.Fatal(err)
	}
	if objects := ours(t, config); !slices.Contains(objects, "configmaps/csi-proxy-config") {
		t.Errorf("the upgraded chart made %v, want a ConfigMap as well", objects)
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

// inForce waits until the server has read the policies.
func inForce(t *testing.T, config *rest.Config) {
	t.Helper()
	for _, cases := range [][]deploy.Case{deploy.PodCases(), deploy.VolumeCases()} {
		refused := cases[slices.IndexFunc(cases, func(c deploy.Case) bool { return c.Refused != "" })]
		await(t, "the policy", func() error { return refused.Judge(create(t, config, refused, refused.User)) })
	}
}

// ask creates the objects of all cases.
func ask(t *testing.T, config *rest.Config, what string, cases []deploy.Case) {
	admitted, refused := 0, 0
	for _, c := range cases {
		err := create(t, config, c, c.User)
		if err == nil {
			admitted++
			t.Logf("admitted: %s", c.Path)
		} else {
			refused++
			t.Logf("refused: %s: %v", c.Path, err)
		}
		if err := c.Judge(err); err != nil {
			t.Error(err)
		}
	}
	measured(t, "%d %s: %d admitted, %d refused", len(cases), what, admitted, refused)
	if admitted == 0 || refused == 0 {
		t.Error("all cases had the same answer")
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
