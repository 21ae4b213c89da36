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
		version := protoreflect.FullName(e.Version.String())
		if err := wire.CheckFields(version, request); err != nil {
			t.Errorf("%s: a request of this version: %v", e, err)
		}
		within(request, func(m protoreflect.Message) {
			m.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
			err := wire.CheckFields(version, request)
			m.SetUnknown(nil)
			want := fmt.Sprintf("%s: this version of the API has no field 1000", version.Append(m.Descriptor().Name()))
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
		refused string
	}{
		{alpha.ProtoReflect(), field(2, ""), ""},
		{alpha.ProtoReflect(), field(2, "ntfs"), ""},
		{alpha.ProtoReflect(), field(2, "NTFS"), ""},
		{alpha.ProtoReflect(), field(2, "refs"), `file system "refs": CSI Proxy makes ntfs only, in every version of the API`},
		{alpha.ProtoReflect(), append(field(2, "ntfs"), field(2, "refs")...), `file system "refs"`},
		{alpha.ProtoReflect(), append(field(2, "ntfs"), field(3, "")...), "no field 3"},
		{alpha.ProtoReflect(), protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1), "no field 2"},
		{v1.ProtoReflect(), field(2, "ntfs"), "no field 2"},
	} {
		c.m.SetUnknown(c.unknown)
		err := wire.CheckFields(c.m.Descriptor().ParentFile().Package(), c.m)
		if c.refused == "" && err != nil || c.refused != "" && (!errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s with %q: %v, want %q", c.m.Descriptor().FullName(), c.unknown, err, c.refused)
		}
	}
	// Versions of the same shape share a message, and the fork has the field in one of them.
	alpha.ProtoReflect().SetUnknown(field(2, "ntfs"))
	if err := wire.CheckFields("v1", alpha.ProtoReflect()); !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), "v1.FormatVolumeRequest: this version of the API has no field 2") {
		t.Errorf("a call of v1: %v", err)
	}
}
