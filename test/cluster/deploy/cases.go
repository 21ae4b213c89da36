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
		values{"namespace": "kube-system", "serviceAccount": "disk-driver", "groups": []any{"disk"}},
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
	all := []string{
		`\\?\GLOBALROOT\Device\NamedPipe\csi-proxy-disk-v1`, `\\.\GlobalRoot\??\pipe\csi-proxy-disk-v1`, `\\.\Global\pipe\csi-proxy-disk-v1`,
		`\\.\Mup\localhost\pipe\csi-proxy-disk-v1`, `\\?\UNC\;LanmanRedirector\localhost\IPC$\csi-proxy-disk-v1`, `\\;LanmanRedirector\;Z:0\localhost\pipe\csi-proxy-disk-v1`,
		`\\localhost\;Z:\pipe\csi-proxy-disk-v1`, `\\NODE-1\IPC$\csi-proxy-disk-v1`, `\\127.0.0.1\pipe\csi-proxy-disk-v1`, `\\localhost\pipe \csi-proxy-disk-v1`,
		`\\localhost\pipe.\csi-proxy-disk-v1`, `\\localhost\ipc$ . \csi-proxy-disk-v1`, `\\localhost\C$\..\..\pipe\csi-proxy-disk-v1`, `\\?\UNC\localhost\C$\..\IPC$\csi-proxy-disk-v1`,
		`\\.\pipe.\csi-proxy-disk-v1`, `\\.\pipe \csi-proxy-disk-v1`, `\\..\pipe\csi-proxy-disk-v1`, `\\.\C:\..\pipe\csi-proxy-disk-v1`, `\\?\C:\x\..\..\pipe\csi-proxy-disk-v1`,
		` \\.\pipe\csi-proxy-disk-v1`, "\t\\\\.\\pipe\\csi-proxy-disk-v1", `\\.\pıpe\csi-proxy-disk-v1`, `\\.\ｐｉｐｅ\csi-proxy-disk-v1`, `\\.\pipe\csi-proxy-disk-v1\`,
		`\\.\pipe\\csi-proxy-disk-v1`, `\\.\pipe\.\csi-proxy-disk-v1`, `\\.\pipe\x\..\csi-proxy-disk-v1`, `\\.\x\..\pipe\csi-proxy-disk-v1`, `\\.\.\pipe\csi-proxy-disk-v1`, `\\.\pipe\.`, `\\.\pipe\..`, `\\.\pipe\. `,
		`\\.\pipe`, `\\.\pipe\`, `\\.\`, `\\.`, `\\?\`, `\\?`, `\??\`, `\??`, `\\`, `\\\`, `\\localhost`, `\\localhost\`, `\\localhost\\`, `\\?\UNC`, `\\?\UNC\localhost`, `\\?\UNC\localhost\`,
		`\\.\GLOBALROOT`, `\\.\GLOBALROOT\Device`, `\\.\Global`, `\\.\Mup`, `\\\localhost\pipe\csi-proxy-disk-v1`, `\\?\\pipe\csi-proxy-disk-v1`,
		`\\.\UNC\a\..\localhost\pipe\csi-proxy-disk-v1`, `\\localhost\..\pipe\csi-proxy-disk-v1`, `\\localhost\.\pipe\csi-proxy-disk-v1`, `\\localhost\ . \pipe\csi-proxy-disk-v1`,
	}
	for _, prefix := range []string{`\\?\`, `\??\`, `\\.\\`, `\\localhost\`, `\\?\UNC\localhost\`, `\\.\unc\[::1]\`, `\??\UNC\127.0.0.1\`} {
		for _, root := range []string{`pipe`, `PIPE`, `IPC$`} {
			all = append(all, prefix+root, prefix+root+`\csi-proxy-disk-v1`)
		}
	}
	for _, path := range slices.Clone(all) {
		if slices.Contains(strings.FieldsFunc(path, isSeparator), "..") {
			continue // the API server itself refuses ".." between slashes
		}
		all = append(all, strings.ReplaceAll(path, `\`, `/`))
	}
	return all
}

// A split is a path in two parts, which the kubelet joins.
type split struct{ hostPath, subPath string }

// splits are the paths of pipes with one part of them in the subPath. Left out is what the
// kubelet refuses: a subPath that is absolute or has "..".
func splits() []split {
	var all []split
	for _, path := range slices.Concat(ownSpellings(), otherSpellings(), []string{`\\.\pipe\csi-proxy-admin`, `\\localhost\pipe\csi-proxy-admin`}) {
		for i := 2; i < len(path)-1; i++ {
			if path[i] != '\\' && path[i] != '/' {
				continue
			}
			s := split{path[:i+1], path[i+1:]}
			if len(strings.TrimSpace(path[:i])) < 2 || strings.ContainsAny(s.subPath[:1], `\/`) || slices.Contains(strings.FieldsFunc(s.subPath, isSeparator), "..") {
				continue
			}
			all = append(all, s, split{path[:i], s.subPath})
		}
	}
	return all
}

func isSeparator(r rune) bool { return r == '\\' || r == '/' }

// otherNames are names of pipes that begin as those of the API, and are not.
func otherNames() []string {
	return []string{
		`csi-proxy-admin`, `CSI-PROXY-ADMIN`, `csi-proxy-node-v1`, `csi-proxy-disk`, `csi-proxy-disk-v1.`, `csi-proxy-disk-v1 `, `csi-proxy`, `csi-proxy-disk-vx`, `csi-proxy-disk-v1:x`, ` csi-proxy-disk-v1`,
	}
}

// otherPaths lead to no pipe of CSI Proxy. They are what Windows and Linux pods mount in
// the charts of drivers, agents and runtimes, and directories that only have the words of
// a pipe's path in their names.
func otherPaths() []string {
	return []string{
		`C:\var\lib\kubelet`, `C:\var\lib\kubelet\plugins_registry\`, `C:\var\lib\kubelet\plugins\disk.csi.azure.com\`, `\var\lib\kubelet`, `c:/k`, `C:\k\azure.json`,
		`C:\var\log\pods`, `C:\ProgramData\docker\containers`, `C:\ProgramData\containerd\root`, `C:\ProgramData\Kubernetes`, `C:\Program Files\containerd`, `C:\etc\kubernetes`,
		`C:\opt\cni\bin`, `C:\CalicoWindows`, `C:\Windows\System32\drivers\etc`, `C:\`, `D:\`, `C:`, `D:\data`, `%SystemDrive%\data`, `C:\AzureData`, `C:\hpc`, `C:\etc\fluent-bit`,
		`\\.\pipe\containerd-containerd`, `//./pipe/docker_engine`, `\\.\pipe\rancher_wins`, `\\.\pipe\dockerDesktopLinuxEngine`, `\\.\pipe\csi-secrets-store`,
		`/var/lib/kubelet`, `/var/lib/kubelet/pods`, `/var/lib/kubelet/plugins_registry`, `/var/run/docker.sock`, `/run/containerd/containerd.sock`, `/var/log`, `/var/log/pods`,
		`/var/lib/docker/containers`, `/dev`, `/dev/fuse`, `/sys`, `/sys/fs/bpf`, `/sys/fs/cgroup`, `/proc`, `/`, `/etc/kubernetes/pki`, `/etc/cni/net.d`, `/opt/cni/bin`, `/lib/modules`,
		`/etc/machine-id`, `/run/xtables.lock`, `/mnt/disks`, `/etc/ssl/certs`, `/usr/share/zoneinfo`, `/boot`, `//var/run/docker.sock`, `/tmp`, `/var/run/netns`,
		`C:\pipe\csi-proxy-disk-v1`, `c:/csi-proxy-disk-v1`, `/pipe/csi-proxy-disk-v1`, `pipe\csi-proxy-disk-v1`, `C:\var\log\pipelines..old\x`, `/data/a..b`, `C:\größe`,
		`\\server\share\pipeline`, `\\server\share\pipe\csi-proxy-disk-v1`, `\\server\share\ipc$`, `\\server\pipes\csi-proxy-disk-v1`, `\\server\größe`, `\\10.0.0.5\k8s$\data`,
		`\\server.example.com\share`, `//server/share/`, `\\server@SSL@8443\DavWWWRoot\data`, `\\?\UNC\server\share\pipeline\pipe`, `\\fe80--1.ipv6-literal.net\share`,
		`\\?\C:\data`, `\\?\C:\data\pipeline`, `\\?\c:\pipe\csi-proxy-disk-v1`, `\\.\D:\`, `\??\C:\data`, `\\?\C:\globalroot\x..y\größe`, `//?/C:/ipc$`, `\\.\PhysicalDrive1`,
		`\\?\Volume{01234567-89ab-cdef-0123-456789abcdef}\`, `\\?\Volume{01234567-89ab-cdef-0123-456789abcdef}\pipe`, `\\.\HarddiskVolume3\pipe`,
	}
}

// linuxPaths lead to nothing of Windows in a pod for Linux. In another pod they are servers without
// a share, of which a subPath makes a path.
func linuxPaths() []string {
	return []string{`//sys`, `//dev`, `//proc/`, `//`, `//run//`}
}

