package api_test

import (
	diskv1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1alpha1"
	diskv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	diskv1beta3 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta3"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	filesystemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1alpha1"
	filesystemv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	filesystemv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta2"
	filesystemv2alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v2alpha1"
	iscsiv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha1"
	iscsiv1alpha2 "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha2"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	smbv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1alpha1"
	smbv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta1"
	smbv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta2"
	systemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	volumev1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1alpha1"
	volumev1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta1"
	volumev1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta2"
	volumev1beta3 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta3"
	volumev2alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v2alpha1"
)

// published has the clients for drivers of each version. They are written out, so that a missing
// one does not compile. test/surface compares all Go identifiers with the published module.
var published = map[string]any{
	"disk/v1alpha1":       diskv1alpha1.NewClientWithPipePath,
	"disk/v1beta1":        diskv1beta1.NewClientWithPipePath,
	"disk/v1beta2":        diskv1beta2.NewClientWithPipePath,
	"disk/v1beta3":        diskv1beta3.NewClientWithPipePath,
	"disk/v1":             diskv1.NewClientWithPipePath,
	"filesystem/v1alpha1": filesystemv1alpha1.NewClientWithPipePath,
	"filesystem/v1beta1":  filesystemv1beta1.NewClientWithPipePath,
	"filesystem/v1beta2":  filesystemv1beta2.NewClientWithPipePath,
	"filesystem/v1":       filesystemv1.NewClientWithPipePath,
	"filesystem/v2alpha1": filesystemv2alpha1.NewClientWithPipePath,
	"iscsi/v1alpha1":      iscsiv1alpha1.NewClientWithPipePath,
	"iscsi/v1alpha2":      iscsiv1alpha2.NewClientWithPipePath,
	"smb/v1alpha1":        smbv1alpha1.NewClientWithPipePath,
	"smb/v1beta1":         smbv1beta1.NewClientWithPipePath,
	"smb/v1beta2":         smbv1beta2.NewClientWithPipePath,
	"smb/v1":              smbv1.NewClientWithPipePath,
	"system/v1alpha1":     systemv1alpha1.NewClientWithPipePath,
	"volume/v1alpha1":     volumev1alpha1.NewClientWithPipePath,
	"volume/v1beta1":      volumev1beta1.NewClientWithPipePath,
	"volume/v1beta2":      volumev1beta2.NewClientWithPipePath,
	"volume/v1beta3":      volumev1beta3.NewClientWithPipePath,
	"volume/v1":           volumev1.NewClientWithPipePath,
	"volume/v2alpha1":     volumev2alpha1.NewClientWithPipePath,
}
