package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	dynamicfake "k8s.io/client-go/dynamic/fake"
)

// An apiServer is the admission of the API server, with the policies of the chart.
type apiServer struct {
	plugin *validating.Plugin
	scheme *runtime.Scheme
}

func newAPIServer(t *testing.T, access []any, pvUsers ...any) *apiServer {
	t.Helper()
	given := withImage()
	given["policy"] = values{"access": access, "persistentVolumeUsers": pvUsers}
	scheme, decoder := strict(t)
	var objects []runtime.Object
	for _, doc := range documents(t, mustRender(t, given)["policy.yaml"]) {
		object, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if p, ok := object.(*admissionv1.ValidatingAdmissionPolicy); ok {
			// The API server's defaults of the fields that the plugin reads.
			equivalent := admissionv1.Equivalent
			p.Spec.MatchConstraints.MatchPolicy = &equivalent
			p.Spec.MatchConstraints.NamespaceSelector, p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
			all := admissionv1.AllScopes
			for i := range p.Spec.MatchConstraints.ResourceRules {
				p.Spec.MatchConstraints.ResourceRules[i].Scope = &all
			}
		}
		objects = append(objects, object)
	}
	for _, name := range []string{"kube-system", "default", "shop"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if len(objects) != 7 {
		t.Fatalf("the chart has %d policies and bindings, want 4", len(objects)-3)
	}
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(scheme))
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	plugin.SetRESTMapper(mapper)
	plugin.SetAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	plugin.SetDrainedNotification(stop)
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	if !plugin.WaitForReady() {
		t.Fatal("the admission plugin is not ready")
	}
	return &apiServer{plugin, scheme}
}

// create asks the policies about a new object.
func (s *apiServer) create(object runtime.Object, by string) error {
	kinds, _, err := s.scheme.ObjectKinds(object)
	if err != nil {
		return err
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(kinds[0].Kind) + "s")
	attributes := admission.NewAttributesRecord(object, nil, kinds[0], m.GetNamespace(), m.GetName(), resource, "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: by})
	return s.plugin.Validate(context.Background(), attributes, admission.NewObjectInterfacesFromScheme(s.scheme))
}

func podWith(namespace, account string, paths ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}, Spec: corev1.PodSpec{ServiceAccountName: account}}
	for i, path := range paths {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	return p
}

// otherSpellings are paths that lead, or may lead, to the pipe csi-proxy-disk-v1 or to all
// pipes.
var otherSpellings = []string{
	`\\?\pipe\csi-proxy-disk-v1`, `\\.\\pipe\csi-proxy-disk-v1`, `\\.\pipe\\csi-proxy-disk-v1`, `\\.\pipe\.\csi-proxy-disk-v1`,
	`\\.\pipe\x\..\csi-proxy-disk-v1`, `\\.\x\..\pipe\csi-proxy-disk-v1`, `//?/pipe/csi-proxy-disk-v1`, `\\?\PIPE\CSI-PROXY-DISK-V1`,
	`\??\pipe\csi-proxy-disk-v1`, `/??/pipe/csi-proxy-disk-v1`, `\\?\GLOBALROOT\Device\NamedPipe\csi-proxy-disk-v1`, `\\.\GlobalRoot\Device\NamedPipe\csi-proxy-disk-v1`,
	`\\localhost\pipe\csi-proxy-disk-v1`, `\\127.0.0.1\pipe\csi-proxy-disk-v1`, `\\NODE-1\IPC$\csi-proxy-disk-v1`, `\\?\UNC\localhost\pipe\csi-proxy-disk-v1`,
	`\\.\pipe`, `\\.\pipe\`, `//./pipe/`, `\\.\pipe.\csi-proxy-disk-v1`, `\\.\pipe \csi-proxy-disk-v1`, `\\..\pipe\csi-proxy-disk-v1`,
	` \\.\pipe\csi-proxy-disk-v1`, `\\.\pıpe\csi-proxy-disk-v1`, `\\.\ｐｉｐｅ\csi-proxy-disk-v1`, "\\\\.\\pipe\\csi-proxy-disk-v1\\", `\\.\C:\..\pipe\csi-proxy-disk-v1`,
}

// ownSpellings are the paths that the policy reads as csi-proxy-disk-v1.
var ownSpellings = []string{
	`\\.\pipe\csi-proxy-disk-v1`, `\\.\PIPE\CSI-Proxy-Disk-V1`, `//./pipe/csi-proxy-disk-v1`, `\/.\pipe/csi-proxy-disk-v1`, `//./Pipe\csi-proxy-disk-v1`,
}

// otherNames are names of pipes that begin as those of the API, and are not.
var otherNames = []string{
	`csi-proxy-admin`, `CSI-PROXY-ADMIN`, `csi-proxy-node-v1`, `csi-proxy-disk`, `csi-proxy-disk-v1.`, `csi-proxy-disk-v1 `, `csi-proxy`, `csi-proxy-disk-vx`, `csi-proxy-disk-v1:x`, ` csi-proxy-disk-v1`,
}

