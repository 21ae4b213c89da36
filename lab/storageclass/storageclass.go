// Package storageclass adds to CSI calls what a StorageClass and its secrets add in a
// cluster: parameters, the volume context, mount options and secrets.
package storageclass

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Class is what each call gets that has a place for it.
type Class struct {
	Parameters map[string]string // of CreateVolume
	Context    map[string]string // added to the volume context, as volumeAttributes of a PersistentVolume
	MountFlags []string          // mountOptions
	Secrets    map[string]string // of all calls
}

// Dial is the option for connections to drivers and controllers whose calls get what the
// class has.
func (c Class) Dial() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		c.add(in)
		return invoke(ctx, method, in, out, conn, options...)
	})
}

// add adds to a request. It changes no map that the request shares with others.
func (c Class) add(request any) {
	switch in := request.(type) {
	case *csi.CreateVolumeRequest:
		in.Parameters, in.Secrets = with(in.Parameters, c.Parameters), with(in.Secrets, c.Secrets)
		for i, capability := range in.VolumeCapabilities {
			in.VolumeCapabilities[i] = c.mount(capability)
		}
	case *csi.DeleteVolumeRequest:
		in.Secrets = with(in.Secrets, c.Secrets)
	case *csi.ControllerPublishVolumeRequest:
		in.VolumeContext, in.Secrets, in.VolumeCapability = with(in.VolumeContext, c.Context), with(in.Secrets, c.Secrets), c.mount(in.VolumeCapability)
	case *csi.ControllerUnpublishVolumeRequest:
		in.Secrets = with(in.Secrets, c.Secrets)
	case *csi.ControllerExpandVolumeRequest:
		in.Secrets = with(in.Secrets, c.Secrets)
	case *csi.NodeStageVolumeRequest:
		in.VolumeContext, in.Secrets, in.VolumeCapability = with(in.VolumeContext, c.Context), with(in.Secrets, c.Secrets), c.mount(in.VolumeCapability)
	case *csi.NodePublishVolumeRequest:
		in.VolumeContext, in.Secrets, in.VolumeCapability = with(in.VolumeContext, c.Context), with(in.Secrets, c.Secrets), c.mount(in.VolumeCapability)
	case *csi.NodeExpandVolumeRequest:
		in.Secrets = with(in.Secrets, c.Secrets)
	}
}

func (c Class) mount(capability *csi.VolumeCapability) *csi.VolumeCapability {
	if capability.GetMount() == nil || len(c.MountFlags) == 0 {
		return capability
	}
	capability = proto.CloneOf(capability)
	capability.GetMount().MountFlags = append(capability.GetMount().MountFlags, c.MountFlags...)
	return capability
}

// with returns the entries of both maps. Those of add come first.
func with(have, add map[string]string) map[string]string {
	if len(add) == 0 {
		return have
	}
	all := map[string]string{}
	maps.Copy(all, have)
	maps.Copy(all, add)
	return all
}

// ReadSecrets reads secrets in the form of `kubectl create secret --from-env-file`: lines of
// NAME=value, and comments. Its errors have no value.
func ReadSecrets(from io.Reader) (map[string]string, error) {
	secrets := map[string]string{}
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("line %d: want NAME=value, a comment after #, or an empty line", n)
		}
		secrets[name] = value
	}
	return secrets, lines.Err()
}
