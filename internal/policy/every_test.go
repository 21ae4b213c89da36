package policy_test

import (
	"errors"
	"reflect"
	"slices"
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

// ruled are fields with a rule, by the suffix of the field's name, with a value that the
// rules of this test allow and one that they reject. A field with any other name is
// taken for a path, unless free lists it.
var ruled = []rule{
	{"RemotePath", `\\files\data`, []string{`\\localhost\data`}},
	{"Name", "MSiSCSI", []string{"kubelet"}},
	{"", `C:\var\lib\kubelet\pods\a`, []string{
		`C:\Windows`, `C:\var\lib\kubelet\pki`, `\var\lib\kubelet\pki\kubelet-client-current.pem`, `c:/VAR/lib/Kubelet/PKI/x`, `/var/lib/kubelet/Pki/`,
	}},
}

// spellings are texts with which an attacker may reach another place, or a device, than the one
// that the rules compare.
var spellings = []string{
	`\\?\C:\var\lib\kubelet\pods\a`, `\\.\C:\var\lib\kubelet\pods\a`, `//./C:/var/lib/kubelet/pods/a`, `//?/C:/var/lib/kubelet/pods/a`, `\??\C:\var\lib\kubelet\pods\a`,
	`\\?\GLOBALROOT\Device\HarddiskVolume1\var\lib\kubelet\pods\a`, `\\.\GLOBALROOT\??\C:\var\lib\kubelet\pods\a`, `\\?\Volume{00000000-0000-0000-0000-000000000001}\var`,
	`\\.\PhysicalDrive0`, `\\.\pipe\csi-proxy-disk-v1`, `\\?\UNC\localhost\C$\var\lib\kubelet`, `\\localhost\C$\var\lib\kubelet\pods\a`,
	`C:\var\lib\kubelet\pods\a:stream`, `C:\var\lib\kubelet\pods\a::$DATA`, `C:\var\lib\kubelet\pods\a::$INDEX_ALLOCATION`, `C:\var\lib\kubelet:$I30:$INDEX_ALLOCATION\pods\a`,
	`C:\var\lib\kubelet\pods\a.`, `C:\var\lib\kubelet\pods\a `, `C:\var\lib\kubelet.\pods\a`, `C:\var\lib\kubelet\pki.\x`, `C:\var\lib\kubelet\pki \x`,
	`C:\var\lib\kubelet\pods\..\..\..\..\Windows`, `C:\var\lib\kubelet/../../../Windows`, `C:\var\lib\kubelet\pods\NUL`, `C:\var\lib\kubelet\CON\a`, `C:\var\lib\kubelet\pods\com1.txt`,
	`C:\var\lib\kubelet\pods\COM¹`, `C:\var\lib\kubelet\CONIN$`, `C:var\lib\kubelet\pods\a`, `var\lib\kubelet\pods\a`, `Z:\var\lib\kubelet\pods\a`,
	"C:\\var\\lib\\kubelet\\pods\\a\x00", "C:\\var\\lib\\kubelet\\pods\\a\nb", `C:\var\lib\kubelet\pods\*`, `C:\var\lib\kubelet\pods\a|b`,
}

type rule struct {
	name, allowed string
	refused       []string
}

// free are the fields that need no rule, by request and field or by field alone, with
// the reason.
var free = map[string]string{
	"Identifiers":                           "is compared with identifiers of the disk",
	"VolumeID":                              "the service fails for unknown volumes and protects those of Windows",
	"filesystem.PathValidRequest.Path":      "no version of the API has the method",
	"volume.FormatVolumeRequest.Filesystem": "is the word ntfs or refused",
	"system.GetServiceRequest.Name":         "callers may query every service",
	"Username":                              "an account of the server",
	"Password":                              "is sent to the server only",
	"TargetAddress":                         "a portal may be on any machine: the initiator connects to it with iSCSI and accesses nothing on the node",
	"IQN":                                   "a name defined by the portal",
	"ChapUsername":                          "is sent to the portal only",
	"ChapSecret":                            "is sent to the portal only",
	"MutualChapSecret":                      "the initiator stores it and sends it to portals only",
}

// text is a text field of a request or of a struct in it.
type text struct {
	names []string // "Path", or "TargetPortal.TargetAddress" and "TargetAddress"
	index []int
}

// textsOf returns the text fields of a request. It fails for a field of an unsupported
// kind that could contain texts.
func textsOf(t *testing.T, request reflect.Type, prefix string, index []int) []text {
	t.Helper()
	var all []text
	for i := range request.NumField() {
		f := request.Field(i)
		at := append(append([]int{}, index...), i)
		switch f.Type.Kind() {
		case reflect.String:
			all = append(all, text{[]string{prefix + "." + f.Name, f.Name}, at})
		case reflect.Slice:
			if f.Type.Elem().Kind() != reflect.String {
				t.Errorf("%s.%s is %s, which this test does not support", prefix, f.Name, f.Type)
			}
			all = append(all, text{[]string{prefix + "." + f.Name, f.Name}, at})
		case reflect.Bool, reflect.Int32, reflect.Uint32, reflect.Int64, reflect.Uint64:
		case reflect.Pointer:
			all = append(all, textsOf(t, f.Type.Elem(), prefix+"."+f.Name, at)...)
		default:
			t.Errorf("%s.%s is %s, which this test does not support", prefix, f.Name, f.Type)
		}
	}
	return all
}

// set sets the field, and allocates structs that contain it.
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
	if v.Kind() == reflect.Slice {
		v.Set(reflect.ValueOf([]string{`C:\var\lib\kubelet\pods\first`, value}))
		return
	}
	v.SetString(value)
}

