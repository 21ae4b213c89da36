// Package metrics serves the metrics of the daemon at /metrics, in the text format of
// Prometheus over plain HTTP, and its state.
//
// Of the published proxy are these metrics, with their labels and buckets:
// grpc_server_started_total, grpc_server_handled_total, grpc_server_msg_received_total,
// grpc_server_msg_sent_total and grpc_server_handling_seconds, by service ("v1.Disk") and
// method, and the metrics of the Go runtime and the process. A method has its series from its
// first call: for all methods of all versions they would be 6,000 on every node. What alerts need
// from the start, with zeros, is csi_proxy_failures_total. Also counted are calls that csi-proxy
// refuses before it reads them. The metrics that begin with csi_proxy_ are our own; docs/run/reference.md
// lists them. The metrics that the Kubernetes registry has about itself (…_metrics_total) are
// not served.
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
	"path"
	"runtime"
	"sync"
	"time"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/limit"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
)

// buckets are the buckets of the published histogram, in seconds.
var buckets = [...]float64{0.001, 0.01, 0.1, 0.3, 0.6, 1, 3, 6, 9, 20, 30, 60, 90, 120}

// Server counts calls and serves the metrics. It also serves the state of the daemon, as
// text: at /healthz with status 200, and at /readyz with status 503 unless it is ready.
type Server struct {
	handled  *grpcprometheus.ServerMetrics
	failures *prometheus.CounterVec
	refused  *prometheus.CounterVec
	crowded  *prometheus.CounterVec
	registry *prometheus.Registry
	scrapes  chan struct{}     // has those that run
	groups   map[string]string // by service, "/v1.Disk"

	mu       sync.Mutex
	state    string
	ready    bool
	stopping bool
}

// New returns a server whose state is "starting", of a program with that version.
func New(version string) *Server {
	s := &Server{
		handled: grpcprometheus.NewServerMetrics(grpcprometheus.WithServerHandlingTimeHistogram(grpcprometheus.WithHistogramBuckets(buckets[:]))),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csi_proxy_failures_total", Help: "Calls that failed, by what has to change.",
		}, []string{"group", "kind"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csi_proxy_calls_refused_total", Help: "Calls that were refused because the pipe had too many.",
		}, []string{"group"}),
		crowded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "csi_proxy_connections_closed_total", Help: "Connections that were closed because the pipe had too many.",
		}, []string{"group", "reason"}),
		registry: prometheus.NewRegistry(),
		scrapes:  make(chan struct{}, maxScrapes),
		groups:   map[string]string{},
		state:    "starting",
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "csi_proxy_build_info", Help: "1, with the versions of the program and of Go as labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "csi_proxy_ready", Help: "1 if all pipes are served, otherwise 0.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ready {
			return 1
		}
		return 0
	})
	s.registry.MustRegister(s.handled, s.failures, s.refused, s.crowded, info, ready,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// Open adds the metrics of a node and of its pipes. It must be called once, before calls are
// served. Without states, there are no metrics of the node.
func (s *Server) Open(pipes []serve.Pipe, calls *calls.Calls, states *server.States) {
	groups := groupsOf(pipes)
	for _, p := range pipes {
		s.groups["/"+p.Desc.ServiceName] = groupOf(p.Name)
	}
	for _, group := range groups {
		s.refused.WithLabelValues(group)
		for _, kind := range kinds() {
			s.failures.WithLabelValues(group, string(kind))
		}
		for _, how := range []limit.Crowded{limit.Replaced, limit.Refused} {
			s.crowded.WithLabelValues(group, string(how))
		}
	}
	s.registry.MustRegister(&inFlight{groups: groups, calls: calls})
	if states != nil {
		s.registry.MustRegister(&node{states: states})
	}
}

// Count makes the server count the calls that config describes.
func (s *Server) Count(config *serve.Config) {
	handled := s.handled.UnaryServerInterceptor()
	config.Count = func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		out, err := handled(ctx, in, info, handler)
		if group, known := s.groups[path.Dir(info.FullMethod)]; known && err != nil { // health checks have none
			s.failures.WithLabelValues(group, string(kindOf(status.Code(err)))).Inc()
		}
		return out, err
	}
	config.Busy = func(pipe string) { s.refused.WithLabelValues(groupOf(pipe)).Inc() }
	config.Crowded = func(pipe string, how limit.Crowded) { s.crowded.WithLabelValues(groupOf(pipe), string(how)).Inc() }
}

// kind is what has to change before a call that failed can succeed.
type kind string

const (
	kindNode    kind = "node"    // Windows or csi-proxy
	kindTime    kind = "time"    // nothing: the same call may succeed later
	kindRequest kind = "request" // what the caller asks for
)

func kinds() []kind { return []kind{kindNode, kindTime, kindRequest} }

// kindOf returns the kind of a failure.
func kindOf(code codes.Code) kind {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return kindNode
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted:
		return kindTime
	}
	return kindRequest
}

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

// maxScrapes is how many scrapes run at once. Each holds some megabytes until its client has
// read them, and everyone who reaches the address may scrape.
const maxScrapes = 4

// metrics writes the metrics. Package promhttp would add formats and compressions that no
// scraper needs, and 300 KB to csi-proxy.exe.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	select {
	case s.scrapes <- struct{}{}:
		defer func() { <-s.scrapes }()
	default:
		http.Error(w, fmt.Sprintf("%d scrapes run, which is the limit: scrape again later", maxScrapes), http.StatusServiceUnavailable)
		return
	}
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
	web := &http.Server{
		Handler: mux,
		// A scrape takes milliseconds; the limits are for slow clients.
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { web.Close() })
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics on %s: %w", l.Addr(), err)
	}
	return nil
}
