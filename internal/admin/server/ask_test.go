package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func TestDeviceThatHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all questions
		var asked atomic.Int32
		hang := make(chan struct{})
		for range 3 {
			_, err := ask(t.Context(), &all, "disk 1", func(context.Context) (int, error) { asked.Add(1); <-hang; return 7, nil })
			if !errors.Is(err, hosterr.ErrUnavailable) {
				t.Fatalf("a device that hangs: %v, want %v", err, hosterr.ErrUnavailable)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the device was asked %d times at once, want once", n)
		}
		if v, err := ask(t.Context(), &all, "disk 2", func(context.Context) (string, error) { return "here", nil }); v != "here" || err != nil {
			t.Errorf("another device: %q, %v", v, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ask(ctx, &all, "disk 3", func(context.Context) (int, error) { <-hang; return 0, nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gives up: %v", err)
		}
		close(hang)
		synctest.Wait()
		if v, err := ask(t.Context(), &all, "disk 1", func(context.Context) (int, error) { return 8, nil }); v != 8 || err != nil {
			t.Errorf("after it answered: %d, %v, want a new answer", v, err)
		}
		if _, err := ask(t.Context(), &all, "disk 1", func(context.Context) (int, error) { panic("a driver") }); err == nil {
			t.Error("a panic is no error")
		}
		if len(all.pending) != 0 {
			t.Errorf("%d questions are left", len(all.pending))
		}
	})
}

// As many devices that hang as are asked at once take the time of one look, and of no other.
func TestDevicesThatHangLeaveTimeForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all questions
		hang := make(chan struct{})
		look := func() (answers int, took time.Duration) {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var n atomic.Int32
			admin.EachDevice(admin.MaxAsked+4, func(i int) {
				if _, err := ask(ctx, &all, strconv.Itoa(i), func(context.Context) (int, error) {
					if i < admin.MaxAsked {
						<-hang
					}
					return 0, nil
				}); err == nil {
					n.Add(1)
				}
			})
			return int(n.Load()), time.Since(begin)
		}
		look()
		time.Sleep(12 * time.Second)
		if n, took := look(); n != 4 || took != 0 {
			t.Errorf("behind %d devices that hang, %d of 4 answered after %s, want all at once", admin.MaxAsked, n, took)
		}
		close(hang)
		synctest.Wait()
		if n, _ := look(); n != admin.MaxAsked+4 {
			t.Errorf("%d of %d answered when none hung any more", n, admin.MaxAsked+4)
		}
	})
}

// Behind devices that hang, the others are not all asked at once when time is over.
func TestNothingIsAskedWhenTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all questions
		var asked atomic.Int32
		hang := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		admin.EachDevice(100, func(i int) {
			_, err := ask(ctx, &all, strconv.Itoa(i), func(context.Context) (int, error) { asked.Add(1); <-hang; return 0, nil })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("device %d: %v", i, err)
			}
		})
		close(hang)
		synctest.Wait()
		if n := asked.Load(); n != admin.MaxAsked {
			t.Errorf("%d devices that hang hold a thread, want %d", n, admin.MaxAsked)
		}
	})
}

// An operation that retries until its time is over fails as a device that does not answer does,
// with its own error.
func TestAskReturnsWhatAnOperationRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all questions
		_, err := ask(t.Context(), &all, "disk 1", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, fmt.Errorf("%w while retrying after: the device is away", ctx.Err())
		})
		if !errors.Is(err, hosterr.ErrUnavailable) || !strings.Contains(err.Error(), "the device is away") {
			t.Errorf("%v, want its error, and %v", err, hosterr.ErrUnavailable)
		}
	})
}
