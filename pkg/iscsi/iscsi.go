package iscsi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
)

// ISCSI is the Interface over a HostAPI.
//
// A context that ends stops a method between two calls of Windows, and its
// caller at once. A call of Windows itself cannot be stopped, and a logout may
// take a minute: it goes on, and holds the lock of its portal or target until it
// returns, so that whoever asks again waits for it and finds done what it did.
type ISCSI struct {
	host iscsiapi.HostAPI
	node *node.Node
}

var _ Service = (*ISCSI)(nil)

// New makes the service. Its locks are those of the node that hostAPI works on;
// a hostAPI of another make gets locks of its own.
func New(hostAPI iscsiapi.HostAPI) (*ISCSI, error) {
	if hostAPI == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "iSCSI service: the HostAPI is nil")
	}
	i := &ISCSI{host: hostAPI}
	if h, ok := hostAPI.(interface{ Node() *node.Node }); ok {
		i.node = h.Node()
	}
	if i.node == nil {
		i.node = node.New(nil)
	}
	return i, nil
}

// on is the host that heeds ctx, if it can.
func (i *ISCSI) on(ctx context.Context) iscsiapi.HostAPI {
	if h, ok := i.host.(interface {
		WithContext(context.Context) iscsiapi.HostAPI
	}); ok {
		return h.WithContext(ctx)
	}
	return i.host
}

func noRequest(method string) error {
	return hosterr.Text(hosterr.ErrInvalid, "%s: the request is nil", method)
}

// wrapped is err as an error of op. Our HostAPI says so itself.
func wrapped(op, target string, err error) error {
	var e *hosterr.Error
	if errors.As(err, &e) && e.Op == op {
		return err
	}
	return hosterr.Wrap(op, target, err)
}

// portal is the checked portal of a request.
func portal(in *TargetPortal) (*iscsiapi.TargetPortal, error) {
	if in == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "the request has no target portal")
	}
	p, err := (&iscsiapi.TargetPortal{Address: in.TargetAddress, Port: in.TargetPort}).Check()
	return &p, err
}

// locked does work under the lock of what it is about.
func locked[T any](ctx context.Context, i *ISCSI, locks *keymutex.Set, key string, work func(iscsiapi.HostAPI) (T, error)) (T, error) {
	return node.Await(ctx, func() (T, error) {
		unlock, err := locks.Lock(ctx, strings.ToLower(key))
		if err != nil {
			var none T
			return none, err
		}
		defer unlock()
		return work(i.on(ctx))
	})
}

// atPortal does op to a portal, under its lock.
func atPortal[T any](ctx context.Context, i *ISCSI, op string, in *TargetPortal, work func(iscsiapi.HostAPI, *iscsiapi.TargetPortal) (T, error)) (T, error) {
	p, err := portal(in)
	if err != nil {
		var none T
		return none, hosterr.Wrap(op, "", err)
	}
	v, err := locked(ctx, i, &i.node.Locks.Portals, p.String(), func(host iscsiapi.HostAPI) (T, error) { return work(host, p) })
	return v, wrapped(op, p.String(), err)
}

// atTarget does op to a target, under its lock.
func atTarget[T any](ctx context.Context, i *ISCSI, op string, in *TargetPortal, iqn string, work func(iscsiapi.HostAPI, *iscsiapi.TargetPortal) (T, error)) (T, error) {
	var none T
	p, err := portal(in)
	if err != nil {
		return none, hosterr.Wrap(op, "", err)
	}
	if err := iscsiapi.CheckIQN(iqn); err != nil {
		return none, hosterr.Wrap(op, "", err)
	}
	v, err := locked(ctx, i, &i.node.Locks.Targets, iqn, func(host iscsiapi.HostAPI) (T, error) { return work(host, p) })
	return v, wrapped(op, fmt.Sprintf("%s through %s", hosterr.Quote(iqn), p), err)
}

type nothing = struct{}

// AddTargetPortal implements [Interface].
func (i *ISCSI) AddTargetPortal(ctx context.Context, in *AddTargetPortalRequest) (*AddTargetPortalResponse, error) {
	if in == nil {
		return nil, noRequest("AddTargetPortal")
	}
	_, err := atPortal(ctx, i, "add target portal", in.TargetPortal, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.AddTargetPortal(p)
	})
	if err != nil {
		return nil, err
	}
	return &AddTargetPortalResponse{}, nil
}

