// Package wire is where the rows of the generator's tests are.
package wire

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows/testdata/tiny/client/api/shelf/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows/testdata/tiny/pkg/shelf"
)

func v1alpha1_Place(ctx context.Context, _ string, s shelf.Interface, in *v1alpha1.PlaceRequest) (*v1alpha1.PlaceResponse, error) {
	if _, err := s.Put(ctx, &shelf.PutRequest{BookID: in.Place}); err != nil {
		return nil, err
	}
	return &v1alpha1.PlaceResponse{}, nil
}

func v1alpha1_List(ctx context.Context, _ string, s shelf.Interface, _ *v1alpha1.ListRequest) (*v1alpha1.ListResponse, error) {
	if _, err := s.List(ctx, &shelf.ListRequest{All: true}); err != nil {
		return nil, err
	}
	return &v1alpha1.ListResponse{}, nil
}
