package api_test

import (
	"reflect"

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
	diskv1client "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1alpha1"
	diskv1beta1client "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta1"
	diskv1beta2client "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	diskv1beta3client "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta3"
	filesystemv1client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	filesystemv1alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1alpha1"
	filesystemv1beta1client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	filesystemv1beta2client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta2"
	filesystemv2alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v2alpha1"
	iscsiv1alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha1"
	iscsiv1alpha2client "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha2"
	smbv1client "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	smbv1alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1alpha1"
	smbv1beta1client "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta1"
	smbv1beta2client "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta2"
	systemv1alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	volumev1client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	volumev1alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1alpha1"
	volumev1beta1client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta1"
	volumev1beta2client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta2"
	volumev1beta3client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta3"
	volumev2alpha1client "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v2alpha1"
)

// published contains, for each version, the Go identifiers that programs use. They are
// written out rather than found by reflection, so that a missing one does not compile.
var published = map[string]struct {
	client          reflect.Type // interface
	newClient       any
	server          reflect.Type // interface
	register        any
	unimplemented   any // by value
	groupName       string
	version         apiversion.Version
	wrapper         reflect.Type // *Client
	newWrapper      any
	newWrapperNamed any
}{
	"disk/v1alpha1": {
		reflect.TypeFor[diskv1alpha1.DiskClient](), diskv1alpha1.NewDiskClient,
		reflect.TypeFor[diskv1alpha1.DiskServer](), diskv1alpha1.RegisterDiskServer, diskv1alpha1.UnimplementedDiskServer{},
		diskv1alpha1client.GroupName, diskv1alpha1client.Version, reflect.TypeFor[*diskv1alpha1client.Client](), diskv1alpha1client.NewClient, diskv1alpha1client.NewClientWithPipePath,
	},
	"disk/v1beta1": {
		reflect.TypeFor[diskv1beta1.DiskClient](), diskv1beta1.NewDiskClient,
		reflect.TypeFor[diskv1beta1.DiskServer](), diskv1beta1.RegisterDiskServer, diskv1beta1.UnimplementedDiskServer{},
		diskv1beta1client.GroupName, diskv1beta1client.Version, reflect.TypeFor[*diskv1beta1client.Client](), diskv1beta1client.NewClient, diskv1beta1client.NewClientWithPipePath,
	},
	"disk/v1beta2": {
		reflect.TypeFor[diskv1beta2.DiskClient](), diskv1beta2.NewDiskClient,
		reflect.TypeFor[diskv1beta2.DiskServer](), diskv1beta2.RegisterDiskServer, diskv1beta2.UnimplementedDiskServer{},
		diskv1beta2client.GroupName, diskv1beta2client.Version, reflect.TypeFor[*diskv1beta2client.Client](), diskv1beta2client.NewClient, diskv1beta2client.NewClientWithPipePath,
	},
	"disk/v1beta3": {
		reflect.TypeFor[diskv1beta3.DiskClient](), diskv1beta3.NewDiskClient,
		reflect.TypeFor[diskv1beta3.DiskServer](), diskv1beta3.RegisterDiskServer, diskv1beta3.UnimplementedDiskServer{},
		diskv1beta3client.GroupName, diskv1beta3client.Version, reflect.TypeFor[*diskv1beta3client.Client](), diskv1beta3client.NewClient, diskv1beta3client.NewClientWithPipePath,
	},
	"disk/v1": {
		reflect.TypeFor[diskv1.DiskClient](), diskv1.NewDiskClient,
		reflect.TypeFor[diskv1.DiskServer](), diskv1.RegisterDiskServer, diskv1.UnimplementedDiskServer{},
		diskv1client.GroupName, diskv1client.Version, reflect.TypeFor[*diskv1client.Client](), diskv1client.NewClient, diskv1client.NewClientWithPipePath,
	},
	"filesystem/v1alpha1": {
		reflect.TypeFor[filesystemv1alpha1.FilesystemClient](), filesystemv1alpha1.NewFilesystemClient,
		reflect.TypeFor[filesystemv1alpha1.FilesystemServer](), filesystemv1alpha1.RegisterFilesystemServer, filesystemv1alpha1.UnimplementedFilesystemServer{},
		filesystemv1alpha1client.GroupName, filesystemv1alpha1client.Version, reflect.TypeFor[*filesystemv1alpha1client.Client](), filesystemv1alpha1client.NewClient, filesystemv1alpha1client.NewClientWithPipePath,
	},
	"filesystem/v1beta1": {
		reflect.TypeFor[filesystemv1beta1.FilesystemClient](), filesystemv1beta1.NewFilesystemClient,
		reflect.TypeFor[filesystemv1beta1.FilesystemServer](), filesystemv1beta1.RegisterFilesystemServer, filesystemv1beta1.UnimplementedFilesystemServer{},
		filesystemv1beta1client.GroupName, filesystemv1beta1client.Version, reflect.TypeFor[*filesystemv1beta1client.Client](), filesystemv1beta1client.NewClient, filesystemv1beta1client.NewClientWithPipePath,
	},
	"filesystem/v1beta2": {
		reflect.TypeFor[filesystemv1beta2.FilesystemClient](), filesystemv1beta2.NewFilesystemClient,
		reflect.TypeFor[filesystemv1beta2.FilesystemServer](), filesystemv1beta2.RegisterFilesystemServer, filesystemv1beta2.UnimplementedFilesystemServer{},
		filesystemv1beta2client.GroupName, filesystemv1beta2client.Version, reflect.TypeFor[*filesystemv1beta2client.Client](), filesystemv1beta2client.NewClient, filesystemv1beta2client.NewClientWithPipePath,
	},
	"filesystem/v1": {
		reflect.TypeFor[filesystemv1.FilesystemClient](), filesystemv1.NewFilesystemClient,
		reflect.TypeFor[filesystemv1.FilesystemServer](), filesystemv1.RegisterFilesystemServer, filesystemv1.UnimplementedFilesystemServer{},
		filesystemv1client.GroupName, filesystemv1client.Version, reflect.TypeFor[*filesystemv1client.Client](), filesystemv1client.NewClient, filesystemv1client.NewClientWithPipePath,
	},
	"filesystem/v2alpha1": {
		reflect.TypeFor[filesystemv2alpha1.FilesystemClient](), filesystemv2alpha1.NewFilesystemClient,
		reflect.TypeFor[filesystemv2alpha1.FilesystemServer](), filesystemv2alpha1.RegisterFilesystemServer, filesystemv2alpha1.UnimplementedFilesystemServer{},
		filesystemv2alpha1client.GroupName, filesystemv2alpha1client.Version, reflect.TypeFor[*filesystemv2alpha1client.Client](), filesystemv2alpha1client.NewClient, filesystemv2alpha1client.NewClientWithPipePath,
	},
	"iscsi/v1alpha1": {
		reflect.TypeFor[iscsiv1alpha1.IscsiClient](), iscsiv1alpha1.NewIscsiClient,
		reflect.TypeFor[iscsiv1alpha1.IscsiServer](), iscsiv1alpha1.RegisterIscsiServer, iscsiv1alpha1.UnimplementedIscsiServer{},
		iscsiv1alpha1client.GroupName, iscsiv1alpha1client.Version, reflect.TypeFor[*iscsiv1alpha1client.Client](), iscsiv1alpha1client.NewClient, iscsiv1alpha1client.NewClientWithPipePath,
	},
	"iscsi/v1alpha2": {
		reflect.TypeFor[iscsiv1alpha2.IscsiClient](), iscsiv1alpha2.NewIscsiClient,
		reflect.TypeFor[iscsiv1alpha2.IscsiServer](), iscsiv1alpha2.RegisterIscsiServer, iscsiv1alpha2.UnimplementedIscsiServer{},
		iscsiv1alpha2client.GroupName, iscsiv1alpha2client.Version, reflect.TypeFor[*iscsiv1alpha2client.Client](), iscsiv1alpha2client.NewClient, iscsiv1alpha2client.NewClientWithPipePath,
	},
	"smb/v1alpha1": {
		reflect.TypeFor[smbv1alpha1.SmbClient](), smbv1alpha1.NewSmbClient,
		reflect.TypeFor[smbv1alpha1.SmbServer](), smbv1alpha1.RegisterSmbServer, smbv1alpha1.UnimplementedSmbServer{},
		smbv1alpha1client.GroupName, smbv1alpha1client.Version, reflect.TypeFor[*smbv1alpha1client.Client](), smbv1alpha1client.NewClient, smbv1alpha1client.NewClientWithPipePath,
	},
	"smb/v1beta1": {
		reflect.TypeFor[smbv1beta1.SmbClient](), smbv1beta1.NewSmbClient,
		reflect.TypeFor[smbv1beta1.SmbServer](), smbv1beta1.RegisterSmbServer, smbv1beta1.UnimplementedSmbServer{},
		smbv1beta1client.GroupName, smbv1beta1client.Version, reflect.TypeFor[*smbv1beta1client.Client](), smbv1beta1client.NewClient, smbv1beta1client.NewClientWithPipePath,
	},
	"smb/v1beta2": {
		reflect.TypeFor[smbv1beta2.SmbClient](), smbv1beta2.NewSmbClient,
		reflect.TypeFor[smbv1beta2.SmbServer](), smbv1beta2.RegisterSmbServer, smbv1beta2.UnimplementedSmbServer{},
		smbv1beta2client.GroupName, smbv1beta2client.Version, reflect.TypeFor[*smbv1beta2client.Client](), smbv1beta2client.NewClient, smbv1beta2client.NewClientWithPipePath,
	},
	"smb/v1": {
		reflect.TypeFor[smbv1.SmbClient](), smbv1.NewSmbClient,
		reflect.TypeFor[smbv1.SmbServer](), smbv1.RegisterSmbServer, smbv1.UnimplementedSmbServer{},
		smbv1client.GroupName, smbv1client.Version, reflect.TypeFor[*smbv1client.Client](), smbv1client.NewClient, smbv1client.NewClientWithPipePath,
	},
	"system/v1alpha1": {
		reflect.TypeFor[systemv1alpha1.SystemClient](), systemv1alpha1.NewSystemClient,
		reflect.TypeFor[systemv1alpha1.SystemServer](), systemv1alpha1.RegisterSystemServer, systemv1alpha1.UnimplementedSystemServer{},
		systemv1alpha1client.GroupName, systemv1alpha1client.Version, reflect.TypeFor[*systemv1alpha1client.Client](), systemv1alpha1client.NewClient, systemv1alpha1client.NewClientWithPipePath,
	},
	"volume/v1alpha1": {
		reflect.TypeFor[volumev1alpha1.VolumeClient](), volumev1alpha1.NewVolumeClient,
		reflect.TypeFor[volumev1alpha1.VolumeServer](), volumev1alpha1.RegisterVolumeServer, volumev1alpha1.UnimplementedVolumeServer{},
		volumev1alpha1client.GroupName, volumev1alpha1client.Version, reflect.TypeFor[*volumev1alpha1client.Client](), volumev1alpha1client.NewClient, volumev1alpha1client.NewClientWithPipePath,
	},
	"volume/v1beta1": {
		reflect.TypeFor[volumev1beta1.VolumeClient](), volumev1beta1.NewVolumeClient,
		reflect.TypeFor[volumev1beta1.VolumeServer](), volumev1beta1.RegisterVolumeServer, volumev1beta1.UnimplementedVolumeServer{},
		volumev1beta1client.GroupName, volumev1beta1client.Version, reflect.TypeFor[*volumev1beta1client.Client](), volumev1beta1client.NewClient, volumev1beta1client.NewClientWithPipePath,
	},
	"volume/v1beta2": {
		reflect.TypeFor[volumev1beta2.VolumeClient](), volumev1beta2.NewVolumeClient,
		reflect.TypeFor[volumev1beta2.VolumeServer](), volumev1beta2.RegisterVolumeServer, volumev1beta2.UnimplementedVolumeServer{},
		volumev1beta2client.GroupName, volumev1beta2client.Version, reflect.TypeFor[*volumev1beta2client.Client](), volumev1beta2client.NewClient, volumev1beta2client.NewClientWithPipePath,
	},
	"volume/v1beta3": {
		reflect.TypeFor[volumev1beta3.VolumeClient](), volumev1beta3.NewVolumeClient,
		reflect.TypeFor[volumev1beta3.VolumeServer](), volumev1beta3.RegisterVolumeServer, volumev1beta3.UnimplementedVolumeServer{},
		volumev1beta3client.GroupName, volumev1beta3client.Version, reflect.TypeFor[*volumev1beta3client.Client](), volumev1beta3client.NewClient, volumev1beta3client.NewClientWithPipePath,
	},
	"volume/v1": {
		reflect.TypeFor[volumev1.VolumeClient](), volumev1.NewVolumeClient,
		reflect.TypeFor[volumev1.VolumeServer](), volumev1.RegisterVolumeServer, volumev1.UnimplementedVolumeServer{},
		volumev1client.GroupName, volumev1client.Version, reflect.TypeFor[*volumev1client.Client](), volumev1client.NewClient, volumev1client.NewClientWithPipePath,
	},
	"volume/v2alpha1": {
		reflect.TypeFor[volumev2alpha1.VolumeClient](), volumev2alpha1.NewVolumeClient,
		reflect.TypeFor[volumev2alpha1.VolumeServer](), volumev2alpha1.RegisterVolumeServer, volumev2alpha1.UnimplementedVolumeServer{},
		volumev2alpha1client.GroupName, volumev2alpha1client.Version, reflect.TypeFor[*volumev2alpha1client.Client](), volumev2alpha1client.NewClient, volumev2alpha1client.NewClientWithPipePath,
	},
}

