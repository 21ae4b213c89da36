package apiserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// VersionHeader is the response header of a health check that contains
// [Config.Version]. Responses of the API itself do not have it: they are the same as those
// of every other CSI Proxy.
const VersionHeader = "csi-proxy-version"

func (s *Server) addVersionHeader(ctx context.Context) error {
	if s.config.Version == "" {
		return nil
	}
	return grpc.SetHeader(ctx, metadata.Pairs(VersionHeader, s.config.Version))
}
