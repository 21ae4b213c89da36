package wire

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// CheckFields returns an error that names the first field of a request, or of a message in it,
// that the called version of the API does not have. Protobuf drops such a field, and the rest
// can mean something else: of all volumes of a disk, say, instead of one.
func CheckFields(m protoreflect.Message) error {
	if number := foreign(m); number != 0 {
		name := m.Descriptor().FullName()
		return hosterr.WithHint("read", string(name), hosterr.Text(hosterr.ErrInvalid, "this version of the API has no field %d in it, and without that field the request may mean something else", number),
			"call the version of the API whose client sent it, on its own pipe, or update csi-proxy; with -unknown-fields=log such fields are ignored, as the existing csi-proxy does")
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() { // without a closure, which would cost each call an allocation
		f := fields.Get(i)
		if f.Message() == nil || !m.Has(f) {
			continue
		}
		var err error
		switch v := m.Get(f); {
		case f.IsMap():
			err = checkValues(f, v.Map())
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = CheckFields(v.List().Get(i).Message())
			}
		default:
			err = CheckFields(v.Message())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkValues is [CheckFields] for the values of a map.
func checkValues(f protoreflect.FieldDescriptor, m protoreflect.Map) (err error) {
	if f.MapValue().Message() != nil {
		m.Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			err = CheckFields(v.Message())
			return err == nil
		})
	}
	return err
}

// foreign returns the number of the first field that a message does not have, or 0.
func foreign(m protoreflect.Message) protowire.Number {
	for b := []byte(m.GetUnknown()); len(b) > 0; {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.MinValidNumber // cannot be: the message was decoded
		}
		if !meansNTFS(m.Descriptor().FullName(), number, kind, b[:n]) {
			return number
		}
		b = b[n:]
	}
	return 0
}

// meansNTFS reports whether a field asks FormatVolume for what it does anyway. A fork of csi-proxy
// has a file system in its version v2alpha1.
//
// Source: the .proto of the fork that Longhorn uses on Windows.
func meansNTFS(message protoreflect.FullName, number protowire.Number, kind protowire.Type, field []byte) bool {
	if message != "v2alpha1.FormatVolumeRequest" || number != 2 || kind != protowire.BytesType {
		return false
	}
	_, _, n := protowire.ConsumeTag(field)
	text, _ := protowire.ConsumeString(field[n:])
	return text == "" || strings.EqualFold(text, "ntfs")
}