// otherPaths lead to no pipe of CSI Proxy.
var otherPaths = []string{
	`C:\var\lib\kubelet`, `/var/lib/kubelet`, `\var\lib\kubelet`, `c:/csi-proxy-disk-v1`, `C:\pipe\csi-proxy-disk-v1`, `\\.\pipe\containerd-containerd`, `//./pipe/docker_engine`,
	`\\server\share\pipeline`, `\\server\share\pipes\csi-proxy-disk-v1`, `\\?\C:\data`, `\\.\PhysicalDrive1`, `\\?\Volume{01234567-89ab-cdef-0123-456789abcdef}\`, `\\server\größe`,
}

func TestPodsThatMountPipes(t *testing.T) {
	s := newAPIServer(t, []any{
		values{"namespace": "kube-system", "serviceAccount": "disk-driver", "groups": []any{"disk", "volume"}},
		values{"namespace": "shop", "serviceAccount": "smb.driver", "groups": []any{"smb"}},
		values{"namespace": "shop", "serviceAccount": "default", "groups": []any{"system"}},
	})
	cases, refused := 0, 0
	check := func(pod *corev1.Pod, want string) {
		t.Helper()
		cases++
		err := s.create(pod, "ann")
		paths := []string{}
		for _, v := range pod.Spec.Volumes {
			paths = append(paths, v.HostPath.Path)
		}
		if want == "" {
			if err != nil {
				t.Errorf("%s/%s with %q: %v", pod.Namespace, pod.Spec.ServiceAccountName, paths, err)
			}
			return
		}
		refused++
		if err == nil {
			t.Errorf("%s/%s with %q was admitted", pod.Namespace, pod.Spec.ServiceAccountName, paths)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s/%s with %q: error %q does not say %q", pod.Namespace, pod.Spec.ServiceAccountName, paths, err, want)
		}
	}
	for _, path := range ownSpellings {
		check(podWith("kube-system", "disk-driver", path), "")
		check(podWith("kube-system", "disk-driver", `C:\var\lib\kubelet`, path), "")
		check(podWith("default", "disk-driver", path), `service account default/disk-driver may not mount \\.\pipe\csi-proxy-disk-v1; it has no access`)
		check(podWith("kube-system", "", path), "service account kube-system/default may not mount")
		check(podWith("kube-system", "other", `C:\x`, path), "may not mount")
		check(podWith("shop", "smb.driver", path), "it has access to the groups smb;")
	}
	for _, path := range otherSpellings {
		check(podWith("kube-system", "disk-driver", path), `write \\.\pipe\NAME`)
		check(podWith("default", "", `C:\x`, path), `write \\.\pipe\NAME`)
	}
	for _, name := range otherNames {
		check(podWith("kube-system", "disk-driver", `\\.\pipe\`+name), `no pod may mount \\.\pipe\`)
		check(podWith("default", "", `//./pipe/`+name), `no pod may mount \\.\pipe\`)
	}
	for _, path := range otherPaths {
		check(podWith("default", "", path), "")
	}
	check(podWith("default", ""), "")
	check(podWith("default", "", otherPaths...), "")
	check(podWith("kube-system", "disk-driver", `\\.\pipe\csi-proxy-disk-v1beta3`, `\\.\pipe\csi-proxy-volume-v1`, `\\.\pipe\csi-proxy-volume-v2alpha1`), "")
	check(podWith("kube-system", "disk-driver", `\\.\pipe\csi-proxy-disk-v1`, `\\.\pipe\csi-proxy-smb-v1`), `\\.\pipe\csi-proxy-smb-v1; it has access to the groups disk, volume;`)
	check(podWith("shop", "smb.driver", `\\.\pipe\csi-proxy-smb-v1`), "")
	check(podWith("shop", "", `\\.\pipe\csi-proxy-system-v1alpha1`), "")
	t.Logf("asked about %d pods: %d had to be refused", cases, refused)
}

func TestNoAccessIsGivenByDefault(t *testing.T) {
	s := newAPIServer(t, nil)
	if err := s.create(podWith("kube-system", "disk-driver", ownSpellings[0]), "ann"); err == nil {
		t.Error("a pod mounts a pipe without access")
	}
	if err := s.create(podWith("kube-system", "disk-driver", otherPaths...), "ann"); err != nil {
		t.Error(err)
	}
}

func TestPersistentVolumesWithPipes(t *testing.T) {
	s := newAPIServer(t, driverAccess(), "storage-admin")
	asked := 0
	volumes := func(path string) []runtime.Object {
		return []runtime.Object{
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}},
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}}},
		}
	}
	forbidden := slices.Concat(ownSpellings, otherSpellings)
	for _, name := range otherNames {
		forbidden = append(forbidden, `\\.\pipe\`+name)
	}
	for _, path := range forbidden {
		for _, v := range volumes(path) {
			asked++
			if err := s.create(v, "system:serviceaccount:kube-system:example-csi-node"); err == nil || !strings.Contains(err.Error(), "may not create a PersistentVolume with the path") {
				t.Errorf("%q: %v", path, err)
			}
			if err := s.create(v, "storage-admin"); err != nil {
				t.Errorf("%q: %v", path, err)
			}
		}
	}
	for _, path := range otherPaths {
		for _, v := range volumes(path) {
			asked++
			if err := s.create(v, "ann"); err != nil {
				t.Errorf("%q: %v", path, err)
			}
		}
	}
	csi := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: ownSpellings[0]}}}}
	if err := s.create(csi, "ann"); err != nil {
		t.Error(err)
	}
	t.Logf("asked about %d volumes", asked)
}

// TestPatternOfADriver asks the policies about the pods of the manifests themselves.
func TestPatternOfADriver(t *testing.T) {
	s := newAPIServer(t, driverAccess())
	_, decoder := strict(t)
	asked := 0
	for name, text := range manifests(t) {
		for _, doc := range documents(t, text) {
			if strings.Contains(string(doc), "kind: ServiceMonitor\n") {
				continue
			}
			object, _, err := decoder.Decode(doc, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			pod := podOf(object)
			if pod == nil {
				continue
			}
			asked++
			if err := s.create(pod, "system:serviceaccount:kube-system:daemon-set-controller"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if asked < 4 {
		t.Errorf("asked about %d pods, want more", asked)
	}
}
