package serve

import (
	"strings"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// request is the message of a call. The server decodes it itself, because gRPC would report
// a malformed one as an internal error.
type request struct {
	into proto.Message
	err  error
}

// codec extends gRPC's codec with handling of messages that it cannot decode or
// encode. gRPC itself would report those as internal errors of the server.
type codec struct{ encoding.CodecV2 }

// Unmarshal decodes a message. For a [request], the error is stored in it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*request); ok {
		b := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer b.Free()
		r.err = proto.Unmarshal(b.ReadOnlyData(), r.into)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal encodes a response. Names in it come from Windows or, for iSCSI targets,
// from other machines. Windows allows unpaired surrogates in names, but protobuf
// does not: they are replaced by U+FFFD.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	b, err := c.CodecV2.Marshal(v)
	if err == nil {
		return b, nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, err
	}
	m = proto.Clone(m)
	makeValidUTF8(m.ProtoReflect())
	return c.CodecV2.Marshal(m)
}

// makeValidUTF8 replaces invalid UTF-8 in all strings of m.
func makeValidUTF8(m protoreflect.Message) {
	text := func(v protoreflect.Value) protoreflect.Value {
		return protoreflect.ValueOfString(strings.ToValidUTF8(v.String(), "\uFFFD"))
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		value := f
		if f.IsMap() {
			value = f.MapValue()
		}
		isText, isMessage := value.Kind() == protoreflect.StringKind, value.Message() != nil
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v2 protoreflect.Value) bool {
				if isText {
					v.Map().Set(k, text(v2))
				} else if isMessage {
					makeValidUTF8(v2.Message())
				}
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				if isText {
					v.List().Set(i, text(v.List().Get(i)))
				} else if isMessage {
					makeValidUTF8(v.List().Get(i).Message())
				}
			}
		case isText:
			m.Set(f, text(v))
		case isMessage:
			makeValidUTF8(v.Message())
		}
		return true
	})
}
