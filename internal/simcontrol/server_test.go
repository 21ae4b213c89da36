package simcontrol_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

func newServer(t *testing.T, config simnode.Config) *simcontrol.Server {
	t.Helper()
	n, err := simnode.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return simcontrol.NewServer(n)
}

// A field that Show forgot to fill in would stay zero in every answer.
func TestShowFillsInEveryField(t *testing.T) {
	yes := true
	n, err := simnode.Open(simnode.Config{AttachNeedsRescan: true, Disks: []simnode.Disk{
		{Content: "system"},
		{Size: 1 << 30, Serial: "S", Identifiers: []simnode.Identifier{{CodeSet: "ascii", Text: "P"}}, ReadOnly: &yes},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := simcontrol.NewServer(n)
	ctx := t.Context()
	const staging = `C:\var\lib\kubelet\plugins\smb.example.com\v1`
	for _, err := range []error{
		second(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: staging})),
		second(n.SMB().NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{
			RemotePath: `\\files.example.com\data`, LocalPath: staging + `\globalmount`, Username: "csi", Password: "csi",
		})),
		second(s.AddSmbServer(ctx, &simcontrol.AddSmbServerRequest{Name: "gone"})),
		second(s.ChangeSmbServer(ctx, &simcontrol.ChangeSmbServerRequest{Name: "gone", Down: &yes})),
		connectISCSI(ctx, n, s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	gone, err := s.AttachDisk(ctx, &simcontrol.AttachDiskRequest{SizeBytes: 1 << 30, Id: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		second(s.DetachDisk(ctx, &simcontrol.DetachDiskRequest{DiskNumber: gone.Disk.Number})),
		second(s.AttachDisk(ctx, &simcontrol.AttachDiskRequest{SizeBytes: 1 << 30, SectorSize: 4096, SerialNumber: "W", Page83: "W", Id: "w", Content: "gpt"})),
		second(s.Fail(ctx, &simcontrol.FailRequest{Fault: &simcontrol.Fault{Call: "Format", Code: 1, Error: "5", Times: 2, DelayMilliseconds: 3}})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	state, err := s.Show(ctx, &simcontrol.ShowRequest{})
	if err != nil {
		t.Fatal(err)
	}
	filled := map[protoreflect.FullName]bool{}
	collect(state.ProtoReflect(), filled)
	for _, m := range []protoreflect.ProtoMessage{&simcontrol.ShowResponse{}, &simcontrol.Disk{}, &simcontrol.Volume{}, &simcontrol.Fault{}, &simcontrol.SmbServer{}, &simcontrol.SmbMapping{},
		&simcontrol.Service{}, &simcontrol.IscsiTarget{}} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			name := fields.Get(i).FullName()
			switch name {
			case "simnode.v1.ShowResponse.open_handles", "simnode.v1.Fault.hits":
				continue // no call is running, and none was made
			}
			if !filled[name] {
				t.Errorf("%s is zero in all of %v", name, state)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// collect notes which fields of m and the messages in it are not zero.
func collect(m protoreflect.Message, filled map[protoreflect.FullName]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		filled[f.FullName()] = true
		if f.Message() != nil && f.IsList() {
			for i := range v.List().Len() {
				collect(v.List().Get(i).Message(), filled)
			}
		}
		return true
	})
}

func TestFailRefuses(t *testing.T) {
	s := newServer(t, simnode.Config{})
	for _, c := range []struct {
		name  string
		fault *simcontrol.Fault
		want  string
	}{
		{"no fault", nil, "no fault"},
		{"a delay that overflows", &simcontrol.Fault{Call: "Format", DelayMilliseconds: math.MaxInt64}, "beyond a day"},
		{"a negative delay that overflows", &simcontrol.Fault{Call: "Format", DelayMilliseconds: math.MinInt64}, "negative"},
		{"an unknown call", &simcontrol.Fault{Call: "Frobnicate", Error: "5"}, "Frobnicate"},
	} {
		_, err := s.Fail(t.Context(), &simcontrol.FailRequest{Fault: c.fault})
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an invalid argument with %q", c.name, err, c.want)
		}
	}
}
