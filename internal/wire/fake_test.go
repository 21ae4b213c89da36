package wire_test

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
)

// recorder is a fake of the services of all groups. It records the request and returns
// what the test sets.
type recorder struct {
	method string
	got    any            // the request
	fill   func(resp any) // fills the response
	err    error          // returned instead of a response
	silent bool           // return neither a response nor an error
	check  wire.Check
}

func groups(r *recorder) wire.Groups {
	g := wiretest.Groups(func(_ context.Context, method string, in, out any) error {
		r.method, r.got = method, in
		switch {
		case r.err != nil:
			return r.err
		case r.silent:
			return wiretest.ErrSilent
		case r.fill != nil:
			r.fill(out)
		}
		return nil
	})
	g.Check = r.check
	return g
}
