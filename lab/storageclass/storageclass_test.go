package storageclass

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
)

// Each request that has a field for it gets what the class has, and what it shares with other
// requests stays as it was.
func TestAdd(t *testing.T) {
	c := Class{
		Parameters: map[string]string{"p": "1"}, Context: map[string]string{"c": "2"}, Secrets: map[string]string{"s": "3"}, MountFlags: []string{"ro"},
	}
	shared := map[string]string{"c": "theirs", "other": "x"}
	capability := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: []string{"a"}}}}
	for _, in := range []proto.Message{
		&csi.CreateVolumeRequest{VolumeCapabilities: []*csi.VolumeCapability{capability}}, &csi.DeleteVolumeRequest{},
		&csi.ControllerPublishVolumeRequest{VolumeContext: shared, VolumeCapability: capability}, &csi.ControllerUnpublishVolumeRequest{}, &csi.ControllerExpandVolumeRequest{},
		&csi.NodeStageVolumeRequest{VolumeContext: shared, VolumeCapability: capability},
		&csi.NodePublishVolumeRequest{VolumeContext: shared, VolumeCapability: capability}, &csi.NodeExpandVolumeRequest{},
	} {
		c.add(in)
		name := in.ProtoReflect().Descriptor().Name()
		if r, ok := in.(interface{ GetSecrets() map[string]string }); !ok || !maps.Equal(r.GetSecrets(), c.Secrets) {
			t.Errorf("%s has no secrets: %v", name, in)
		}
		if r, ok := in.(interface{ GetParameters() map[string]string }); ok && !maps.Equal(r.GetParameters(), c.Parameters) {
			t.Errorf("%s has the parameters %v", name, r.GetParameters())
		}
		if r, ok := in.(interface{ GetVolumeContext() map[string]string }); ok && !maps.Equal(r.GetVolumeContext(), map[string]string{"c": "2", "other": "x"}) {
			t.Errorf("%s has the volume context %v", name, r.GetVolumeContext())
		}
		var mount *csi.VolumeCapability
		switch r := in.(type) {
		case interface {
			GetVolumeCapability() *csi.VolumeCapability
		}:
			mount = r.GetVolumeCapability()
		case *csi.CreateVolumeRequest:
			mount = r.GetVolumeCapabilities()[0]
		}
		if mount != nil && !slices.Equal(mount.GetMount().GetMountFlags(), []string{"a", "ro"}) {
			t.Errorf("%s has the mount flags %q", name, mount.GetMount().GetMountFlags())
		}
	}
	if len(shared) != 2 || shared["c"] != "theirs" || len(capability.GetMount().GetMountFlags()) != 1 {
		t.Errorf("what requests share has changed: %v, %v", shared, capability)
	}
	none := &csi.NodeStageVolumeRequest{}
	c.add(none)
	if none.GetVolumeCapability() != nil {
		t.Error("a request without a capability got one")
	}
}

func TestReadSecrets(t *testing.T) {
	got, err := ReadSecrets(strings.NewReader("# the account\nusername=csi\n\npassword= a=b# \n"))
	if want := map[string]string{"username": "csi", "password": " a=b# "}; err != nil || !maps.Equal(got, want) {
		t.Errorf("ReadSecrets = %q, %v, want %q", got, err, want)
	}
	for _, text := range []string{"username=csi\nhidden\n", "=hidden"} {
		if _, err := ReadSecrets(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "want NAME=value") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("ReadSecrets(%q) = %v, want an error without the line", text, err)
		}
	}
}
