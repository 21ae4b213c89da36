package winfs_test

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// A short name leads nowhere that its long name may not.
func TestShortNames(t *testing.T) {
	w := newWorld(t)
	const volumes = pods + `\8d9f\volumes\kubernetes.io~csi`
	must(t, "prepare", winfs.MkdirAll(t.Context(), w.Node, volumes+`\a`))
	w.dir(kubelet + `\pki`)
	w.file(kubelet + `\pki\key.pem`)
	must(t, "short name", w.em.SetShortName(kubelet+`\pki`, "KUBELE~1"))
	must(t, "short name", w.em.SetShortName(volumes, "KUBERN~1.IO~"))
	if exists, err := winfs.Exists(t.Context(), w.Node, pods+`\8d9f\volumes\kubern~1.io~\a`); !exists || err != nil {
		t.Errorf("Exists by a short name = %t, %v", exists, err)
	}
	before := w.tree(kubelet + `\pki`)
	for _, op := range operations() {
		for _, name := range []string{`KUBELE~1`, `kubele~1\key.pem`, `kubele~1\missing`} {
			if op.name == "Symlink at" && name == `KUBELE~1` {
				continue // which says that something exists there
			}
			if err := op.do(w, kubelet+`\`+name); !errors.Is(err, hosterr.ErrPermissionDenied) {
				t.Errorf("%s(%q) = %v, want ErrPermissionDenied", op.name, name, err)
			}
		}
	}
	w.wantTree(kubelet+`\pki`, before...)
}
