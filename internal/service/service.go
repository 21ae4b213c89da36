// Package service is what the services of all groups do alike: take a HostAPI and
// the node below it, bind the HostAPI to the context of a request, and run work on it
// under locks.
//
// A method of a service reads like this:
//
//	if in == nil {
//		return nil, service.NoRequest("GetDiskState")
//	}
//	n := in.DiskNumber // a copy: the work may outlive the request
//	online, err := service.Get(ctx, d.base, locks, func(host diskapi.HostAPI) (bool, error) {
//		return host.GetDiskState(n)
//	})
//	return service.Response(&GetDiskStateResponse{IsOnline: online}, err)
package service

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Base is a HostAPI and the node that it works on.
type Base[HostAPI any] struct {
	host HostAPI
	Node *node.Node
}

// New returns the base of the service with that name. A HostAPI of this project
// brings its node, so that services of one node share its locks. Any other HostAPI
// gets locks of its own.
func New[HostAPI any](name string, host HostAPI) (Base[HostAPI], error) {
	b := Base[HostAPI]{host: host}
	if any(host) == nil {
		return b, hosterr.Text(hosterr.ErrInvalid, "%s service: the HostAPI is nil", name)
	}
	if h, ok := any(host).(interface{ Node() *node.Node }); ok {
		b.Node = h.Node()
	}
	if b.Node == nil {
		b.Node = node.New(nil)
	}
	return b, nil
}

// On returns the HostAPI for one request. Its methods end early when ctx ends, if
// the HostAPI has a method WithContext, as those of this project do.
func (b Base[HostAPI]) On(ctx context.Context) HostAPI {
	if h, ok := any(b.host).(interface{ WithContext(context.Context) HostAPI }); ok {
		return h.WithContext(ctx)
	}
	return b.host
}

// Lock takes a lock, or waits for it until ctx ends.
type Lock func(ctx context.Context) (unlock func(), err error)

// Exclusive locks key for one holder.
func Exclusive(set *keymutex.Set, key string) Lock {
	return func(ctx context.Context) (func(), error) { return set.Lock(ctx, key) }
}

// Shared locks key for any number of holders, and against an exclusive one.
func Shared(set *keymutex.Set, key string) Lock {
	return func(ctx context.Context) (func(), error) { return set.RLock(ctx, key) }
}

// Path locks a path for one holder, and its parents against theirs. The error says
// which path it waited for.
func Path(n *node.Node, p winpath.Path) Lock {
	return func(ctx context.Context) (func(), error) {
		unlock, err := n.Locks.Paths.LockPath(ctx, p.Key())
		return unlock, hosterr.Wrap("wait for", hosterr.Quote(p.String()), err)
	}
}

// Get takes locks in their order, runs work on the HostAPI and returns its result.
// If ctx ends, it returns ctx's error; work that is running keeps the locks until it
// ends ([node.Await]).
func Get[HostAPI, T any](ctx context.Context, b Base[HostAPI], locks []Lock, work func(HostAPI) (T, error)) (T, error) {
	return node.Await(ctx, func() (none T, err error) {
		for _, lock := range locks {
			unlock, err := lock(ctx)
			if err != nil {
				return none, err
			}
			defer unlock()
		}
		return work(b.On(ctx))
	})
}

// Do is [Get] for work without a result.
func Do[HostAPI any](ctx context.Context, b Base[HostAPI], locks []Lock, work func(HostAPI) error) error {
	_, err := Get(ctx, b, locks, func(host HostAPI) (struct{}, error) { return struct{}{}, work(host) })
	return err
}

// Optional returns the HostAPI as I, an interface with a method of that name. The published
// HostAPIs do not grow, so a driver's own may not have the method; without it, the error is
// of the kind unimplemented.
func Optional[I any](host any, method string) (I, error) {
	h, ok := host.(I)
	if !ok {
		return h, hosterr.Text(hosterr.ErrUnimplemented, "this HostAPI has no method %s", method)
	}
	return h, nil
}

// NoRequest is the error of a method that is called without a request.
func NoRequest(method string) error {
	return hosterr.Text(hosterr.ErrInvalid, "%s: the request is nil", method)
}

// Response returns out and no error, or the error and no response.
func Response[T any](out *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}
