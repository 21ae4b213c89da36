package serve

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/limit"
)

// VersionHeader is the response header of a health check that contains
// [Config.Version]. Responses of the API itself do not have it: they are the same as those
// of every other CSI Proxy.
const VersionHeader = "csi-proxy-version"

// RefusalsHeader is the response header of a health check that says what the pipe refuses to
// newcomers, if it does.
const RefusalsHeader = "csi-proxy-refusals"

// addHeaders adds the headers of a health check.
func (s *Server) addHeaders(ctx context.Context, of *limit.Pipe) error {
	var headers []string
	if s.config.Version != "" {
		headers = append(headers, VersionHeader, s.config.Version)
	}
	if r := of.Refusals().String(); r != "" {
		headers = append(headers, RefusalsHeader, r)
	}
	if headers == nil {
		return nil
	}
	return grpc.SetHeader(ctx, metadata.Pairs(headers...))
}
