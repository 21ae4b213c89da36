package files

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// Namespace is the files of a node.
type Namespace struct {
	*kernel.Kernel
	volumes *volume.Volumes
	shares  *smb.Network
}

// New returns the files of volumes and shares.
func New(k *kernel.Kernel, v *volume.Volumes, s *smb.Network) *Namespace {
	return &Namespace{k, v, s}
}
