package wire_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	diskv1beta3 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta3"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
)

// serve runs all services in one server and returns a connection to it.
func serve(t *testing.T, r *recorder) *grpc.ClientConn {
	t.Helper()
	return wiretest.Serve(t, func(s *grpc.Server) {
		wiretest.Register(s, groups(r))
		reflection.RegisterV1(s)
	})
}

func TestSeveralVersionsInOneServer(t *testing.T) {
	r := &recorder{fill: func(resp any) {
		if ids, ok := resp.(*disk.ListDiskIDsResponse); ok {
			ids.DiskIDs = map[uint32]*disk.DiskIDs{5: {Page83: "naa", SerialNumber: "s"}, 6: nil}
		}
	}}
	conn := serve(t, r)
	ctx := context.Background()

	for name, set := range map[string]func() error{
		"v1": func() error {
			_, err := diskv1.NewDiskClient(conn).SetDiskState(ctx, &diskv1.SetDiskStateRequest{DiskNumber: 5, IsOnline: true})
			return err
		},
		"v1beta3": func() error {
			_, err := diskv1beta3.NewDiskClient(conn).SetDiskState(ctx, &diskv1beta3.SetDiskStateRequest{DiskNumber: 5, IsOnline: true})
			return err
		},
		"v1beta2": func() error {
			_, err := diskv1beta2.NewDiskClient(conn).SetAttachState(ctx, &diskv1beta2.SetAttachStateRequest{DiskID: "5", IsOnline: true})
			return err
		},
	} {
		r.got = nil
		if err := set(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, ok := r.got.(*disk.SetDiskStateRequest); !ok || *got != (disk.SetDiskStateRequest{DiskNumber: 5, IsOnline: true}) {
			t.Errorf("%s: the service got %+v", name, r.got)
		}
	}

	now, err := diskv1.NewDiskClient(conn).ListDiskIDs(ctx, &diskv1.ListDiskIDsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := now.DiskIDs[5]; len(now.DiskIDs) != 2 || got.GetPage83() != "naa" || got.GetSerialNumber() != "s" {
		t.Errorf("v1: %v", now)
	}
	then, err := diskv1beta2.NewDiskClient(conn).ListDiskIDs(ctx, &diskv1beta2.ListDiskIDsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := then.DiskIDs["5"].GetIdentifiers(); len(then.DiskIDs) != 2 || got["page83"] != "naa" || got["serialNumber"] != "s" {
		t.Errorf("v1beta2: %v", then)
	}
	if got := then.DiskIDs["6"].GetIdentifiers(); len(got) != 2 {
		t.Errorf("v1beta2: a disk without identifiers has the keys %v, want both", got)
	}
}

func TestMissingMethodReturnsUnimplemented(t *testing.T) {
	conn := serve(t, &recorder{})
	err := conn.Invoke(context.Background(), "/v1.Disk/GetDiskNumberByName", &diskv1.RescanRequest{}, &diskv1.RescanResponse{})
	if got := status.Code(err); got != codes.Unimplemented {
		t.Errorf("error %v, want Unimplemented", err)
	}
}

func TestReflectionDescribesVersion(t *testing.T) {
	conn := serve(t, &recorder{})
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range wire.Services(groups(&recorder{})) {
		if err := stream.Send(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: s.Desc.ServiceName},
		}); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		files := resp.GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) != 1 {
			t.Errorf("%s: reflection returns %v", s, resp)
			continue
		}
		var fd descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(files[0], &fd); err != nil {
			t.Fatal(err)
		}
		want := protodesc.ToFileDescriptorProto(serviceDescriptor(t, s).ParentFile())
		if !proto.Equal(&fd, want) || fd.GetName() != s.Desc.Metadata {
			t.Errorf("%s: reflection returns %s, want %s", s, fd.GetName(), want.GetName())
		}
	}
}
