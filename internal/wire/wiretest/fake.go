// Package wiretest has fakes of all services, for tests of what stands above
// them: rows, pipes, clients. The methods are generated from the Service of each
// group, so a method that is added to one is here as well.
package wiretest

import (
	"context"
	"errors"
)

// Answer is what every method of the fakes does: it gets the method's name and
// request, and fills the response. An error is returned instead of the response.
type Answer func(ctx context.Context, method string, request, response any) error

// Silent is returned by an Answer so that the method returns neither a response
// nor an error.
var Silent = errors.New("neither a response nor an error")

// call is a method of a fake.
func call[Out any](ctx context.Context, answer Answer, method string, request any) (*Out, error) {
	response := new(Out)
	switch err := answer(ctx, method, request, response); {
	case errors.Is(err, Silent):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return response, nil
}
