package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"

	"example.com/csi-driver/driver"
)

const (
	// lifecyclesVariable is how many volumes TestLifecycles makes.
	lifecyclesVariable = "CSI_DRIVER_LIFECYCLES"
	fewLifecycles      = 96

	atOnce = 16
	// repeatLimit is how long a step is repeated. Kubernetes never stops.
	repeatLimit = 3 * time.Minute
)

// eventually repeats a call until it succeeds, as Kubernetes does.
func eventually(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, repeatLimit)
	defer cancel()
	pause := time.Millisecond
	for {
		err := call()
		// DataLoss is the tests' own code.
		if err == nil || status.Code(err) == codes.DataLoss {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
}

// Many volumes live at the same time, while calls of Windows fail and CSI Proxy is killed and started
// again. At the end nothing is left.
func TestLifecycles(t *testing.T) {
	total := fewLifecycles
	if text := os.Getenv(lifecyclesVariable); text != "" {
		var err error
		if total, err = strconv.Atoi(text); err != nil || total < 1 {
			t.Fatalf("%s=%q, want a number", lifecyclesVariable, text)
		}
	}
	all := []setup{
		{kind: driver.KindDisk, findBy: driver.SerialNumber}, {kind: driver.KindSMB}, {kind: driver.KindISCSI},
		{kind: driver.KindDisk, findBy: driver.Page83, inProcess: true}, {kind: driver.KindSMB, inProcess: true}, {kind: driver.KindISCSI, inProcess: true},
	}
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) { lifecycles(t, s, max(1, total/len(all))) })
	}
}

// lives makes n volumes of a kind, 16 at a time.
func (c *cluster) lives(ctx context.Context, n int, kind string) error {
	var mu sync.Mutex
	var errs []error
	var workers sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				if err := c.life(ctx, fmt.Sprintf("vol-%d", i), kind); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

func lifecycles(t *testing.T, s setup, n int) {
	e := start(t, s, klog.Logger{})
	var calls, failed, succeeded atomic.Int64
	restart := make(chan struct{}, atOnce)
	restartEvery := int64(max(50, n/4)) // calls that succeed
	c := newCluster(e, e.connect(), func(_ string, call func() error) error {
		return eventually(t.Context(), func() error {
			calls.Add(1)
			err := call()
			if err != nil {
				failed.Add(1)
			} else if succeeded.Add(1)%restartEvery == 0 {
				restart <- struct{}{}
			}
			return err
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	var trouble sync.WaitGroup
	restarts := 0
	trouble.Go(func() {
		for range restart {
			if e.proxy != nil {
				if err := e.proxy.Kill(); err != nil {
					t.Error(err)
				}
			}
			if err := e.restart(); err != nil {
				t.Error(err)
			}
			restarts++
		}
	})
	var faults int
	trouble.Go(func() { faults = e.failOften(ctx) })

	if err := c.lives(t.Context(), n, s.kind); err != nil {
		t.Error(err)
	}
	close(restart)
	cancel()
	trouble.Wait()
	e.node.ClearFaults()

	// Fewer volumes can be done before the first of them.
	if n >= atOnce && (faults == 0 || failed.Load() == 0 || restarts == 0) {
		t.Errorf("%d faults, %d calls failed, %d restarts; want some of each", faults, failed.Load(), restarts)
	}
	left := e.left()
	if len(left) > 0 {
		t.Errorf("left on the node: %q", left)
	}
	t.Logf("%d volumes, %d calls of which %d failed, %d faults, %d restarts: %d things left", n, calls.Load(), failed.Load(), faults, restarts, len(left))
}

// failures are the errors with which calls of Windows fail.
var failures = []string{"ERROR_GEN_FAILURE", "ERROR_ACCESS_DENIED", "ERROR_NOT_READY"}

// failOften makes a random call of Windows fail, until ctx ends.
func (e *env) failOften(ctx context.Context) (times int) {
	for {
		select {
		case <-ctx.Done():
			return times
		case <-time.After(10 * time.Millisecond):
		}
		f, err := e.node.Fail(simnode.Fault{Call: winapi.AnyCall, Skip: rand.Uint32N(50), Times: 1, Error: failures[rand.IntN(len(failures))]})
		if err != nil {
			e.t.Error(err)
			return times
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
		times += int(f.Hits())
		f.Clear()
	}
}
