// Package wiretest has fakes of all services for tests of rows, pipes and clients. Their
// methods are generated from the Service of each group.
package wiretest

import (
	"context"
	"errors"
)

// Answer implements all methods of the fakes. It gets the method's name and request,
// and fills the response or returns an error.
type Answer func(ctx context.Context, method string, request, response any) error

// ErrSilent makes a method return neither a response nor an error, if an Answer returns it.
var ErrSilent = errors.New("neither a response nor an error")

// call implements a method of a fake.
func call[Out any](ctx context.Context, answer Answer, method string, request any) (*Out, error) {
	response := new(Out)
	switch err := answer(ctx, method, request, response); {
	case errors.Is(err, ErrSilent):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return response, nil
}
