// Package metrics serves the metrics of the daemon at /metrics, in the text format of
// Prometheus over plain HTTP, and its state.
//
// Of the published proxy are these metrics, with their labels and buckets:
// grpc_server_started_total, grpc_server_handled_total, grpc_server_msg_received_total,
// grpc_server_msg_sent_total and grpc_server_handling_seconds, by service ("v1.Disk") and
// method, and the metrics of the Go runtime and the process. A series appears with the
// first call that it counts. Also counted are calls that csi-proxy refuses before it reads
// them.
//
// Additional metrics are csi_proxy_build_info, with the versions of the program and of Go as
// labels, and csi_proxy_calls_in_flight, by phase. The metrics that the Kubernetes registry has about itself
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
	"runtime"
	"sync"
	"time"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// buckets are the buckets of the published histogram, in seconds.
var buckets = [...]float64{0.001, 0.01, 0.1, 0.3, 0.6, 1, 3, 6, 9, 20, 30, 60, 90, 120}

// Server counts calls and serves the metrics. It also serves the state of the daemon, as
// text: at /healthz with status 200, and at /readyz with status 503 unless it is ready.
type Server struct {
	calls    *grpcprometheus.ServerMetrics
	registry *prometheus.Registry

	mu       sync.Mutex
	state    string
	ready    bool
	stopping bool
}

// New returns a server whose state is "starting", of a program with that version. inFlight
// counts the calls of a phase.
func New(version string, inFlight func(inflight.Phase) int) *Server {
	calls := grpcprometheus.NewServerMetrics(grpcprometheus.WithServerHandlingTimeHistogram(grpcprometheus.WithHistogramBuckets(buckets[:])))
	registry := prometheus.NewRegistry()
	registry.MustRegister(calls, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "csi_proxy_build_info", Help: "1, with the versions of the program and of Go as labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	registry.MustRegister(info)
	for _, p := range inflight.Phases() {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "csi_proxy_calls_in_flight", Help: "Calls in flight, also those whose caller is gone, by how far they are.",
			ConstLabels: prometheus.Labels{"phase": string(p)},
		}, func() float64 { return float64(inFlight(p)) }))
	}
	return &Server{calls: calls, registry: registry, state: "starting"}
}

// Interceptor returns the interceptor that counts calls. It expects errors to be gRPC
// statuses.
func (s *Server) Interceptor() grpc.UnaryServerInterceptor { return s.calls.UnaryServerInterceptor() }

// Ready sets the state of a daemon that serves.
func (s *Server) Ready(state string) { s.set(state, true) }

// Waiting sets the state of a daemon that does not serve.
func (s *Server) Waiting(state string) { s.set(state, false) }

// Stopping sets the state of a daemon that lets running calls finish. It is the last state.
func (s *Server) Stopping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.ready, s.stopping = "stopping", false, true
}

func (s *Server) set(state string, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.state, s.ready = state, ready
	}
}

// show returns the handler for the state. Its status is 503 if the daemon must be ready and
// is not.
func (s *Server) show(mustBeReady bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		state, ready := s.state, s.ready
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if mustBeReady && !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, state) // an error means that the client is gone
	}
}

// metrics writes the metrics. Package promhttp would add formats and compressions that no
// scraper needs, and 300 KB to csi-proxy.exe.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	families, err := s.registry.Gather()
	if err != nil {
		http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return // the client is gone
		}
	}
}

// Serve serves on a listener until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.Handle("GET /healthz", s.show(false))
	mux.Handle("GET /readyz", s.show(true))
	server := &http.Server{
		Handler: mux,
		// A scrape takes milliseconds; the limits are for slow clients.
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics on %s: %w", l.Addr(), err)
	}
	return nil
}
