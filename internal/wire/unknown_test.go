package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	volumev2alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// within calls f for a message and all messages in it.
func within(m protoreflect.Message, f func(protoreflect.Message)) {
	f(m)
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field.Message() != nil && !field.IsMap() && !field.IsList() {
			within(v.Message(), f)
		}
		return true
	})
}

// Every version refuses each message of a request, nested ones too, that has a field more.
func TestFieldsOfOtherVersionsAreRefused(t *testing.T) {
	nested := 0
	for _, e := range endpoints(t, groups(&recorder{})) {
		request := e.filled().ProtoReflect()
		if err := wire.CheckFields(request); err != nil {
			t.Errorf("%s: a request of this version: %v", e, err)
		}
		within(request, func(m protoreflect.Message) {
			m.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
			err := wire.CheckFields(request)
			m.SetUnknown(nil)
			want := fmt.Sprintf("%s: this version of the API has no field 1000", m.Descriptor().FullName())
			if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want ErrInvalid with %q", e, err, want)
			}
			if m != request {
				nested++
			}
		})
	}
	if nested == 0 {
		t.Error("no request has a message in it")
	}
}

// A fork sends the file system in a field of v2alpha1.
func TestFileSystemOfFork(t *testing.T) {
	field := func(number protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), text)
	}
	alpha, v1 := &volumev2alpha1.FormatVolumeRequest{VolumeId: "x"}, &volumev1.FormatVolumeRequest{VolumeId: "x"}
	for _, c := range []struct {
		m       protoreflect.Message
		unknown []byte
		refused bool
	}{
		{alpha.ProtoReflect(), field(2, ""), false},
		{alpha.ProtoReflect(), field(2, "ntfs"), false},
		{alpha.ProtoReflect(), field(2, "NTFS"), false},
		{alpha.ProtoReflect(), field(2, "refs"), true},
		{alpha.ProtoReflect(), append(field(2, "ntfs"), field(2, "refs")...), true},
		{alpha.ProtoReflect(), append(field(2, "ntfs"), field(3, "")...), true},
		{alpha.ProtoReflect(), protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1), true},
		{v1.ProtoReflect(), field(2, "ntfs"), true},
	} {
		c.m.SetUnknown(c.unknown)
		if err := wire.CheckFields(c.m); (err != nil) != c.refused {
			t.Errorf("%s with %q: %v, want refused: %t", c.m.Descriptor().FullName(), c.unknown, err, c.refused)
		}
	}
}
