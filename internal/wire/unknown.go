package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// CheckFields returns an error that names the first field of a request, or of a message in it,
// that the called version of the API does not have. Protobuf drops such a field, and the rest
// can mean something else: of all volumes of a disk, say, instead of one. version is the package
// of the called version: versions of the same shape share a message.
func CheckFields(version protoreflect.FullName, m protoreflect.Message) error {
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		name := version.Append(m.Descriptor().Name())
		number, err := foreign(name, unknown)
		if err != nil {
			return hosterr.Wrap("read", string(name), err)
		}
		if number != 0 {
			return hosterr.WithHint("read", string(name), hosterr.Text(hosterr.ErrInvalid, "this version of the API has no field %d in it, and without that field the request may mean something else", number),
				"call the version of the API whose client sent it, on its own pipe, or update csi-proxy; with -unknown-fields=log such fields are ignored, as the existing csi-proxy does")
		}
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() { // without a closure, which would cost each call an allocation
		// No request has a list or a map of messages. The tests would panic here.
		if f := fields.Get(i); f.Message() != nil && m.Has(f) {
			if err := CheckFields(version, m.Get(f).Message()); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign returns the number of the first of the unknown fields of a message that is refused, or 0.
//
// A fork of csi-proxy has a file system in FormatVolume of its version v2alpha1, as ours in
// v3alpha1: it may ask for what the method does anyway, and another one is the error.
//
// Source: the .proto of the fork that Longhorn uses on Windows.
func foreign(name protoreflect.FullName, b []byte) (protowire.Number, error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.MinValidNumber, nil // cannot be: the message was decoded
		}
		if name != "v2alpha1.FormatVolumeRequest" || number != 2 || kind != protowire.BytesType {
			return number, nil
		}
		_, _, tag := protowire.ConsumeTag(b)
		name, _ := protowire.ConsumeString(b[tag:])
		if err := volume.CheckFilesystem(name); err != nil {
			return number, err
		}
		b = b[n:]
	}
	return 0, nil
}
