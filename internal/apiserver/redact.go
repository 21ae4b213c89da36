package apiserver

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// secretField matches the names of fields that are never logged: password of
// SMB, chap_secret and MutualChapSecret of iSCSI.
var secretField = regexp.MustCompile(`(?i)password|secret|credential|token`)

// redacted is m on one line, its secrets replaced by stars.
func redacted(m proto.Message) string {
	m = proto.Clone(m)
	redact(m.ProtoReflect())
	// Logs are read by people, and Windows paths are full of backslashes.
	return limited(strings.ReplaceAll(prototext.MarshalOptions{}.Format(m), `\\`, `\`))
}

func redact(m protoreflect.Message) {
	// What the proto files do not know was sent by a newer client, and may be
	// anything.
	m.SetUnknown(nil)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case secretField.MatchString(string(f.Name())):
			if f.Kind() == protoreflect.StringKind && !f.IsList() && !f.IsMap() {
				m.Set(f, protoreflect.ValueOfString("***"))
			} else {
				m.Clear(f)
			}
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					redact(v.Message())
					return true
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				redact(v.List().Get(i).Message())
			}
		default:
			redact(v.Message())
		}
		return true
	})
}