// publishedEnums names the maps and constants of each enum.
var publishedEnums = map[string]struct {
	names     map[int32]string
	values    map[string]int32
	constants map[string]any
}{
	"v1alpha1.PathContext": {filesystemv1alpha1.PathContext_name, filesystemv1alpha1.PathContext_value, map[string]any{
		"PathContext_PLUGIN": filesystemv1alpha1.PathContext_PLUGIN,
		"PathContext_POD":    filesystemv1alpha1.PathContext_POD,
	}},
	"v1beta1.PathContext": {filesystemv1beta1.PathContext_name, filesystemv1beta1.PathContext_value, map[string]any{
		"PathContext_PLUGIN": filesystemv1beta1.PathContext_PLUGIN,
		"PathContext_POD":    filesystemv1beta1.PathContext_POD,
	}},
	"v1alpha1.AuthenticationType": {iscsiv1alpha1.AuthenticationType_name, iscsiv1alpha1.AuthenticationType_value, map[string]any{
		"AuthenticationType_NONE":         iscsiv1alpha1.AuthenticationType_NONE,
		"AuthenticationType_ONE_WAY_CHAP": iscsiv1alpha1.AuthenticationType_ONE_WAY_CHAP,
		"AuthenticationType_MUTUAL_CHAP":  iscsiv1alpha1.AuthenticationType_MUTUAL_CHAP,
	}},
	"v1alpha2.AuthenticationType": {iscsiv1alpha2.AuthenticationType_name, iscsiv1alpha2.AuthenticationType_value, map[string]any{
		"AuthenticationType_NONE":         iscsiv1alpha2.AuthenticationType_NONE,
		"AuthenticationType_ONE_WAY_CHAP": iscsiv1alpha2.AuthenticationType_ONE_WAY_CHAP,
		"AuthenticationType_MUTUAL_CHAP":  iscsiv1alpha2.AuthenticationType_MUTUAL_CHAP,
	}},
	"v1alpha1.ServiceStatus": {systemv1alpha1.ServiceStatus_name, systemv1alpha1.ServiceStatus_value, map[string]any{
		"ServiceStatus_UNKNOWN":          systemv1alpha1.ServiceStatus_UNKNOWN,
		"ServiceStatus_STOPPED":          systemv1alpha1.ServiceStatus_STOPPED,
		"ServiceStatus_START_PENDING":    systemv1alpha1.ServiceStatus_START_PENDING,
		"ServiceStatus_STOP_PENDING":     systemv1alpha1.ServiceStatus_STOP_PENDING,
		"ServiceStatus_RUNNING":          systemv1alpha1.ServiceStatus_RUNNING,
		"ServiceStatus_CONTINUE_PENDING": systemv1alpha1.ServiceStatus_CONTINUE_PENDING,
		"ServiceStatus_PAUSE_PENDING":    systemv1alpha1.ServiceStatus_PAUSE_PENDING,
		"ServiceStatus_PAUSED":           systemv1alpha1.ServiceStatus_PAUSED,
	}},
	"v1alpha1.StartType": {systemv1alpha1.StartType_name, systemv1alpha1.StartType_value, map[string]any{
		"StartType_BOOT":      systemv1alpha1.StartType_BOOT,
		"StartType_SYSTEM":    systemv1alpha1.StartType_SYSTEM,
		"StartType_AUTOMATIC": systemv1alpha1.StartType_AUTOMATIC,
		"StartType_MANUAL":    systemv1alpha1.StartType_MANUAL,
		"StartType_DISABLED":  systemv1alpha1.StartType_DISABLED,
	}},
}
