// Package profiles serves profiles of this process over plain HTTP, for go tool pprof and go
// tool trace. Its paths and parameters are those of net/http/pprof, which would add templates
// for HTML to csi-proxy.exe, and profiles that are empty here: of locks and of blocking, which
// cost time always, and of the command line.
package profiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// maxSeconds is how long a profile over time may take.
const maxSeconds = 300

// CheckAddress returns an error unless address is an IP address of loopback and a port. A name,
// such as localhost, could lead elsewhere.
func CheckAddress(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().IsLoopback() {
		return errors.New("want an address that only this machine reaches, such as 127.0.0.1:6060")
	}
	return nil
}

// names are the profiles of a moment.
func names() []string { return []string{"allocs", "goroutine", "heap", "threadcreate"} }

// handler returns the handler of /debug/pprof/.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/{$}", index)
	for _, name := range names() {
		mux.HandleFunc("GET /debug/pprof/"+name, func(w http.ResponseWriter, r *http.Request) { snapshot(w, r, name) })
	}
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, "30", pprof.StartCPUProfile, pprof.StopCPUProfile)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, "1", trace.Start, trace.Stop)
	})
	return oneAtATime(mux)
}

// oneAtATime refuses a request while another one is served: a profile holds memory until its
// client has read it, and each program of the node may ask.
func oneAtATime(h http.Handler) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
		default:
			http.Error(w, "another request for a profile is served: try again when it has ended", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-turn }()
		h.ServeHTTP(w, r)
	})
}

// index lists the profiles.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, name := range names() {
		fmt.Fprintf(w, "%s: %d\n", name, pprof.Lookup(name).Count())
	}
	fmt.Fprintf(w, "profile?seconds=30\ntrace?seconds=1\n")
}

// snapshot writes a profile of this moment: as text if the parameter debug is 1 or 2, and after
// a garbage collection if gc is more than 0.
func snapshot(w http.ResponseWriter, r *http.Request, name string) {
	debug, err := number(r, "debug", "0", 2)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	gc, err := number(r, "gc", "0", 1)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if gc > 0 {
		runtime.GC()
	}
	contentType(w, debug > 0)
	_ = pprof.Lookup(name).WriteTo(w, debug) // an error means that the client is gone
}

// record writes what start records until the parameter seconds is over or the client is gone.
func record(w http.ResponseWriter, r *http.Request, usual string, start func(io.Writer) error, stop func()) {
	seconds, err := number(r, "seconds", usual, maxSeconds)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	contentType(w, false)
	if err := start(w); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer stop()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-r.Context().Done():
	}
}

// number returns the value of a parameter of the request.
func number(r *http.Request, name, usual string, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		text = usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s=%q: want a number from 0 to %d", name, text, most)
	}
	return n, nil
}

func contentType(w http.ResponseWriter, text bool) {
	kind := "application/octet-stream"
	if text {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// Serve serves on a listener until ctx ends, and closes it.
func Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{
		Handler:        handler(),
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   (maxSeconds + 30) * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { web.Close() })
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve profiles on %s: %w", l.Addr(), err)
	}
	return nil
}
