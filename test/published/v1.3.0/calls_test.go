package published

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/client"
	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	diskv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1alpha1"
	diskv1beta1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	diskv1beta3 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta3"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1alpha1"
	filesystemv1beta1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	filesystemv1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta2"
	filesystemv2alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v2alpha1"
	iscsiv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha1"
	iscsiv1alpha2 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	smbv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1alpha1"
	smbv1beta1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta1"
	smbv1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta2"
	systemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	volumev1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1alpha1"
	volumev1beta1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta1"
	volumev1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	volumev1beta3 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta3"
	volumev2alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

var module = script.Module{
	Packages: "github.com/kubernetes-csi/csi-proxy/client/api",
	APIs: []script.API{
		{Name: "disk/v1alpha1", New: diskv1alpha1.NewDiskClient},
		{Name: "disk/v1beta1", New: diskv1beta1.NewDiskClient},
		{Name: "disk/v1beta2", New: diskv1beta2.NewDiskClient},
		{Name: "disk/v1beta3", New: diskv1beta3.NewDiskClient},
		{Name: "disk/v1", New: diskv1.NewDiskClient},
		{Name: "filesystem/v1alpha1", New: filesystemv1alpha1.NewFilesystemClient},
		{Name: "filesystem/v1beta1", New: filesystemv1beta1.NewFilesystemClient},
		{Name: "filesystem/v1beta2", New: filesystemv1beta2.NewFilesystemClient},
		{Name: "filesystem/v1", New: filesystemv1.NewFilesystemClient},
		{Name: "filesystem/v2alpha1", New: filesystemv2alpha1.NewFilesystemClient},
		{Name: "iscsi/v1alpha1", New: iscsiv1alpha1.NewIscsiClient},
		{Name: "iscsi/v1alpha2", New: iscsiv1alpha2.NewIscsiClient},
		{Name: "smb/v1alpha1", New: smbv1alpha1.NewSmbClient},
		{Name: "smb/v1beta1", New: smbv1beta1.NewSmbClient},
		{Name: "smb/v1beta2", New: smbv1beta2.NewSmbClient},
		{Name: "smb/v1", New: smbv1.NewSmbClient},
		{Name: "system/v1alpha1", New: systemv1alpha1.NewSystemClient},
		{Name: "volume/v1alpha1", New: volumev1alpha1.NewVolumeClient},
		{Name: "volume/v1beta1", New: volumev1beta1.NewVolumeClient},
		{Name: "volume/v1beta2", New: volumev1beta2.NewVolumeClient},
		{Name: "volume/v1beta3", New: volumev1beta3.NewVolumeClient},
		{Name: "volume/v1", New: volumev1.NewVolumeClient},
		{Name: "volume/v2alpha1", New: volumev2alpha1.NewVolumeClient},
	},
	Clients: clients,
	Connect: func(group, version string, socket func(pipe string) string) (script.Conn, error) {
		return dial(group, version, socket)
	},
	Invoke: func(ctx context.Context, c script.Conn, path string, in, out any) error {
		return c.(*grpc.ClientConn).Invoke(ctx, path, in, out)
	},
	Status: func(err error) (code, message string) {
		s := status.Convert(err)
		return s.Code().String(), s.Message()
	},
}

// dial connects as the published NewClientWithPipePath does on Windows: the pipe
// path is the dial target, and therefore the :authority of every request.
func dial(group, version string, socket func(pipe string) string) (*grpc.ClientConn, error) {
	pipe := client.PipePath(group, apiversion.NewVersionOrPanic(version))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return grpc.DialContext(ctx, pipe, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialPipe(ctx, pipe, socket)
		}))
}

// TestCalls calls every method of every version with the published client.
func TestCalls(t *testing.T) {
	if clients == nil {
		t.Parallel() // each daemon has its own sockets, but pipes are shared by the whole machine
	}
	module.Run(t)
}
