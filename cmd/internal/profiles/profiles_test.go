package profiles

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestOnlyLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:6060": true, "127.8.9.10:0": true, "[::1]:6060": true,
		"0.0.0.0:6060": false, "[::]:6060": false, ":6060": false, "10.0.0.1:6060": false, "localhost:6060": false, "127.0.0.1": false, "": false,
	} {
		if err := CheckAddress(address); (err == nil) != want {
			t.Errorf("%q: %v, want it to be allowed: %t", address, err, want)
		}
	}
}

// served serves profiles, and returns a function that gets one.
func served(t *testing.T) func(ctx context.Context, path string) (*http.Response, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			return nil, err
		}
		return http.DefaultClient.Do(r)
	}
}

// The profiles are those that go tool pprof and go tool trace ask for: compressed messages, or
// text with debug, or a trace.
func TestProfiles(t *testing.T) {
	get := served(t)
	for path, want := range map[string]string{
		"/debug/pprof/":                    "goroutine: ",
		"/debug/pprof/goroutine?debug=2":   "TestProfiles",
		"/debug/pprof/goroutine?debug=1":   "goroutine profile: total ",
		"/debug/pprof/heap?debug=1&gc=1":   "heap profile: ",
		"/debug/pprof/goroutine":           "profiles.TestProfiles",
		"/debug/pprof/heap":                "",
		"/debug/pprof/allocs":              "",
		"/debug/pprof/threadcreate":        "",
		"/debug/pprof/profile?seconds=0":   "",
		"/debug/pprof/trace?seconds=0":     "go 1.",
		"/debug/pprof/heap?debug=9":        `debug="9": want a number from 0 to 2`,
		"/debug/pprof/profile?seconds=301": `seconds="301": want a number from 0 to 300`,
		"/debug/pprof/cmdline":             "404 page not found",
		"/debug/pprof/mutex":               "404 page not found",
		"/metrics":                         "404 page not found",
	} {
		resp, err := get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		code := http.StatusOK
		switch {
		case strings.HasPrefix(want, "404"):
			code = http.StatusNotFound
		case strings.Contains(want, "want a number"):
			code = http.StatusBadRequest
		}
		text := string(body)
		if code == http.StatusOK && !strings.Contains(path, "debug=") && !strings.HasSuffix(path, "/") && !strings.Contains(path, "trace") {
			z, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			message, err := io.ReadAll(z)
			if err != nil || len(message) == 0 {
				t.Errorf("%s: %d bytes, %v", path, len(message), err)
			}
			text = string(message)
		}
		if resp.StatusCode != code || !strings.Contains(text, want) {
			t.Errorf("%s: %s %.200q, want %d with %q", path, resp.Status, text, code, want)
		}
	}
}

// One request is served at a time, and a profile over time ends when its client leaves.
func TestOneRequestAtATime(t *testing.T) {
	get := served(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	first := make(chan struct{})
	go func() {
		defer close(first)
		for ctx.Err() == nil { // until it is not the second that runs
			if resp, err := get(ctx, "/debug/pprof/trace?seconds=300"); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}()
	second := func() int {
		resp, err := get(t.Context(), "/debug/pprof/trace?seconds=0")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	for second() != http.StatusServiceUnavailable { // until the first has begun
	}
	leave()
	<-first
	for second() != http.StatusOK { // until it has ended
	}
}
