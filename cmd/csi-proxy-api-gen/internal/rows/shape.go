package rows

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// Words with another spelling in Go than in .proto files.
var (
	words       = regexp.MustCompile(`[A-Z][a-z0-9]*`)
	initialisms = map[string]string{
		"Eui64": "EUI64", "Id": "ID", "Ids": "IDs", "Iqn": "IQN", "Iqns": "IQNs", "Iscsi": "ISCSI", "Lun": "LUN", "Nguid": "NGUID", "Smb": "SMB", "Wwn": "WWN",
	}
)

// goName converts a name of the generated messages to the spelling of pkg: VolumeId to
// VolumeID, NewSmbGlobalMapping to NewSMBGlobalMapping.
func goName(name string) string {
	return words.ReplaceAllStringFunc(name, func(w string) string {
		if s, ok := initialisms[w]; ok {
			return s
		}
		return w
	})
}

// method is a method of a version.
type method struct {
	version *apis.Version
	*protogen.Method

	// shape describes the encoding of both messages and the names of their fields in
	// pkg. Methods with equal shapes share a row.
	shape string
}

func (m *method) String() string { return fmt.Sprintf("%s %s", m.version, m.Desc.Name()) }

// methodsOf returns the methods of a version, by name, whose Go names are in file.
func (c *Config) methodsOf(v *apis.Version, file *protogen.File) (map[string]*method, error) {
	methods := map[string]*method{}
	for _, m := range file.Services[0].Methods {
		request, err := c.shape(v, m.Input, nil)
		if err != nil {
			return nil, err
		}
		response, err := c.shape(v, m.Output, nil)
		if err != nil {
			return nil, err
		}
		methods[string(m.Desc.Name())] = &method{v, m, request + " → " + response}
	}
	return methods, nil
}

// shape describes the encoding of a message: numbers, labels and types of its fields, in
// the order of the numbers. It includes the name of each field in pkg, which is not
// encoded, to distinguish fields of different meaning.
func (c *Config) shape(v *apis.Version, m *protogen.Message, inside []protoreflect.FullName) (string, error) {
	if slices.Contains(inside, m.Desc.FullName()) {
		return "", fmt.Errorf("%s: message %s is recursive, which rows do not support", v, m.Desc.Name())
	}
	inside = append(inside, m.Desc.FullName())
	fields := slices.SortedFunc(slices.Values(m.Fields), func(a, b *protogen.Field) int {
		return int(a.Desc.Number()) - int(b.Desc.Number())
	})
	var all []string
	for _, f := range fields {
		typ, err := c.typeShape(v, f, inside)
		if err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("%d: %s %s", f.Desc.Number(), c.place(v, f), typ))
	}
	return "{" + strings.Join(all, ", ") + "}", nil
}

func (c *Config) typeShape(v *apis.Version, f *protogen.Field, inside []protoreflect.FullName) (string, error) {
	switch {
	case f.Desc.IsMap():
		key, err := c.typeShape(v, f.Message.Fields[0], inside)
		if err != nil {
			return "", err
		}
		value, err := c.typeShape(v, f.Message.Fields[1], inside)
		if err != nil {
			return "", err
		}
		return "map<" + key + ", " + value + ">", nil
	case f.Message != nil:
		s, err := c.shape(v, f.Message, inside)
		return label(f) + s, err
	case f.Enum != nil:
		var values []string
		for _, e := range f.Enum.Values {
			values = append(values, fmt.Sprintf("%s=%d", e.Desc.Name(), e.Desc.Number()))
		}
		return label(f) + "enum{" + strings.Join(values, " ") + "}", nil
	}
	return label(f) + f.Desc.Kind().String(), nil
}

func label(f *protogen.Field) string {
	if f.Desc.IsList() {
		return "repeated "
	}
	return ""
}

// place returns the name of the corresponding Go field, by the naming rules or by an
// exception.
func (c *Config) place(v *apis.Version, f *protogen.Field) string {
	if e := c.exception(v, f.Parent.Desc.Name(), string(f.Desc.Name())); e != nil && e.As != "" {
		return e.As
	}
	return goName(f.GoName)
}
