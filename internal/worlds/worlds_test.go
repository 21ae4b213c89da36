package worlds

import (
	"reflect"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Every value of an option meets every value of every other option.
func TestPairwise(t *testing.T) {
	all := Pairwise()
	missing := pairs(nodespec.Options())
	total, product := len(missing), 1
	for _, o := range nodespec.Options() {
		product *= len(o.Values)
	}
	for _, w := range all {
		cover(missing, nodespec.Options(), w.Windows)
	}
	for p := range missing {
		t.Errorf("no world has %+v", p)
	}
	if len(all) >= product/2 {
		t.Errorf("%d worlds of %d, want far fewer", len(all), product)
	}
	if !reflect.DeepEqual(all, Pairwise()) {
		t.Error("Pairwise returned other worlds the second time")
	}
	t.Logf("%d worlds for %d pairs; all combinations: %d", len(all), total, product)
}
