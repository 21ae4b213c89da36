package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
)

type options struct {
	servers      []string
	rounds       int
	time         time.Duration
	calls, burst int
	exe, profile string
	other        string // a program that serves the pipes, too
}

// callers are a number of callers on a number of connections.
type callers struct{ callers, connections int }

func (c callers) String() string {
	if c.callers == 1 {
		return "1 caller"
	}
	if c.connections == 1 {
		return fmt.Sprintf("%d callers, 1 connection", c.callers)
	}
	return fmt.Sprintf("%d callers, %d connections", c.callers, c.connections)
}

// loads are the numbers of callers that are measured.
func loads() []callers { return []callers{{1, 1}, {16, 1}, {64, 1}, {16, 16}} }

// A row of the table is a figure; of each server it has the values of all rounds.
type row struct {
	name   string
	format string
	ratio  bool // to the bare server of the same round
	values map[string][]float64
}

// table has its rows in the order in which they were first added.
type table struct{ rows []*row }

func (t *table) add(server, name, format string, ratio bool, value float64) {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.name == name })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &row{name, format, ratio, map[string][]float64{}})
	}
	t.rows[i].values[server] = append(t.rows[i].values[server], value)
}

// write writes the table in Markdown: of each figure the median, and in brackets the median
// of its ratios to the bare server of the same round.
func (t *table) write(w io.Writer, servers []string) {
	fmt.Fprintf(w, "| | %s |\n|---|%s\n", strings.Join(servers, " | "), strings.Repeat("---|", len(servers)))
	for _, r := range t.rows {
		cells := make([]string, len(servers))
		for i, s := range servers {
			values := r.values[s]
			if len(values) == 0 {
				continue
			}
			cells[i] = fmt.Sprintf(r.format, median(values))
			if bare := r.values[echoServer]; r.ratio && s != echoServer && len(bare) == len(values) {
				ratios := make([]float64, len(values))
				for n := range values {
					ratios[n] = values[n] / bare[n]
				}
				cells[i] += fmt.Sprintf(" (%.2f)", median(ratios))
			}
		}
		fmt.Fprintf(w, "| %s | %s |\n", r.name, strings.Join(cells, " | "))
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// socketsDir is where the sockets are: in memory if that is possible, as in /run, where the
// daemon has them. Otherwise the journal of a disk is measured, too.
func socketsDir() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); runtime.GOOS == "linux" && err == nil && info.IsDir() {
		return memory
	}
	return ""
}

// bench measures the servers and writes the table.
func bench(ctx context.Context, o options, stdout, progress io.Writer) error {
	dir, err := os.MkdirTemp(socketsDir(), "csi-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(pipe.DirVariable, dir); err != nil { // for the servers, too
		return err
	}
	paths, err := daemon.Pipes(daemon.Program{Name: "bench", Host: stubHost{}}, nil)
	if err != nil {
		return err
	}
	var all []string
	for _, p := range paths {
		name, err := pipe.Name(p)
		if err != nil {
			return err
		}
		all = append(all, name)
	}
	pipesOf := func(kind string) []string {
		if kind == echoServer || kind == otherServer {
			return []string{pipeName}
		}
		return all
	}
	var t table
	for round := range o.rounds {
		for _, kind := range o.servers {
			fmt.Fprintf(progress, "round %d of %d: %s   \r", round+1, o.rounds, kind)
			last := round == o.rounds-1 && kind == o.servers[len(o.servers)-1]
			profile := ""
			if last {
				profile = o.profile
			}
			if err := o.measure(ctx, &t, kind, pipesOf(kind), profile); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	if o.calls > 0 {
		for _, kind := range slices.DeleteFunc(slices.Clone(o.servers), func(kind string) bool { return kind == otherServer }) {
			fmt.Fprintf(progress, "memory: %s            \r", kind)
			if err := o.remember(ctx, &t, kind, pipesOf(kind)); err != nil {
				return fmt.Errorf("memory of %s: %w", kind, err)
			}
		}
	}
	fmt.Fprintf(progress, "%40s\r", "")
	transport := "unix sockets"
	if runtime.GOOS == "windows" {
		transport = "named pipes"
	}
	fmt.Fprintf(stdout, "%s, %s %s/%s, %d processors, medians of %d rounds, (÷ bare gRPC of the same round)\n\n",
		transport, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), o.rounds)
	t.write(stdout, o.servers)
	if o.exe != "" {
		info, err := os.Stat(o.exe)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "\n%s has %d bytes.\n", info.Name(), info.Size())
	}
	return nil
}

