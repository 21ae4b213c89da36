package calls

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
)

// secretField matches the names of fields that are never logged: password of
// SMB, chap_secret and MutualChapSecret of iSCSI.
var secretField = regexp.MustCompile(`(?i)password|secret|credential|token`)

// Redacted returns m as one line of text, with secrets replaced by ***.
func Redacted(m proto.Message) string {
	m = proto.Clone(m)
	redact(m.ProtoReflect())
	// Escaped backslashes would make Windows paths hard to read.
	return failure.Limited(strings.ReplaceAll(prototext.MarshalOptions{}.Format(m), `\\`, `\`))
}

func redact(m protoreflect.Message) {
	// Unknown fields come from a newer client and may be secrets.
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
