package deploy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Case is an object that a user creates where the policies of the chart are in force.
type Case struct {
	Object runtime.Object
	User   string
	// Refused is a part of the error with which the policies refuse the object; empty if
	// they admit it.
	Refused string
	// Path is what the object mounts, for messages.
	Path string
}

// Judge compares what the policies answered with what they have to answer.
func (c Case) Judge(answer error) error {
	switch {
	case c.Refused == "" && answer != nil:
		return fmt.Errorf("%q, created by %s: %w", c.Path, c.User, answer)
	case c.Refused != "" && answer == nil:
		return fmt.Errorf("%q, created by %s, was admitted; want an error with %q", c.Path, c.User, c.Refused)
	case c.Refused != "" && !strings.Contains(answer.Error(), c.Refused):
		return fmt.Errorf("%q, created by %s: error %q does not say %q", c.Path, c.User, answer, c.Refused)
	}
	return nil
}

// PodAccess is the value policy.access of the chart with which the policies answer
// [PodCases].
func PodAccess() []any {
	return []any{
		values{"namespace": "kube-system", "serviceAccount": "disk-driver", "groups": []any{"disk", "volume"}},
		values{"namespace": "shop", "serviceAccount": "smb.driver", "groups": []any{"smb"}},
		values{"namespace": "shop", "serviceAccount": "default", "groups": []any{"system"}},
	}
}

// StorageAdmin is the value policy.persistentVolumeUsers with which the policies answer
// [VolumeCases].
const StorageAdmin = "storage-admin"

// values are values of the chart.
type values = map[string]any

// pod returns a pod with the paths as its volumes.
func pod(namespace, account string, paths ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}, Spec: corev1.PodSpec{
		ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
	}}
	for i, path := range paths {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	return p
}

// ownSpellings are the paths that the policy reads as csi-proxy-disk-v1.
func ownSpellings() []string {
	return []string{
		`\\.\pipe\csi-proxy-disk-v1`, `\\.\PIPE\CSI-Proxy-Disk-V1`, `//./pipe/csi-proxy-disk-v1`, `\/.\pipe/csi-proxy-disk-v1`, `//./Pipe\csi-proxy-disk-v1`,
	}
}

// otherSpellings are paths that lead, or may lead, to the pipe csi-proxy-disk-v1 or to all
// pipes.
func otherSpellings() []string {
	return []string{
		`\\?\pipe\csi-proxy-disk-v1`, `\\.\\pipe\csi-proxy-disk-v1`, `\\.\pipe\\csi-proxy-disk-v1`, `\\.\pipe\.\csi-proxy-disk-v1`,
		`\\.\pipe\x\..\csi-proxy-disk-v1`, `\\.\x\..\pipe\csi-proxy-disk-v1`, `//?/pipe/csi-proxy-disk-v1`, `\\?\PIPE\CSI-PROXY-DISK-V1`,
		`\??\pipe\csi-proxy-disk-v1`, `/??/pipe/csi-proxy-disk-v1`, `\\?\GLOBALROOT\Device\NamedPipe\csi-proxy-disk-v1`, `\\.\GlobalRoot\Device\NamedPipe\csi-proxy-disk-v1`,
		`\\localhost\pipe\csi-proxy-disk-v1`, `\\127.0.0.1\pipe\csi-proxy-disk-v1`, `\\NODE-1\IPC$\csi-proxy-disk-v1`, `\\?\UNC\localhost\pipe\csi-proxy-disk-v1`,
		`\\?\UNC\localhost\IPC$\csi-proxy-disk-v1`, `\\.\unc\127.0.0.1\ipc$\csi-proxy-disk-v1`, `//?/UNC/NODE-1/IPC$/csi-proxy-disk-v1`, `\??\UNC\localhost\IPC$\csi-proxy-disk-v1`,
		`\\.\pipe`, `\\.\pipe\`, `//./pipe/`, `\\.\pipe.\csi-proxy-disk-v1`, `\\.\pipe \csi-proxy-disk-v1`, `\\..\pipe\csi-proxy-disk-v1`,
		` \\.\pipe\csi-proxy-disk-v1`, `\\.\pıpe\csi-proxy-disk-v1`, `\\.\ｐｉｐｅ\csi-proxy-disk-v1`, "\\\\.\\pipe\\csi-proxy-disk-v1\\", `\\.\C:\..\pipe\csi-proxy-disk-v1`,
	}
}

