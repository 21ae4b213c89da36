package deploy

import (
	"context"
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

func TestPodsThatMountPipes(t *testing.T) {
	s := newAPIServer(t, PodAccess())
	asked, refused := 0, 0
	for _, c := range PodCases() {
		asked++
		if c.Refused != "" {
			refused++
		}
		if err := c.Judge(s.create(c.Object, c.User)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("asked about %d pods: %d had to be refused", asked, refused)
	if n := len(ownSpellings()) + len(otherSpellings()) + len(splits()); n < 200 {
		t.Errorf("the table has %d spellings, want 200", n)
	}
	if n := len(otherPaths()); n < 50 {
		t.Errorf("the table has %d paths that lead to no pipe, want 50", n)
	}
}

func TestNoAccessIsGivenByDefault(t *testing.T) {
	s := newAPIServer(t, nil)
	if err := s.create(pod("kube-system", "disk-driver", ownSpellings()[0]), "ann"); err == nil {
		t.Error("a pod mounts a pipe without access")
	}
	if err := s.create(pod("kube-system", "disk-driver", otherPaths()...), "ann"); err != nil {
		t.Error(err)
	}
}

func TestPersistentVolumesWithPipes(t *testing.T) {
	s := newAPIServer(t, driverAccess(), StorageAdmin)
	cases := VolumeCases()
	for _, c := range cases {
		if err := c.Judge(s.create(c.Object, c.User)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("asked about %d volumes", len(cases))
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
