package main

import (
	"context"
	"io"
)

// onAPI makes one call with a client of an API, such as "smb/v1".
func onAPI[C io.Closer](ctx context.Context, a *app, api string, connect func() (C, error), method string, call func(context.Context, C) error) error {
	client, err := connect()
	if err != nil {
		return &failure{err: err}
	}
	defer client.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if err := call(ctx, client); err != nil {
		return &failure{api + " " + method, err}
	}
	return nil
}
