// Package wire is where the rows of the generator's tests are.
package wire

import (
	"context"

	"example.com/tiny/client/api/shelf/v1alpha1"
	"example.com/tiny/pkg/shelf"
)

func v1alpha1_Place(ctx context.Context, to target[shelf.Service], in *v1alpha1.PlaceRequest) (*v1alpha1.PlaceResponse, error) {
	if _, err := ask(ctx, to, shelf.Service.Put, &shelf.PutRequest{BookID: in.Place}); err != nil {
		return nil, err
	}
	return &v1alpha1.PlaceResponse{}, nil
}

func v1alpha1_List(ctx context.Context, to target[shelf.Service], _ *v1alpha1.ListRequest) (*v1alpha1.ListResponse, error) {
	if _, err := ask(ctx, to, shelf.Service.List, &shelf.ListRequest{All: true}); err != nil {
		return nil, err
	}
	return &v1alpha1.ListResponse{}, nil
}