// systems are what pods say about the system of their node, and whether it can have pipes.
func systems() map[string]func(*corev1.PodSpec) {
	selected := func(system string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{"kubernetes.io/os": system, "zone": "linux"}
		}
	}
	return map[string]func(*corev1.PodSpec){
		"linux":                  func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Linux} },
		"linux, selected":        selected("linux"),
		"windows":                func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} },
		"windows, selected":      selected("windows"),
		"Linux, selected":        selected("Linux"),
		"selected by other ways": func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux"} },
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
	for _, s := range splits() {
		for i, mount := range []corev1.VolumeMount{{SubPath: s.subPath}, {SubPathExpr: "$(X)"}} {
			p := pod("kube-system", "disk-driver", `C:\x`, s.hostPath)
			mount.Name, mount.MountPath = "v1", `C:\mnt`
			if mounting := (corev1.Container{Name: "d", Image: "example.com/d", VolumeMounts: []corev1.VolumeMount{{Name: "v0", MountPath: `C:\x`}, mount}}); i == 0 {
				p.Spec.Containers = append(p.Spec.Containers, mounting)
			} else {
				p.Spec.InitContainers = append(p.Spec.InitContainers, mounting)
			}
			// Which rule refuses it depends on the part in the hostPath.
			add(p, "denied request: ")
		}
	}
	for _, path := range otherPaths() {
		p := pod("default", "", path)
		add(p, "")
		if !strings.HasPrefix(strings.ReplaceAll(path, "/", `\`), `\\`) && !strings.HasPrefix(path, `\??`) {
			p = pod("default", "", path)
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v0", MountPath: "/x", SubPath: "pipe/csi-proxy-disk-v1"}, {Name: "v0", MountPath: "/y", SubPathExpr: "$(POD)"}}
			add(p, "")
		}
	}
	for system, set := range systems() {
		for _, path := range slices.Concat(ownSpellings(), otherSpellings(), linuxPaths()) {
			p := pod("default", "", path)
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v0", MountPath: "/x", SubPath: "fs"}}
			set(&p.Spec)
			refused := "denied request: "
			if strings.HasPrefix(system, "linux") {
				refused = ""
			}
			add(p, refused)
		}
	}
	p := pod("default", "", `\\server\share`)
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v0", MountPath: `C:\x`, SubPath: "data"}}
	add(p, "container c mounts a subPath or subPathExpr of a hostPath that begins with")
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
	// The subPath of a pod is not seen here, so what a subPath can complete is refused too.
	for _, s := range splits() {
		if !slices.Contains(forbidden, s.hostPath) {
			forbidden = append(forbidden, s.hostPath)
			add(s.hostPath, driver, "may not create a PersistentVolume with the path")
		}
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
