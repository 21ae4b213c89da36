package node

import "context"

// Host is what every HostAPI is made of: a node, and the context of the request
// that it works for. The zero Host has no node, which [Host.Ready] reports.
type Host struct {
	Node *Node
	Ctx  context.Context
	err  error // why there is no node
}

// NativeHost returns a host of the node that this process runs on ([Native]).
func NativeHost() Host {
	n, err := Native()
	return Host{Node: n, Ctx: context.Background(), err: err}
}

// HostOf returns a host of n.
func HostOf(n *Node) Host { return Host{Node: n, Ctx: context.Background()} }

// WithContext returns the same host for a request with context ctx.
func (h Host) WithContext(ctx context.Context) Host {
	h.Ctx = ctx
	return h
}

// Ready returns the reason why nothing can be done on the node: there is none, or
// the context has ended.
func (h Host) Ready() error {
	switch {
	case h.err != nil:
		return h.err
	case h.Node == nil:
		return ErrNoWindows
	}
	return h.Ctx.Err()
}

// Poll is [Poll] on the node's clock, until the context ends.
func (h Host) Poll(pace Pace, look func() (done bool, err error)) error {
	return Poll(h.Ctx, h.Node.Clock, pace, look)
}
