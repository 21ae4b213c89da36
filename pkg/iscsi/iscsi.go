package iscsi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
)

// ISCSI implements [Service] with a HostAPI.
//
// When the context of a call ends, the method returns immediately and its work stops
// before the next Windows call. A Windows call itself cannot be stopped, and a logout can
// take a minute: it continues and holds the lock of its portal or target until it returns,
// so that a retry waits for it and finds its work done.
type ISCSI struct {
	base service.Base[iscsiapi.HostAPI]
}

var _ Service = (*ISCSI)(nil)

// New returns a service that uses hostAPI. With the HostAPI of this project it uses the
// locks of the node; any other HostAPI gets locks of its own.
func New(hostAPI iscsiapi.HostAPI) (*ISCSI, error) {
	base, err := service.New("iSCSI", hostAPI)
	return service.Response(&ISCSI{base}, err)
}

// portal checks and returns the portal of a request.
func portal(in *TargetPortal) (*iscsiapi.TargetPortal, error) {
	if in == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "the request has no target portal")
	}
	p, err := (&iscsiapi.TargetPortal{Address: in.TargetAddress, Port: in.TargetPort}).Check()
	return &p, err
}

// exclusive locks a portal or a target, ignoring the case of its name.
func exclusive(set *keymutex.Set, key string) []service.Lock {
	return []service.Lock{service.Exclusive(set, strings.ToLower(key))}
}

// atPortal runs an operation on a portal under the portal's lock.
func atPortal[T any](ctx context.Context, i *ISCSI, op string, in *TargetPortal, work func(iscsiapi.HostAPI, *iscsiapi.TargetPortal) (T, error)) (T, error) {
	p, err := portal(in)
	if err != nil {
		var none T
		return none, hosterr.Wrap(op, "", err)
	}
	v, err := service.Get(ctx, i.base, exclusive(&i.base.Node.Locks.Portals, p.String()), func(host iscsiapi.HostAPI) (T, error) { return work(host, p) })
	return v, hosterr.Wrap(op, p.String(), err)
}

// atTarget runs an operation on a target under the target's lock, and further locks.
func atTarget[T any](ctx context.Context, i *ISCSI, op string, in *TargetPortal, iqn string, work func(iscsiapi.HostAPI, *iscsiapi.TargetPortal) (T, error), further ...service.Lock) (T, error) {
	var none T
	p, err := portal(in)
	if err != nil {
		return none, hosterr.Wrap(op, "", err)
	}
	if err := iscsiapi.CheckIQN(iqn); err != nil {
		return none, hosterr.Wrap(op, "", err)
	}
	locks := append(exclusive(&i.base.Node.Locks.Targets, iqn), further...)
	v, err := service.Get(ctx, i.base, locks, func(host iscsiapi.HostAPI) (T, error) { return work(host, p) })
	return v, hosterr.Wrap(op, fmt.Sprintf("%s through %s", hosterr.Quote(iqn), p), err)
}

// busyLimit is how long DisconnectTarget waits for calls that use the disks of the target. One
// that hangs, because the storage does not respond, may never end.
const busyLimit = 10 * time.Second

// disksOf locks the disks of a target, so that no volume on them is mounted, formatted or
// grown while it is disconnected. A target whose disks cannot be listed has none to lock.
func (i *ISCSI) disksOf(in *TargetPortal, iqn string) service.Lock {
	return func(ctx context.Context) (func(), error) {
		p, err := portal(in)
		if err != nil {
			return nil, err
		}
		var locked []func()
		unlock := func() {
			for _, f := range slices.Backward(locked) {
				f()
			}
		}
		disks, err := i.base.On(ctx).GetTargetDisks(p, iqn)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return unlock, nil
		}
		slices.Sort(disks) // so that two such requests do not wait for each other
		limited, cancel := context.WithTimeout(ctx, busyLimit)
		defer cancel()
		for _, number := range slices.Compact(disks) {
			f, err := i.base.Node.Locks.Disks.Lock(limited, number)
			if err != nil {
				unlock()
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return nil, hosterr.WithHint("wait for the calls that use disk", number,
					hosterr.Text(hosterr.ErrFailedPrecondition, "a call uses disk %s of the target, and has not ended for %v", number, busyLimit),
					"csi-proxyctl calls shows it; disconnect the target when it has ended")
			}
			locked = append(locked, f)
		}
		return unlock, nil
	}
}

type nothing = struct{}

