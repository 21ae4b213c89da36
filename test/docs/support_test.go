package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The versions on the page about support are those of the files that use them.
func TestSupportPage(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("docs/run/support.md")
	for _, v := range []struct{ file, pattern, on string }{
		{"test/cluster/go.mod", `k8s\.io/kubernetes (v\S+)`, "kube-apiserver "},
		{"test/cluster/go.mod", `go\.etcd\.io/etcd/server/v3 (v\S+)`, "etcd "},
		{"test/cluster/sidecars/go.mod", `external-provisioner/v6 (v\S+)`, "csi-provisioner "},
		{"test/cluster/sidecars/go.mod", `external-attacher/v4 (v\S+)`, "csi-attacher "},
		{"test/cluster/sidecars/go.mod", `external-resizer/v2 (v\S+)`, "csi-resizer "},
		{"test/cluster/go.mod", `helm\.sh/helm/v4 (v\S+)`, "its library "},
		{"deploy/manifests/driver-pipes.yaml", `csi-node-driver-registrar:(v\S+)`, "node-driver-registrar | "},
		{"deploy/manifests/driver-pipes.yaml", `livenessprobe:(v\S+)`, "livenessprobe | "},
		{"deploy/chart/Chart.yaml", `kubeVersion: ">=([0-9]+\.[0-9]+)\.0-0"`, "chart and policies | "},
		{"go.mod", `(?m)^go ([0-9]+\.[0-9]+)`, "Go, to build a driver | "},
		{"cmd/go.mod", `(?m)^go ([0-9]+\.[0-9]+)`, "Go, to build the programs | "},
	} {
		m := regexp.MustCompile(v.pattern).FindStringSubmatch(read(v.file))
		if m == nil {
			t.Errorf("%s has no %s", v.file, v.pattern)
		} else if want := v.on + m[1]; !strings.Contains(page, want+" ") && !strings.Contains(page, want+",") {
			t.Errorf("docs/run/support.md lacks %q, which is in %s", want, v.file)
		}
	}
}
