// Package metrics serves the metrics of the daemon at /metrics, in the text format of
// Prometheus over plain HTTP.
//
// The metrics, labels and buckets are those of the published proxy:
// grpc_server_started_total, grpc_server_handled_total, grpc_server_msg_received_total,
// grpc_server_msg_sent_total and grpc_server_handling_seconds, by service ("v1.Disk") and
// method, and the metrics of the Go runtime and the process. A series appears with the
// first call that it counts. The metrics that the Kubernetes registry has about itself
// (…_metrics_total) are not served.
//
// No metric contains names of disks, volumes, paths, servers or users, so the metrics
// contain no secrets, and their number does not grow. There is no TLS and no
// authentication: everyone who can connect to the address can read them.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
)

// buckets are the buckets of the published histogram, in seconds.
var buckets = [...]float64{0.001, 0.01, 0.1, 0.3, 0.6, 1, 3, 6, 9, 20, 30, 60, 90, 120}

// Server counts calls and serves the metrics.
type Server struct {
	calls    *grpcprometheus.ServerMetrics
	listener net.Listener
	http     *http.Server
}

// Listen listens on an address, host:port. Requests wait until Serve is called.
func Listen(address string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	calls := grpcprometheus.NewServerMetrics(grpcprometheus.WithServerHandlingTimeHistogram(grpcprometheus.WithHistogramBuckets(buckets[:])))
	registry := prometheus.NewRegistry()
	registry.MustRegister(calls, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &Server{calls, l, &http.Server{
		Handler: mux,
		// A scrape takes milliseconds; the limits are for slow clients.
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}}, nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Interceptor returns the interceptor that counts calls. It expects errors to be gRPC
// statuses.
func (s *Server) Interceptor() grpc.UnaryServerInterceptor { return s.calls.UnaryServerInterceptor() }

// Serve serves the metrics until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics on %s: %w", s.Addr(), err)
	}
	return nil
}
