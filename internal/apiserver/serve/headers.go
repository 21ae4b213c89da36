package serve

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/limit"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// addHeaders adds the headers of a health check.
func (s *Server) addHeaders(ctx context.Context, of *limit.Pipe) error {
	var headers []string
	if s.config.Version != "" {
		headers = append(headers, pipes.VersionHeader, s.config.Version)
	}
	if r := of.Refusals().String(); r != "" {
		headers = append(headers, pipes.RefusalsHeader, r)
	}
	for _, p := range s.pipes {
		headers = append(headers, pipes.ServesHeader, p.Name)
	}
	if s.config.ReadOnly {
		headers = append(headers, pipes.ReadOnlyHeader, "true")
	}
	return grpc.SetHeader(ctx, metadata.Pairs(headers...))
}