// measure starts a server, lets callers call it, and stops it.
func (o options) measure(ctx context.Context, t *table, kind string, pipes []string, profile string) error {
	one, err := o.start(ctx, kind, []string{pipeName}, "-enable-api=filesystem/v1")
	if err != nil {
		return err
	}
	begun, err := one.figures("")
	if err != nil {
		return err
	}
	if err := one.stop(); err != nil {
		return err
	}
	s, err := o.start(ctx, kind, pipes)
	if err != nil {
		return err
	}
	defer s.cmd.Process.Kill()
	all, err := s.figures("")
	if err != nil {
		return err
	}
	ms := func(name string, d time.Duration) { t.add(kind, name, "%.0f", false, float64(d.Microseconds())/1000) }
	if kind != otherServer {
		ms("start until it serves one version, ms", one.served)
		ms("start until one version answers, ms", one.started)
	}
	if kind != echoServer && kind != otherServer {
		ms("start until it serves all versions, ms", s.served)
		ms("start until all versions answer, ms", s.started)
		t.add(kind, "serves all versions ÷ one", "%.2f", false, float64(s.served)/float64(one.served))
		t.add(kind, "all versions answer ÷ one", "%.2f", false, float64(s.started)/float64(one.started))
		t.add(kind, "processor time of the server until all versions answer ÷ one", "%.2f", false, float64(all.Processor)/float64(begun.Processor))
	}
	if err := prepare(ctx, kind); err != nil {
		return err
	}
	if _, err := s.figures(profile); err != nil {
		return err
	}
	for _, l := range loads() {
		clients, disconnect, err := connect(l.connections)
		if err != nil {
			return err
		}
		if _, err := call(ctx, clients, l.callers, o.time/6, 0); err != nil { // warm up
			return err
		}
		before, err := s.figures("")
		if err != nil {
			return err
		}
		did, err := call(ctx, clients, l.callers, o.time, 0)
		if err != nil {
			return err
		}
		after, err := s.figures("")
		if err != nil {
			return err
		}
		disconnect()
		name, calls := l.String(), float64(did.calls)
		t.add(kind, name+": calls per second", "%.0f", true, did.rate())
		t.add(kind, name+": p50, µs", "%.0f", true, float64(did.at(0.5).Nanoseconds())/1000)
		t.add(kind, name+": p99, µs", "%.0f", true, float64(did.at(0.99).Nanoseconds())/1000)
		if kind == otherServer {
			continue
		}
		t.add(kind, name+": processor time of the server per call, µs", "%.1f", true, float64((after.Processor-before.Processor).Nanoseconds())/1000/calls)
		if l == (callers{16, 1}) {
			t.add(kind, "allocations per call", "%.1f", false, float64(after.Allocs-before.Allocs)/calls)
			t.add(kind, "bytes allocated per call", "%.0f", false, float64(after.Bytes-before.Bytes)/calls)
			t.add(kind, "garbage collections per 10,000 calls", "%.1f", false, float64(after.Collections-before.Collections)/calls*10_000)
		}
	}
	return s.stop()
}

// prepare makes the path that is asked for, on servers that have files.
func prepare(ctx context.Context, kind string) error {
	if kind == echoServer || kind == stubServer {
		return nil
	}
	clients, disconnect, err := connect(1)
	if err != nil {
		return err
	}
	defer disconnect()
	_, err = clients[0].Mkdir(ctx, &api.MkdirRequest{Path: path})
	return err
}

// remember reads the memory and the goroutines of a server: idle, after calls, and after
// many connections.
func (o options) remember(ctx context.Context, t *table, kind string, pipes []string) error {
	s, err := o.start(ctx, kind, pipes)
	if err != nil {
		return err
	}
	defer s.cmd.Process.Kill()
	goroutines := map[string]float64{}
	add := func(when string) error {
		time.Sleep(time.Second) // connections are closed in the background
		f, err := s.figures("")
		if err != nil {
			return err
		}
		t.add(kind, "resident memory "+when+", MiB", "%.1f", false, float64(f.Resident)/(1<<20))
		goroutines[when] = float64(f.Goroutines)
		return nil
	}
	if err := add("idle"); err != nil {
		return err
	}
	if err := prepare(ctx, kind); err != nil {
		return err
	}
	for n := range 2 {
		clients, disconnect, err := connect(1)
		if err != nil {
			return err
		}
		if _, err := call(ctx, clients, 16, 0, o.calls); err != nil {
			return err
		}
		disconnect()
		if err := add(fmt.Sprintf("after %d calls", (n+1)*o.calls)); err != nil {
			return err
		}
	}
	burst(ctx, o.burst)
	after := fmt.Sprintf("after a burst of %d connections", o.burst)
	if err := add(after); err != nil {
		return err
	}
	for _, when := range []string{"idle", after} {
		t.add(kind, "goroutines "+when, "%.0f", false, goroutines[when])
	}
	return cmp.Or(s.stop(), ctx.Err())
}
