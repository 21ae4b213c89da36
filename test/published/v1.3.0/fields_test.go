package published

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	volumev2alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

// What a fork of the published project sends in field 2 of FormatVolume, and a field of a later
// version: nothing that the called version does not know is dropped in silence.
func TestUnknownFields(t *testing.T) {
	d := script.Start(t)
	call := func(group, version, method string, in, out proto.Message, field protowire.Number, value string) error {
		conn, err := dial(group, version, d.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), value))
		return conn.Invoke(context.Background(), method, in, out)
	}
	fork := func(fileSystem string) error {
		return call("volume", "v2alpha1", "/v2alpha1.Volume/FormatVolume", &volumev2alpha1.FormatVolumeRequest{VolumeId: "none"}, &volumev2alpha1.FormatVolumeResponse{}, 2, fileSystem)
	}
	for _, c := range []struct {
		name string
		err  error
		code codes.Code
		says string
	}{
		{"v2alpha1, refs", fork("refs"), codes.InvalidArgument, `file system "refs": CSI Proxy makes ntfs only, in every version of the API`},
		{"v2alpha1, ntfs", fork("ntfs"), codes.NotFound, `format volume "none": look up the volume ID: not found`},
		{"v2alpha1, empty", fork(""), codes.NotFound, `format volume "none": look up the volume ID: not found`},
		{"v1, ntfs", call("volume", "v1", "/v1.Volume/FormatVolume", &volumev1.FormatVolumeRequest{VolumeId: "none"}, &volumev1.FormatVolumeResponse{}, 2, "ntfs"),
			codes.InvalidArgument, "no field 2"},
		{"v1 of disks, an identity", call("disk", "v1", "/v1.Disk/PartitionDisk", &diskv1.PartitionDiskRequest{DiskNumber: 1}, &diskv1.PartitionDiskResponse{}, 2, "serial"),
			codes.InvalidArgument, "no field 2"},
	} {
		t.Logf("%s: %v", c.name, c.err)
		if s := status.Convert(c.err); s.Code() != c.code || !strings.Contains(s.Message(), c.says) {
			t.Errorf("%s: %v, want %v and %q", c.name, c.err, c.code, c.says)
		}
	}
}
