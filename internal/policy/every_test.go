package policy_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// ruled are values of fields that have a rule, by the end of the field's name: one
// that the rules of this test allow, and one that they refuse.
var ruled = []struct{ name, allowed, refused string }{
	{"RemotePath", `\\files\data`, `\\localhost\data`},
	{"Path", `C:\var\lib\kubelet\pods`, `C:\Windows`},
	{"Name", "MSiSCSI", "kubelet"},
}

// free are the texts that need no rule, by request and field or by field alone,
// and why.
var free = map[string]string{
	"VolumeID":                                "the service finds the volume or fails, and guards those of Windows",
	"filesystem.PathValidRequest.Path":        "no version of the API has the method",
	"system.GetServiceRequest.Name":           "callers may ask about every service",
	"smb.NewSMBGlobalMappingRequest.Username": "an account of the server",
	"smb.NewSMBGlobalMappingRequest.Password": "goes to the server alone",
	"TargetAddress":                           "a portal may be on any machine: the initiator speaks iSCSI to it, and nothing of the node is reached",
	"IQN":                                     "a name that the portal knows",
	"ChapUsername":                            "goes to the portal alone",
	"ChapSecret":                              "goes to the portal alone",
	"MutualChapSecret":                        "the initiator keeps it, and gives it to portals alone",
}

// text is a field of a request, or of a struct in it, that holds a text.
type text struct {
	names []string // "Path", or "TargetPortal.TargetAddress" and "TargetAddress"
	index []int
}

// textsOf are the texts of a request. It fails for a kind of field that could hold
// texts and that it does not look into.
func textsOf(t *testing.T, request reflect.Type, prefix string, index []int) []text {
	t.Helper()
	var all []text
	for i := range request.NumField() {
		f := request.Field(i)
		at := append(append([]int{}, index...), i)
		switch f.Type.Kind() {
		case reflect.String:
			all = append(all, text{[]string{prefix + "." + f.Name, f.Name}, at})
		case reflect.Bool, reflect.Int32, reflect.Uint32, reflect.Int64, reflect.Uint64:
		case reflect.Pointer:
			all = append(all, textsOf(t, f.Type.Elem(), prefix+"."+f.Name, at)...)
		default:
			t.Errorf("%s.%s is %s: teach this test to look into it", prefix, f.Name, f.Type)
		}
	}
	return all
}

// set puts a value into the field; pointers on the way exist.
func (x text) set(request reflect.Value, value string) {
	v := request.Elem()
	for _, i := range x.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	v.SetString(value)
}

// TestCheckKnowsEveryText goes through the requests of every Service. A text that is
// added to one has to get a rule in Check, or a line in free that says why it
// needs none.
func TestCheckKnowsEveryText(t *testing.T) {
	r := policy.Rules{Dirs: dirs(t, `C:\var\lib\kubelet`), Services: policy.DefaultServices()}
	used := map[string]bool{}
	checked := map[string]int{}
	for _, service := range []reflect.Type{
		reflect.TypeFor[disk.Service](), reflect.TypeFor[filesystem.Service](), reflect.TypeFor[iscsi.Service](),
		reflect.TypeFor[smb.Service](), reflect.TypeFor[system.Service](), reflect.TypeFor[volume.Service](),
	} {
		for i := range service.NumMethod() {
			request := service.Method(i).Type.In(1).Elem()
			type value struct {
				text
				allowed, refused string // refused is empty if nothing is
			}
			var values []value
		texts:
			for _, x := range textsOf(t, request, request.String(), nil) {
				for _, name := range x.names {
					if free[name] != "" {
						used[name] = true
						values = append(values, value{x, "anything", ""})
						continue texts
					}
				}
				for _, kind := range ruled {
					if strings.HasSuffix(x.names[0], kind.name) {
						checked[kind.name]++
						values = append(values, value{x, kind.allowed, kind.refused})
						continue texts
					}
				}
				t.Errorf("%s: may a caller behind a pipe put any text there? If not, add a rule to Check; if so, add it to free in this test", x.names[0])
			}
			// with is the request with allowed values, except in one field.
			with := func(bad int) any {
				in := reflect.New(request)
				for i, v := range values {
					if i == bad {
						v.set(in, v.refused)
						continue
					}
					v.set(in, v.allowed)
				}
				return in.Interface()
			}
			if err := r.Check(with(-1)); err != nil {
				t.Errorf("Check(%+v) = %v, want nil", with(-1), err)
			}
			for i, v := range values {
				if v.refused == "" {
					continue
				}
				if err := r.Check(with(i)); !errors.Is(err, hosterr.ErrPermissionDenied) {
					t.Errorf("Check with %s %q = %v, want ErrPermissionDenied: add a rule to Check, or a line to free in this test", v.names[0], v.refused, err)
				}
			}
		}
	}
	for name := range free {
		if !used[name] {
			t.Errorf("no request has the text %s, which free lists", name)
		}
	}
	for _, kind := range ruled {
		if checked[kind.name] == 0 {
			t.Errorf("no request has a text that ends in %s", kind.name)
		}
	}
}
