package wiretest

import (
	"reflect"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// by maps fields of old versions to fields of pkg with another name: a leaf of the
// version's message to a leaf of pkg's struct. "-" means that pkg has no such field:
//
//   - context: plugins and pods used to have different directories.
//   - error: was never used; failures are gRPC errors.
var by = map[string]map[string]string{
	"disk PartitionDisk":          {"diskid": "disknumber"},
	"disk DiskStats":              {"diskid": "disknumber", "disksize": "totalbytes"},
	"disk SetAttachState":         {"diskid": "disknumber"},
	"disk GetAttachState":         {"diskid": "disknumber"},
	"disk ListDiskIDs":            {"diskids{}.identifiers{page83}": "diskids{}.page83", "diskids{}.identifiers{serialnumber}": "diskids{}.serialnumber"},
	"filesystem PathExists":       {"context": "-", "error": "-"},
	"filesystem Mkdir":            {"context": "-", "error": "-"},
	"filesystem Rmdir":            {"context": "-", "error": "-"},
	"filesystem LinkPath":         {"error": "-"},
	"filesystem IsMountPoint":     {"error": "-", "ismountpoint": "issymlink"},
	"smb NewSmbGlobalMapping":     {"error": "-"},
	"smb RemoveSmbGlobalMapping":  {"error": "-"},
	"volume ListVolumesOnDisk":    {"diskid": "disknumber"},
	"volume MountVolume":          {"path": "targetpath"},
	"volume DismountVolume":       {"path": "targetpath"},
	"volume ResizeVolume":         {"size": "sizebytes"},
	"volume VolumeStats":          {"volumesize": "totalbytes", "volumeusedsize": "usedbytes"},
	"volume GetVolumeIDFromMount": {"mount": "targetpath"},
}

// Plain returns a name in lower case without underscores: names of fields differ between
// messages and pkg in nothing else, unless they were renamed.
func Plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// InPkg returns the name in pkg of a leaf of a method's message, or "-" if pkg has no such
// field. A leaf is a scalar value inside a request or response. Its name is plain, such as
// "targetportal.targetport". Elements of a list have the name "[]", values of a map "{}",
// and its keys "{key}". A map from string to string has a leaf for each key.
func InPkg(group, method, leaf string) string {
	if to, ok := by[group+" "+method][leaf]; ok {
		return to
	}
	return leaf
}

// Renamed returns the leaves that have another name in pkg, by group and method.
func Renamed() map[string]map[string]string { return by }

// Leaves returns the names in pkg of the leaves that the request and the response of a
// method have in a version. Other leaves of pkg are absent in this version.
func Leaves(s wire.Service, method string) (request, response map[string]bool, err error) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.Desc.ServiceName))
	if err != nil {
		return nil, nil, err
	}
	m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	names := func(m protoreflect.MessageDescriptor) map[string]bool {
		all := map[string]bool{}
		addLeaves(all, m, "", func(leaf string) string { return InPkg(s.Group, method, leaf) }, by[s.Group+" "+method])
		return all
	}
	return names(m.Input()), names(m.Output()), nil
}

func addLeaves(all map[string]bool, m protoreflect.MessageDescriptor, prefix string, inPkg func(string) string, renamed map[string]string) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := prefix + Plain(string(f.Name()))
		switch {
		case f.IsMap() && f.MapValue().Message() == nil:
			for leaf, to := range renamed {
				if strings.HasPrefix(leaf, name+"{") {
					all[to] = true
				}
			}
		case f.IsMap():
			all[inPkg(name+"{key}")] = true
			addLeaves(all, f.MapValue().Message(), name+"{}.", inPkg, renamed)
		case f.IsList() && f.Message() != nil:
			addLeaves(all, f.Message(), name+"[].", inPkg, renamed)
		case f.IsList():
			all[inPkg(name+"[]")] = true
		case f.Message() != nil:
			addLeaves(all, f.Message(), name+".", inPkg, renamed)
		default:
			all[inPkg(name)] = true
		}
	}
}

// Clear sets the leaves of the struct that p points to to zero, except those in keep. A
// struct without a leaf that is kept becomes nil. It returns the names of the fields of the
// struct itself that it has set to zero and that were not.
func Clear(p any, keep map[string]bool) (cleared []string) {
	x := reflect.ValueOf(p).Elem()
	for i := range x.NumField() {
		was := !x.Field(i).IsZero()
		if !clearLeaf(x.Field(i), Plain(x.Type().Field(i).Name), keep) && was {
			cleared = append(cleared, x.Type().Field(i).Name)
		}
	}
	return cleared
}

// clearLeaf reports whether a leaf of the value is kept.
func clearLeaf(x reflect.Value, name string, keep map[string]bool) (kept bool) {
	switch x.Kind() {
	case reflect.Struct:
		for i := range x.NumField() {
			kept = clearLeaf(x.Field(i), name+"."+Plain(x.Type().Field(i).Name), keep) || kept
		}
	case reflect.Pointer:
		zero := x.IsNil()
		if zero {
			x.Set(reflect.New(x.Type().Elem()))
		}
		kept = clearLeaf(x.Elem(), name, keep)
		if zero || !kept {
			x.SetZero()
		}
	case reflect.Slice:
		one := reflect.New(x.Type().Elem()).Elem()
		kept = clearLeaf(one, name+"[]", keep)
		for i := range x.Len() {
			clearLeaf(x.Index(i), name+"[]", keep)
		}
		if !kept {
			x.SetZero()
		}
	case reflect.Map:
		kept = keep[name+"{key}"]
		if !kept {
			x.SetZero()
		}
		for _, k := range x.MapKeys() {
			one := reflect.New(x.Type().Elem()).Elem()
			one.Set(x.MapIndex(k))
			clearLeaf(one, name+"{}", keep)
			x.SetMapIndex(k, one)
		}
	default:
		kept = keep[name]
		if !kept {
			x.SetZero()
		}
	}
	return kept
}