// AddTargetPortal implements [Interface].
func (i *ISCSI) AddTargetPortal(ctx context.Context, in *AddTargetPortalRequest) (*AddTargetPortalResponse, error) {
	if in == nil {
		return nil, service.NoRequest("AddTargetPortal")
	}
	_, err := atPortal(ctx, i, "add target portal", in.TargetPortal, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.AddTargetPortal(p)
	})
	return service.Response(&AddTargetPortalResponse{}, err)
}

// DiscoverTargetPortal implements [Interface].
func (i *ISCSI) DiscoverTargetPortal(ctx context.Context, in *DiscoverTargetPortalRequest) (*DiscoverTargetPortalResponse, error) {
	if in == nil {
		return nil, service.NoRequest("DiscoverTargetPortal")
	}
	iqns, err := atPortal(ctx, i, "discover target portal", in.TargetPortal, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) ([]string, error) {
		return host.DiscoverTargetPortal(p)
	})
	return service.Response(&DiscoverTargetPortalResponse{IQNs: iqns}, err)
}

// ListTargetPortals implements [Interface].
func (i *ISCSI) ListTargetPortals(ctx context.Context, in *ListTargetPortalsRequest) (*ListTargetPortalsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ListTargetPortals")
	}
	list, err := service.Get(ctx, i.base, nil, iscsiapi.HostAPI.ListTargetPortals)
	if err != nil {
		return nil, hosterr.Wrap("list target portals", "", err)
	}
	out := &ListTargetPortalsResponse{}
	for _, p := range list {
		out.TargetPortals = append(out.TargetPortals, &TargetPortal{TargetAddress: p.Address, TargetPort: p.Port})
	}
	return out, nil
}

// RemoveTargetPortal implements [Interface].
func (i *ISCSI) RemoveTargetPortal(ctx context.Context, in *RemoveTargetPortalRequest) (*RemoveTargetPortalResponse, error) {
	if in == nil {
		return nil, service.NoRequest("RemoveTargetPortal")
	}
	_, err := atPortal(ctx, i, "remove target portal", in.TargetPortal, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.RemoveTargetPortal(p)
	})
	return service.Response(&RemoveTargetPortalResponse{}, err)
}

// ConnectTarget implements [Interface].
func (i *ISCSI) ConnectTarget(ctx context.Context, in *ConnectTargetRequest) (*ConnectTargetResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ConnectTarget")
	}
	authType, err := AuthTypeToString(in.AuthType)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "%w", err) // published without a prefix
	}
	user, secret := in.ChapUsername, in.ChapSecret
	_, err = atTarget(ctx, i, "connect target", in.TargetPortal, in.IQN, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.ConnectTarget(p, in.IQN, authType, user, secret)
	})
	return service.Response(&ConnectTargetResponse{}, err)
}

// DisconnectTarget implements [Interface]. It waits up to ten seconds for calls that use the
// disks of the target, and then fails.
func (i *ISCSI) DisconnectTarget(ctx context.Context, in *DisconnectTargetRequest) (*DisconnectTargetResponse, error) {
	if in == nil {
		return nil, service.NoRequest("DisconnectTarget")
	}
	_, err := atTarget(ctx, i, "disconnect target", in.TargetPortal, in.IQN, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.DisconnectTarget(p, in.IQN)
	}, i.disksOf(in.TargetPortal, in.IQN))
	return service.Response(&DisconnectTargetResponse{}, err)
}

// GetTargetDisks implements [Interface].
func (i *ISCSI) GetTargetDisks(ctx context.Context, in *GetTargetDisksRequest) (*GetTargetDisksResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetTargetDisks")
	}
	disks, err := atTarget(ctx, i, "get disks of target", in.TargetPortal, in.IQN, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) ([]string, error) {
		return host.GetTargetDisks(p, in.IQN)
	})
	return service.Response(&GetTargetDisksResponse{DiskIDs: disks}, err)
}

// SetMutualChapSecret implements [Interface].
func (i *ISCSI) SetMutualChapSecret(ctx context.Context, in *SetMutualChapSecretRequest) (*SetMutualChapSecretResponse, error) {
	if in == nil {
		return nil, service.NoRequest("SetMutualChapSecret")
	}
	secret := in.MutualChapSecret
	err := service.Do(ctx, i.base, nil, func(host iscsiapi.HostAPI) error { return host.SetMutualChapSecret(secret) })
	return service.Response(&SetMutualChapSecretResponse{}, hosterr.Wrap("set mutual CHAP secret", "", err))
}
