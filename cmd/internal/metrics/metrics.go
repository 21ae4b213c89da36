// Package metrics serves what the daemon counts, in Prometheus' text format at
// /metrics over plain HTTP.
//
// The series, their labels and their buckets are those that the published proxy
// serves: grpc_server_started_total, grpc_server_handled_total,
// grpc_server_msg_received_total, grpc_server_msg_sent_total and
// grpc_server_handling_seconds, by the service ("v1.Disk") and the method that
// were called, and those of the Go runtime and the process. A series is there
// after the first call that it counts. Not served are the three …_metrics_total
// with which the Kubernetes registry counts itself.
//
// Names of disks, volumes, paths, servers and users appear in none of them, so
// what is served holds no secret and does not grow with the node. There is no
// TLS and no authentication: who reaches the address may read.
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

// buckets are those of the published histogram, in seconds.
var buckets = [...]float64{0.001, 0.01, 0.1, 0.3, 0.6, 1, 3, 6, 9, 20, 30, 60, 90, 120}

// Server counts calls and tells the counts to whoever asks.
type Server struct {
	calls    *grpcprometheus.ServerMetrics
	listener net.Listener
	http     *http.Server
}

// Listen takes the address, host:port, without answering yet. The error says
// why it cannot be had.
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
		// A scrape takes milliseconds. Who is slower holds a connection, and no
		// more than that.
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}}, nil
}

// Addr is the address that was taken.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Interceptor counts calls. The errors that it sees have to be gRPC statuses.
func (s *Server) Interceptor() grpc.UnaryServerInterceptor { return s.calls.UnaryServerInterceptor() }

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics on %s: %w", s.Addr(), err)
	}
	return nil
}
