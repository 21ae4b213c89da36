package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Field 3 asked for a dry run once. A caller that sends it must not destroy the disk.
func TestClearDiskRefusesUnknownFields(t *testing.T) {
	in := &admin.ClearDiskRequest{DiskNumber: 1, Serial: "S"}
	in.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 1))
	if _, err := (&Server{}).ClearDisk(t.Context(), in); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("ClearDisk = %v, want %v", err, hosterr.ErrInvalid)
	}
}

// Stop answers when no call runs; two of them do not wait for each other.
func TestStopAnswersWhenNoCallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, call := new(calls.Calls), new(inflight.Call)
		all.Start(call, time.Hour, nil)
		s := &Server{calls: all, stop: func(context.Context) error { return nil }}
		answers := make(chan error, 2)
		for range cap(answers) {
			go func() {
				_, err := s.Stop(t.Context(), nil)
				answers <- err
			}()
		}
		all.Close()
		synctest.Wait()
		if n := len(answers); n != 0 {
			t.Errorf("%d of 2 have their answer while a call runs", n)
		}
		all.End(call)
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}

		for pod, stops := range map[string]bool{"": true, "own": true, "other": false} {
			s := &Server{calls: all, stop: s.stop, pod: "own"}
			if _, err := s.Stop(t.Context(), &admin.StopRequest{Pod: pod}); stops != (err == nil) || !stops && !errors.Is(err, hosterr.ErrFailedPrecondition) {
				t.Errorf("a stop for pod %q: %v", pod, err)
			}
		}

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (&Server{calls: new(calls.Calls), stop: s.stop}).Stop(gone, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that gives up: %v", err)
		}
		refused := errors.New("refused")
		if _, err := (&Server{calls: all, stop: func(context.Context) error { return refused }}).Stop(t.Context(), nil); !errors.Is(err, refused) {
			t.Errorf("a stop that is refused: %v", err)
		}
	})
}

// Of several directories with many links, no more are described than an answer has room for.
func TestLinksAreLimited(t *testing.T) {
	var config nodespec.Config
	kubelets := []string{`C:\var\lib\kubelet`, `C:\kubelet`}
	for _, dir := range kubelets {
		for pod := range maxLinks/2 + 1 {
			config.Directories = append(config.Directories, fmt.Sprintf(`%s\pods\%d\volumes\kubernetes.io~csi\pvc`, dir, pod))
		}
	}
	n := nodetest.New(t, config, nil)
	n.WorkingDirs = kubelets
	if ways, err := new(Server).links(t.Context(), n.Node); err != nil || len(ways) != maxLinks {
		t.Errorf("%d links, %v, want %d", len(ways), err, maxLinks)
	}
}
