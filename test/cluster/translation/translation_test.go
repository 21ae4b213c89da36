package translation

import (
	"strings"
	"testing"
)

func TestWindows(t *testing.T) {
	for _, c := range []struct{ name, file, want, refused string }{
		{"the directory itself", "/n/kubelet", Dir, ""},
		{"a volume", "/n/kubelet/pods/1/volumes/kubernetes.io~csi/pv/mount", Dir + `\pods\1\volumes\kubernetes.io~csi\pv\mount`, ""},
		{"a trailing slash", "/n/kubelet/plugins/", Dir + `\plugins`, ""},
		{"another directory", "/n/other/pods", "", "not in the kubelet's directory"},
		{"a directory whose name begins like it", "/n/kubelet-2/pods", "", "not in the kubelet's directory"},
		{"a way out", "/n/kubelet/../other", "", "not in the kubelet's directory"},
		{"a name that Windows refuses", "/n/kubelet/a:b", "", "no Windows path has"},
	} {
		got, err := windows("/n/kubelet", c.file)
		if got != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: windows(%q) = %q, %v, want %q, %q", c.name, c.file, got, err, c.want, c.refused)
		}
	}
}
