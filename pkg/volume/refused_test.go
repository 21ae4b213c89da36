package volume_test

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// A format that Windows refused at once gives no right to overwrite what another program then
// writes there.
func TestRefusedFormatKeepsWhatOthersWrite(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(2*gib, ""))
	id := f.id(1)
	at := int64(f.layout(1).Partitions[1].Offset)
	formats := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name != "Format" {
			return c.Do()
		}
		if formats++; formats > 1 {
			return c.Do()
		}
		f.write(1, at, "what another program wrote")
		return win32.ERROR_ACCESS_DENIED
	})
	if err := f.format(id); !errors.Is(err, hosterr.ErrFailedPrecondition) || formats != 1 {
		t.Errorf("%d formats, %v; want one, and a refusal that names the content", formats, err)
	}
}
