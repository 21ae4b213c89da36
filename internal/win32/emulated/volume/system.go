package volume

import (
	"slices"
	"strings"
)

// PageFiles is the value that lists the page files of a running Windows.
const PageFiles = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\ExistingPageFiles`

// Registry returns a value of the registry, or nil.
func (n *Volumes) Registry(path string) []string {
	for p, text := range n.Config.Registry {
		if strings.EqualFold(p, path) {
			return slices.Clone(text)
		}
	}
	switch {
	case strings.EqualFold(path, PageFiles):
		return []string{`\??\C:\pagefile.sys`}
	case strings.EqualFold(path, systemPartition):
		return n.systemPartition()
	}
	return nil
}

// systemPartition is the value with the device of the partition from which Windows starts. It is
// that of installed systems; tools of Windows' setup read it.
const systemPartition = `SYSTEM\Setup\SystemPartition`

func (n *Volumes) systemPartition() []string {
	for _, v := range n.List {
		if d := v.Ranges[0].Disk; d.System && v.Ranges[0].Off == d.Table.Partitions[0].Offset && v.visible() {
			return []string{v.NTDevice()}
		}
	}
	return nil
}

// ownVolume reports whether v is the volume of Windows or has a page file.
func (n *Volumes) ownVolume(v *Volume) bool {
	for _, root := range n.pathNames(v.guid()) {
		for _, file := range append(n.Registry(PageFiles), `\??\C:\Windows`) {
			if len(root) == len(`C:\`) && strings.HasPrefix(strings.ToUpper(strings.TrimPrefix(file, `\??\`)), strings.ToUpper(root)) {
				return true
			}
		}
	}
	return false
}
