package joined

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/util/filesystem"
	"k8s.io/kubernetes/pkg/volume/validation"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/deploy"
)

// join is what the kubelet does in makeMounts (pkg/kubelet/kubelet_pods.go). ok is false if it
// refuses the subPath.
func join(hostPath, subPath string) (path string, ok bool) {
	if subPath == "" {
		return hostPath, true
	}
	if filesystem.IsAbs(subPath) || validation.ValidatePathNoBacksteps(subPath) != nil {
		return "", false
	}
	return filepath.Join(hostPath, subPath), true
}

// pipes are those that the table of package deploy is about.
var pipes = []string{`csi-proxy-disk-v1`, `csi-proxy-admin`}

// leads reports whether a path leads to one of the pipes.
func leads(t *testing.T, path string) bool {
	t.Helper()
	for _, name := range pipes {
		text, err := windows.UTF16PtrFromString(`\\.\pipe\` + name)
		if err != nil {
			t.Fatal(err)
		}
		h, err := windows.CreateNamedPipe(text, windows.PIPE_ACCESS_DUPLEX, windows.PIPE_REJECT_REMOTE_CLIENTS, windows.PIPE_UNLIMITED_INSTANCES, 0, 0, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer windows.CloseHandle(h)
	}
	text, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return false
	}
	h, err := windows.CreateFile(text, windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	kind, _ := windows.GetFileType(h)
	return kind == windows.FILE_TYPE_PIPE
}

// A pod that the policies admit mounts no pipe by a path in two parts, and by a whole one only that
// to which it has access.
func TestAdmittedPodsJoinNoPipe(t *testing.T) {
	joined, whole, parts := 0, 0, 0
	for _, c := range deploy.PodCases() {
		pod, ok := c.Object.(*corev1.Pod)
		if !ok || pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Linux || pod.Spec.NodeSelector[corev1.LabelOSStable] == "linux" {
			continue // the kubelet of a Windows node refuses it
		}
		hostPaths := map[string]string{}
		for _, v := range pod.Spec.Volumes {
			hostPaths[v.Name] = v.HostPath.Path
			if leads(t, v.HostPath.Path) {
				if whole++; c.Refused == "" && pod.Spec.ServiceAccountName != "disk-driver" {
					t.Errorf("%s is admitted, and its hostPath leads to a pipe", c.Path)
				}
			}
		}
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			for _, m := range container.VolumeMounts {
				path, ok := join(hostPaths[m.Name], m.SubPath)
				if !ok || m.SubPath == "" {
					continue
				}
				if joined++; leads(t, path) {
					if parts++; c.Refused == "" {
						t.Errorf("%s is admitted, and the kubelet joins %q and %q to %q, a pipe", c.Path, hostPaths[m.Name], m.SubPath, path)
					}
				}
			}
		}
	}
	t.Logf("%d paths in two parts were joined: %d lead to a pipe under this Windows, and so do %d whole ones", joined, parts, whole)
	if joined < 200 || parts == 0 || whole == 0 {
		t.Error("want at least 200 joined paths, and some that lead to a pipe")
	}
}
