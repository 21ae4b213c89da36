package admin_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func TestEachDeviceAsksAFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, done atomic.Int32
		admin.EachDevice(100, func(int) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			done.Add(1)
		})
		if done.Load() != 100 || most.Load() > admin.MaxAsked {
			t.Errorf("%d of 100 were asked, at most %d at once, want %d", done.Load(), most.Load(), admin.MaxAsked)
		}
	})
}
