package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	limits "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// An apiServer has the policies of the chart, by the resource that each is about. The API server's own
// code compiles and evaluates their expressions. Which objects it asks which policy about is seen in a
// real one (package apiserver): that code brings its informers, and takes minutes to compile.
type apiServer struct {
	scheme   *runtime.Scheme
	policies map[string]policy
}

type policy struct {
	of                               *admissionv1.ValidatingAdmissionPolicy
	conditions, validations, message plugin.ConditionEvaluator
}

// An expression of a policy, which returns one of the types.
type expression struct {
	name, text string
	types      []*cel.Type
}

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return e.types }

func newAPIServer(t *testing.T, access []any, pvUsers ...any) *apiServer {
	t.Helper()
	given := withImage()
	given["policy"] = values{"access": access, "persistentVolumeUsers": pvUsers}
	scheme, decoder := strict(t)
	s := &apiServer{scheme, map[string]policy{}}
	denied := map[string]bool{}
	for _, doc := range documents(t, mustRender(t, given)["policy.yaml"]) {
		object, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		switch o := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			rules := o.Spec.MatchConstraints.ResourceRules
			if len(rules) != 1 || !slices.Equal(rules[0].Operations, []admissionv1.OperationType{admissionv1.Create}) || len(rules[0].Resources) != 1 {
				t.Fatalf("%s is about %v, want the creation of one resource", o.Name, rules)
			}
			s.policies[rules[0].Resources[0]] = compile(t, o)
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			denied[o.Spec.PolicyName] = slices.Equal(o.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) && o.Spec.MatchResources == nil
		}
	}
	for resource, p := range s.policies {
		if !denied[p.of.Name] || *p.of.Spec.FailurePolicy != admissionv1.Fail {
			t.Fatalf("policy %s does not refuse %s: it has no binding, or ignores failures", p.of.Name, resource)
		}
	}
	if len(s.policies) != 2 || len(denied) != 2 {
		t.Fatalf("the chart has policies for %d resources and %d bindings, want 2 of each", len(s.policies), len(denied))
	}
	return s
}

// compile compiles the expressions of a policy, as the API server compiles those that it stores.
func compile(t *testing.T, of *admissionv1.ValidatingAdmissionPolicy) policy {
	t.Helper()
	compiler, err := plugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var none plugin.OptionalVariableDeclarations
	for _, v := range of.Spec.Variables {
		if r := compiler.CompileAndStoreVariable(expression{v.Name, v.Expression, []*cel.Type{cel.AnyType, cel.DynType}}, none, environment.StoredExpressions); r.Error != nil {
			t.Fatalf("%s: variable %s: %v", of.Name, v.Name, r.Error)
		}
	}
	var conditions, validations, messages []plugin.ExpressionAccessor
	for _, c := range of.Spec.MatchConditions {
		conditions = append(conditions, expression{c.Name, c.Expression, []*cel.Type{cel.BoolType}})
	}
	for _, v := range of.Spec.Validations {
		validations = append(validations, expression{text: v.Expression, types: []*cel.Type{cel.BoolType}})
		messages = append(messages, expression{text: v.MessageExpression, types: []*cel.Type{cel.StringType}})
	}
	p := policy{of: of}
	for to, from := range map[*plugin.ConditionEvaluator][]plugin.ExpressionAccessor{&p.conditions: conditions, &p.validations: validations, &p.message: messages} {
		*to = compiler.CompileCondition(from, none, environment.StoredExpressions)
		if err := errors.Join((*to).CompilationErrors()...); err != nil {
			t.Fatalf("%s: %v", of.Name, err)
		}
	}
	return p
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
	resource := kinds[0].GroupVersion().WithResource(strings.ToLower(kinds[0].Kind) + "s")
	a := &admission.VersionedAttributes{
		Attributes:      admission.NewAttributesRecord(object, nil, kinds[0], m.GetNamespace(), m.GetName(), resource, "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: by}),
		VersionedObject: object, VersionedKind: kinds[0],
	}
	p, ok := s.policies[resource.Resource]
	if !ok {
		return nil
	}
	request := plugin.CreateAdmissionRequest(a, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kinds[0]))
	evaluate := func(e plugin.ConditionEvaluator, budget int64) ([]plugin.EvaluationResult, error) {
		results, _, err := e.ForInput(context.Background(), a, request, plugin.OptionalVariableBindings{}, nil, budget)
		return results, err
	}
	conditions, err := evaluate(p.conditions, limits.RuntimeCELCostBudgetMatchConditions)
	for _, c := range conditions {
		if c.EvalResult == types.False {
			return nil // even if another fails
		}
		err = errors.Join(err, c.Error)
	}
	if err != nil {
		return err
	}
	validations, err := evaluate(p.validations, limits.RuntimeCELCostBudget)
	if err != nil {
		return err
	}
	for i, v := range validations {
		if v.Error != nil {
			return v.Error
		}
		if v.EvalResult == types.True {
			continue
		}
		messages, err := evaluate(p.message, limits.RuntimeCELCostBudget)
		if err == nil {
			err = messages[i].Error // those of the others may fail
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("policy %s denied request: %v", p.of.Name, messages[i].EvalResult.Value())
	}
	return nil
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
