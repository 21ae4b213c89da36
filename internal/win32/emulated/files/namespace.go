package files

import (
	"fmt"
	"slices"
	"strings"

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

// directories exist on the C: of every node.
var directories = []string{
	`\Windows\System32`, `\Program Files`, `\ProgramData`, `\Users`,
	`\var\lib\kubelet\plugins`, `\var\lib\kubelet\pods`,
}

// MakeDirectories creates the node's directories on C:, if it has a C:.
func (n *Namespace) MakeDirectories() error {
	for _, dir := range append(slices.Clone(directories), n.Config.Directories...) {
		path := dir
		if strings.HasPrefix(path, `\`) {
			path = `C:` + path
		}
		name, device, err := volume.NTName(path)
		if err != nil || device {
			return fmt.Errorf("directory %q: want an absolute path such as C:\\var\\lib", dir)
		}
		err = n.Transact(func(t *kernel.Tx) error {
			vol, rest, ok := n.volumes.OfName(name)
			if !ok || vol.Tree == nil {
				if _, wanted := n.volumes.Letters['C']; !wanted && len(n.Config.Directories) == 0 {
					return nil // a node without C: has no directories of its own
				}
				return fmt.Errorf("directory %q: the node has no such file system", dir)
			}
			if err := vol.MakeDirectory(t, rest); err != nil {
				return fmt.Errorf("directory %q: %w", dir, err)
			}
			return nil
		})
		if err != nil {
			return n.Cause(err)
		}
	}
	return nil
}
