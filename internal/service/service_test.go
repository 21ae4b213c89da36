package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

type hostAPI interface{ Ask() error }

// plain is a HostAPI that another project wrote.
type plain struct{}

func (plain) Ask() error { return nil }

// ours is a HostAPI with a node, whose methods end with their context.
type ours struct {
	node *node.Node
	ctx  context.Context
}

func (o ours) Node() *node.Node                        { return o.node }
func (o ours) WithContext(ctx context.Context) hostAPI { o.ctx = ctx; return o }
func (o ours) Ask() error                              { return o.ctx.Err() }

func newBase(t *testing.T, h hostAPI) service.Base[hostAPI] {
	t.Helper()
	b, err := service.New("test", h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNewNeedsHostAPI(t *testing.T) {
	_, err := service.New[hostAPI]("test", nil)
	if !errors.Is(err, hosterr.ErrInvalid) || err.Error() != "test service: the HostAPI is nil" {
		t.Errorf("New(nil) = %v, want an invalid argument", err)
	}
}

func TestServicesOfOneNodeShareIt(t *testing.T) {
	n := node.New(nil)
	if got := newBase(t, ours{node: n}).Node; got != n {
		t.Error("the base has another node than its HostAPI")
	}
	if a, b := newBase(t, plain{}).Node, newBase(t, plain{}).Node; a == nil || a == b {
		t.Error("two HostAPIs without a node do not have one each")
	}
	if newBase(t, ours{}).Node == nil {
		t.Error("a HostAPI whose node is nil leaves the base without one")
	}
}

func TestGetBindsHostAPIToContext(t *testing.T) {
	base := newBase(t, ours{node: node.New(nil), ctx: context.Background()})
	ctx, cancel := context.WithCancel(t.Context())
	unlock := func(context.Context) (func(), error) { cancel(); return func() {}, nil }
	err := service.Do(context.WithoutCancel(ctx), base, nil, hostAPI.Ask)
	if err != nil {
		t.Errorf("Do = %v, want success", err)
	}
	if err := service.Do(ctx, base, []service.Lock{unlock}, hostAPI.Ask); !errors.Is(err, context.Canceled) {
		t.Errorf("Do with a context that ends = %v, want Canceled", err)
	}
	if err := service.Do(t.Context(), newBase(t, plain{}), nil, hostAPI.Ask); err != nil {
		t.Errorf("Do on a HostAPI without WithContext = %v, want success", err)
	}
}

func TestLocksAreTakenInOrderAndReleased(t *testing.T) {
	var events []string
	lock := func(name string, err error) service.Lock {
		return func(context.Context) (func(), error) {
			if err != nil {
				return nil, err
			}
			events = append(events, "+"+name)
			return func() { events = append(events, "-"+name) }, nil
		}
	}
	base := newBase(t, plain{})
	work := func(hostAPI) (int, error) { events = append(events, "work"); return 7, nil }

	n, err := service.Get(t.Context(), base, []service.Lock{lock("a", nil), lock("b", nil)}, work)
	if want := []string{"+a", "+b", "work", "-b", "-a"}; n != 7 || err != nil || !slices.Equal(events, want) {
		t.Errorf("Get = %d, %v with %q, want 7 with %q", n, err, events, want)
	}

	events = nil
	busy := errors.New("busy")
	n, err = service.Get(t.Context(), base, []service.Lock{lock("a", nil), lock("b", busy)}, work)
	if want := []string{"+a", "-a"}; n != 0 || err != busy || !slices.Equal(events, want) {
		t.Errorf("Get = %d, %v with %q, want 0, busy with %q", n, err, events, want)
	}
}

func TestResponseIsNilWithError(t *testing.T) {
	out := &struct{}{}
	if got, err := service.Response(out, nil); got != out || err != nil {
		t.Errorf("Response = %p, %v, want %p", got, err, out)
	}
	if got, err := service.Response(out, hosterr.ErrInvalid); got != nil || err != hosterr.ErrInvalid {
		t.Errorf("Response = %p, %v, want nil and the error", got, err)
	}
}
