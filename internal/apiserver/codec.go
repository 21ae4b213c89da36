package apiserver

import (
	"strings"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// request is the message of a call, not decoded.
type request struct{ bytes []byte }

// codec is gRPC's own for what it can encode and decode. What it cannot would be
// answered as an internal error of the server, by gRPC, before anybody else can
// say something.
type codec struct{ encoding.CodecV2 }

// Unmarshal gives out a request as it came; [receive] decodes it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*request); ok {
		r.bytes = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal encodes an answer. Names come from Windows, and those of targets from
// other machines; Windows lets halves of surrogate pairs stand in them, which
// protobuf does not: U+FFFD takes their place.
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
	mend(m.ProtoReflect())
	return c.CodecV2.Marshal(m)
}

// mend makes UTF-8 of all texts of m.
func mend(m protoreflect.Message) {
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
					mend(v2.Message())
				}
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				if isText {
					v.List().Set(i, text(v.List().Get(i)))
				} else if isMessage {
					mend(v.List().Get(i).Message())
				}
			}
		case isText:
			m.Set(f, text(v))
		case isMessage:
			mend(v.Message())
		}
		return true
	})
}