// TestCheckCoversEveryText checks the requests of every Service. Every text field needs
// a rule in Check, or an entry in free with the reason why it needs none.
func TestCheckCoversEveryText(t *testing.T) {
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
				allowed string
				refused []string // empty if every value is allowed
			}
			var values []value
		texts:
			for _, x := range textsOf(t, request, request.String(), nil) {
				for _, name := range x.names {
					if free[name] != "" {
						used[name] = true
						values = append(values, value{x, "anything", nil})
						continue texts
					}
				}
				i := slices.IndexFunc(ruled, func(r rule) bool { return strings.HasSuffix(x.names[0], r.name) })
				checked[ruled[i].name]++
				values = append(values, value{x, ruled[i].allowed, ruled[i].refused})
			}
			// with returns the request with allowed values, except in one field.
			with := func(bad int, refused string) any {
				in := reflect.New(request)
				for i, v := range values {
					if i == bad {
						v.set(in, refused)
						continue
					}
					v.set(in, v.allowed)
				}
				return in.Interface()
			}
			if err := r.Check(with(-1, "")); err != nil {
				t.Errorf("Check(%+v) = %v, want nil", with(-1, ""), err)
			}
			for i, v := range values {
				if v.allowed != ruled[len(ruled)-1].allowed { // no path
					continue
				}
				for _, text := range spellings {
					if err := r.Check(with(i, text)); !errors.Is(err, hosterr.ErrPermissionDenied) && !errors.Is(err, hosterr.ErrInvalid) {
						t.Errorf("Check with %s %q = %v, want ErrInvalid or ErrPermissionDenied", v.names[0], text, err)
					}
				}
			}
			for i, v := range values {
				for _, refused := range v.refused {
					if err := r.Check(with(i, refused)); !errors.Is(err, hosterr.ErrPermissionDenied) {
						t.Errorf("Check with %s %q = %v, want ErrPermissionDenied: add a rule to Check or, if callers may use any value, an entry to free in this test", v.names[0], refused, err)
					}
				}
			}
		}
	}
	for name := range free {
		if !used[name] {
			t.Errorf("no request has the field %s of free", name)
		}
	}
	for _, kind := range ruled {
		if checked[kind.name] == 0 {
			t.Errorf("no request has a text field that ends in %q", kind.name)
		}
	}
}
