package apiserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// VersionHeader is the header of the answer to a health check that tells which
// build answers. Answers of the API itself are those of every other CSI Proxy.
const VersionHeader = "csi-proxy-version"

// TellVersion makes an interceptor for [Config.Interceptors] that adds the
// header.
func TellVersion(version string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
			if err := grpc.SetHeader(ctx, metadata.Pairs(VersionHeader, version)); err != nil {
				return nil, err
			}
		}
		return handle(ctx, in)
	}
}