// DiscoverTargetPortal implements [Interface].
func (i *ISCSI) DiscoverTargetPortal(ctx context.Context, in *DiscoverTargetPortalRequest) (*DiscoverTargetPortalResponse, error) {
	if in == nil {
		return nil, noRequest("DiscoverTargetPortal")
	}
	iqns, err := atPortal(ctx, i, "discover target portal", in.TargetPortal, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) ([]string, error) {
		return host.DiscoverTargetPortal(p)
	})
	if err != nil {
		return nil, err
	}
	return &DiscoverTargetPortalResponse{IQNs: iqns}, nil
}

// ListTargetPortals implements [Interface].
func (i *ISCSI) ListTargetPortals(ctx context.Context, in *ListTargetPortalsRequest) (*ListTargetPortalsResponse, error) {
	if in == nil {
		return nil, noRequest("ListTargetPortals")
	}
	list, err := node.Await(ctx, i.on(ctx).ListTargetPortals)
	if err != nil {
		return nil, wrapped("list target portals", "", err)
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
		return nil, noRequest("RemoveTargetPortal")
	}
	_, err := atPortal(ctx, i, "remove target portal", in.TargetPortal, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.RemoveTargetPortal(p)
	})
	if err != nil {
		return nil, err
	}
	return &RemoveTargetPortalResponse{}, nil
}

// ConnectTarget implements [Interface].
func (i *ISCSI) ConnectTarget(ctx context.Context, in *ConnectTargetRequest) (*ConnectTargetResponse, error) {
	if in == nil {
		return nil, noRequest("ConnectTarget")
	}
	const op = "connect target"
	authType, err := AuthTypeToString(in.AuthType)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "%w", err) // published without a prefix
	}
	user, secret := in.ChapUsername, in.ChapSecret
	if in.AuthType == NONE {
		user, secret = "", ""
	} else if err := iscsiapi.CheckSecret("CHAP secret", secret); err != nil {
		return nil, hosterr.Wrap(op, "", err)
	}
	_, err = atTarget(ctx, i, op, in.TargetPortal, in.IQN, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.ConnectTarget(p, in.IQN, authType, user, secret)
	})
	if err != nil {
		return nil, err
	}
	return &ConnectTargetResponse{}, nil
}

// DisconnectTarget implements [Interface].
func (i *ISCSI) DisconnectTarget(ctx context.Context, in *DisconnectTargetRequest) (*DisconnectTargetResponse, error) {
	if in == nil {
		return nil, noRequest("DisconnectTarget")
	}
	_, err := atTarget(ctx, i, "disconnect target", in.TargetPortal, in.IQN, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) (nothing, error) {
		return nothing{}, host.DisconnectTarget(p, in.IQN)
	})
	if err != nil {
		return nil, err
	}
	return &DisconnectTargetResponse{}, nil
}

// GetTargetDisks implements [Interface].
func (i *ISCSI) GetTargetDisks(ctx context.Context, in *GetTargetDisksRequest) (*GetTargetDisksResponse, error) {
	if in == nil {
		return nil, noRequest("GetTargetDisks")
	}
	disks, err := atTarget(ctx, i, "get disks of target", in.TargetPortal, in.IQN, func(host iscsiapi.HostAPI, p *iscsiapi.TargetPortal) ([]string, error) {
		return host.GetTargetDisks(p, in.IQN)
	})
	if err != nil {
		return nil, err
	}
	return &GetTargetDisksResponse{DiskIDs: disks}, nil
}

// SetMutualChapSecret implements [Interface].
func (i *ISCSI) SetMutualChapSecret(ctx context.Context, in *SetMutualChapSecretRequest) (*SetMutualChapSecretResponse, error) {
	if in == nil {
		return nil, noRequest("SetMutualChapSecret")
	}
	const op = "set mutual CHAP secret"
	if err := iscsiapi.CheckSecret("mutual CHAP secret", in.MutualChapSecret); err != nil {
		return nil, hosterr.Wrap(op, "", err)
	}
	_, err := node.Await(ctx, func() (nothing, error) { return nothing{}, i.on(ctx).SetMutualChapSecret(in.MutualChapSecret) })
	if err != nil {
		return nil, wrapped(op, "", err)
	}
	return &SetMutualChapSecretResponse{}, nil
}
