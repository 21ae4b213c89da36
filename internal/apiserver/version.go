package apiserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// VersionHeader is the response header of a health check that contains the
// version of the build. Responses of the API itself do not have it: they are the
// same as those of every other CSI Proxy.
const VersionHeader = "csi-proxy-version"

// AddVersionHeader returns an interceptor for [Config.Interceptors] that adds
// [VersionHeader] to responses of health checks.
func AddVersionHeader(version string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
			if err := grpc.SetHeader(ctx, metadata.Pairs(VersionHeader, version)); err != nil {
				return nil, err
			}
		}
		return handle(ctx, in)
	}
}