// otherNames are names of pipes that begin as those of the API, and are not.
func otherNames() []string {
	return []string{
		`csi-proxy-admin`, `CSI-PROXY-ADMIN`, `csi-proxy-node-v1`, `csi-proxy-disk`, `csi-proxy-disk-v1.`, `csi-proxy-disk-v1 `, `csi-proxy`, `csi-proxy-disk-vx`, `csi-proxy-disk-v1:x`, ` csi-proxy-disk-v1`,
	}
}

// otherPaths lead to no pipe of CSI Proxy.
func otherPaths() []string {
	return []string{
		`C:\var\lib\kubelet`, `/var/lib/kubelet`, `\var\lib\kubelet`, `c:/csi-proxy-disk-v1`, `C:\pipe\csi-proxy-disk-v1`, `\\.\pipe\containerd-containerd`, `//./pipe/docker_engine`,
		`\\server\share\pipeline`, `\\server\share\pipes\csi-proxy-disk-v1`, `\\?\C:\data`, `\\.\PhysicalDrive1`, `\\?\Volume{01234567-89ab-cdef-0123-456789abcdef}\`, `\\server\größe`,
	}
}

// PodCases are pods with each spelling of the path of a pipe, and with other paths.
func PodCases() []Case {
	var cases []Case
	add := func(p *corev1.Pod, refused string) {
		var paths []string
		for _, v := range p.Spec.Volumes {
			paths = append(paths, v.HostPath.Path)
		}
		path := fmt.Sprintf("%s/%s with %s", p.Namespace, p.Spec.ServiceAccountName, strings.Join(paths, " and "))
		cases = append(cases, Case{Object: p, User: "ann", Refused: refused, Path: path})
	}
	for _, path := range ownSpellings() {
		add(pod("kube-system", "disk-driver", path), "")
		add(pod("kube-system", "disk-driver", `C:\var\lib\kubelet`, path), "")
		add(pod("default", "disk-driver", path), `service account default/disk-driver may not mount \\.\pipe\csi-proxy-disk-v1; it has no access`)
		add(pod("kube-system", "", path), "service account kube-system/default may not mount")
		add(pod("kube-system", "other", `C:\x`, path), "may not mount")
		add(pod("shop", "smb.driver", path), "it has access to the groups smb;")
	}
	for _, path := range otherSpellings() {
		add(pod("kube-system", "disk-driver", path), `write \\.\pipe\NAME`)
		add(pod("default", "", `C:\x`, path), `write \\.\pipe\NAME`)
	}
	for _, name := range otherNames() {
		add(pod("kube-system", "disk-driver", `\\.\pipe\`+name), `no pod may mount \\.\pipe\`)
		add(pod("default", "", `//./pipe/`+name), `no pod may mount \\.\pipe\`)
	}
	for _, path := range otherPaths() {
		add(pod("default", "", path), "")
	}
	add(pod("default", ""), "")
	add(pod("default", "", otherPaths()...), "")
	add(pod("kube-system", "disk-driver", `\\.\pipe\csi-proxy-disk-v1beta3`, `\\.\pipe\csi-proxy-volume-v1`, `\\.\pipe\csi-proxy-volume-v2alpha1`), "")
	add(pod("kube-system", "disk-driver", `\\.\pipe\csi-proxy-disk-v1`, `\\.\pipe\csi-proxy-smb-v1`), `\\.\pipe\csi-proxy-smb-v1; it has access to the groups disk, volume;`)
	add(pod("shop", "smb.driver", `\\.\pipe\csi-proxy-smb-v1`), "")
	add(pod("shop", "", `\\.\pipe\csi-proxy-system-v1alpha1`), "")
	return cases
}

// VolumeCases are PersistentVolumes of both kinds that lead to a path of the node.
func VolumeCases() []Case {
	const driver = "system:serviceaccount:kube-system:example-csi-node"
	var cases []Case
	add := func(path, user, refused string) {
		hostPath := corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
		local := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
		cases = append(cases, Case{Object: persistentVolume(hostPath), User: user, Refused: refused, Path: "hostPath " + path},
			Case{Object: persistentVolume(local), User: user, Refused: refused, Path: "local " + path})
	}
	forbidden := slices.Concat(ownSpellings(), otherSpellings())
	for _, name := range otherNames() {
		forbidden = append(forbidden, `\\.\pipe\`+name)
	}
	for _, path := range forbidden {
		add(path, driver, "may not create a PersistentVolume with the path")
		add(path, StorageAdmin, "")
	}
	for _, path := range otherPaths() {
		add(path, "ann", "")
	}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: ownSpellings()[0]}}
	return append(cases, Case{Object: persistentVolume(csi), User: "ann", Path: "a CSI volume"})
}

func persistentVolume(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: source,
	}}
	if source.Local != nil {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"}}},
		}}}}
	}
	return v
}
