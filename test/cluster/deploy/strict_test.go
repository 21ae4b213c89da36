package deploy

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// strict decodes the kinds that the manifests use, and refuses unknown and doubled fields.
func strict(t *testing.T) (*runtime.Scheme, *json.Serializer) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme, json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

// TestPodsOfTheManifests decodes all manifests strictly, and holds the pods to what a Windows node needs.
func TestPodsOfTheManifests(t *testing.T) {
	_, decoder := strict(t)
	if _, _, err := decoder.Decode([]byte("apiVersion: v1\nkind: ServiceAccount\nmetadata: {nam: x}\n"), nil, nil); err == nil {
		t.Error("the decoder is not strict")
	}
	sets := 0
	for name, text := range manifests(t) {
		for _, doc := range documents(t, text) {
			if strings.Contains(string(doc), "kind: ServiceMonitor\n") {
				continue
			}
			object, _, err := decoder.Decode(doc, nil, nil)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, doc)
				continue
			}
			set, ok := object.(*appsv1.DaemonSet)
			if !ok {
				continue
			}
			sets++
			pod := set.Spec.Template.Spec
			if pod.OS == nil || pod.OS.Name != corev1.Windows || pod.NodeSelector["kubernetes.io/os"] != "windows" {
				t.Errorf("%s: %s may run on nodes that are not Windows", name, set.Name)
			}
			host := pod.SecurityContext != nil && pod.SecurityContext.WindowsOptions != nil && pod.SecurityContext.WindowsOptions.HostProcess != nil && *pod.SecurityContext.WindowsOptions.HostProcess
			if host != pod.HostNetwork {
				t.Errorf("%s: %s: HostProcess is %t and hostNetwork %t; a HostProcess pod needs the node's network, and others cannot have it on Windows", name, set.Name, host, pod.HostNetwork)
			}
			for _, c := range pod.Containers {
				// The runtime ends the programs of a HostProcess container 5 s after their signal.
				if works := len(c.Command) > 0 && strings.HasPrefix(c.Command[0], "%CONTAINER_SANDBOX_MOUNT_POINT%"); host && works {
					if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil || !strings.HasPrefix(c.Lifecycle.PreStop.Exec.Command[0], "%CONTAINER_SANDBOX_MOUNT_POINT%") {
						t.Errorf("%s: %s: container %s has no preStop hook that waits for its calls", name, set.Name, c.Name)
					}
					own := func(e corev1.EnvVar) bool {
						return e.Name == "CSI_PROXY_POD" && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.uid"
					}
					if c.Name == "csi-proxy" && !slices.ContainsFunc(c.Env, own) {
						t.Errorf("%s: %s: the preStop hook may stop the csi-proxy of another pod", name, set.Name)
					}
					if g := pod.TerminationGracePeriodSeconds; g == nil || *g < 75 {
						t.Errorf("%s: %s: the grace period is too short for calls of a minute", name, set.Name)
					}
				}
				mounts := map[string]bool{}
				for _, m := range c.VolumeMounts {
					mounts[m.Name] = true
				}
				for _, v := range pod.Volumes {
					delete(mounts, v.Name)
				}
				for missing := range mounts {
					t.Errorf("%s: %s: container %s mounts %s, which is no volume of the pod", name, set.Name, c.Name, missing)
				}
			}
			for key, value := range set.Spec.Selector.MatchLabels {
				if set.Spec.Template.Labels[key] != value {
					t.Errorf("%s: %s does not select its own pods", name, set.Name)
				}
			}
		}
	}
	if sets < 4 {
		t.Errorf("found %d DaemonSets, want csi-proxy (twice) and both forms of a driver", sets)
	}
}

// podOf returns the pod that a DaemonSet makes, or nil for other objects.
func podOf(object runtime.Object) *corev1.Pod {
	set, ok := object.(*appsv1.DaemonSet)
	if !ok {
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Namespace = set.Name+"-x", set.Namespace
	return pod
}
