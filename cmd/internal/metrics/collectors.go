package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// groupOf returns the group of a pipe: that of csi-proxy-disk-v1 is disk.
func groupOf(pipe string) string {
	group, _, _ := strings.Cut(strings.TrimPrefix(pipe, "csi-proxy-"), "-")
	return group
}

func groupsOf(pipes []serve.Pipe) []string {
	var groups []string
	known := map[string]bool{}
	for _, p := range pipes {
		if g := groupOf(p.Name); !known[g] {
			known[g] = true
			groups = append(groups, g)
		}
	}
	return groups
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// unchecked is a collector that does not say before what it collects.
type unchecked struct{}

// Describe implements [prometheus.Collector].
func (unchecked) Describe(chan<- *prometheus.Desc) {}

// inFlight collects the calls in flight by group.
type inFlight struct {
	unchecked
	groups []string
	calls  *calls.Calls
}

// Collect implements [prometheus.Collector].
func (f *inFlight) Collect(ch chan<- prometheus.Metric) {
	number := desc("csi_proxy_calls_in_flight", "Calls in flight, also those whose caller is gone, by how far they are.", "group", "phase")
	oldest := desc("csi_proxy_oldest_call_seconds", "Age of the oldest call in flight, or 0.", "group")
	tallies := map[string]calls.Tally{}
	for pipe, t := range f.calls.Tallies() {
		sum := tallies[groupOf(pipe)]
		sum.Oldest = max(sum.Oldest, t.Oldest)
		for phase, n := range t.Phases {
			if sum.Phases == nil {
				sum.Phases = map[inflight.Phase]int{}
			}
			sum.Phases[phase] += n
		}
		tallies[groupOf(pipe)] = sum
	}
	for _, group := range f.groups {
		t := tallies[group]
		gauge(ch, oldest, t.Oldest.Seconds(), group)
		for _, phase := range inflight.Phases() {
			gauge(ch, number, float64(t.Phases[phase]), group, string(phase))
		}
	}
}

// win32Calls collects the Win32 calls that were made, by name.
func win32Calls(ch chan<- prometheus.Metric, counts *win32.Counts) {
	calls := desc("csi_proxy_win32_calls_total", "Win32 calls that were begun.", "call")
	errors := desc("csi_proxy_win32_errors_total", "Win32 calls that returned an error, also one that is expected, such as the end of a list.", "call")
	seconds := desc("csi_proxy_win32_seconds_total", "Seconds that the Win32 calls took that have returned.", "call")
	running := desc("csi_proxy_win32_calls_in_flight", "Win32 calls that have not returned.", "call")
	for _, c := range counts.All() {
		if c.Calls == 0 {
			continue
		}
		counter(ch, calls, float64(c.Calls), c.Call)
		counter(ch, errors, float64(c.Errors), c.Call)
		counter(ch, seconds, c.Took.Seconds(), c.Call)
		gauge(ch, running, float64(c.Running), c.Call)
	}
}

// nodeLimit is how long a scrape waits for the node. Prometheus gives up after 10 s.
const nodeLimit = 3 * time.Second

// node collects the Win32 calls, and then the states of disks and of SMB mappings, which it asks
// Windows for: a scrape does not find its own calls in flight.
type node struct {
	unchecked
	states *server.States
}

// Collect implements [prometheus.Collector].
func (n *node) Collect(ch chan<- prometheus.Metric) {
	win32Calls(ch, n.states.Node.Counts)
	ctx, cancel := context.WithTimeout(context.Background(), nodeLimit)
	defer cancel()
	answered := desc("csi_proxy_node_answered", "1 if Windows listed its disks or SMB mappings for this scrape, otherwise 0; then their metrics are missing.", "question")
	answer := func(question string, err error) {
		value := 1.0
		if err != nil {
			value = 0
		}
		gauge(ch, answered, value, question)
	}
	var both sync.WaitGroup
	both.Go(func() {
		disks, err := n.states.Disks(ctx)
		answer("disks", err)
		if err != nil {
			return
		}
		number := desc("csi_proxy_disks", "Disks of the node by state.", "state")
		for _, state := range server.DiskStates() {
			gauge(ch, number, float64(disks[state]), string(state))
		}
	})
	if n.states.SMB != nil {
		gauge(ch, desc("csi_proxy_smb_mappings_pending_removal", "SMB mappings whose removal was requested and waits until no link uses them."), float64(n.states.SMB.CountPending()))
		both.Go(func() {
			mappings, err := n.states.Mappings(ctx)
			answer("smb_mappings", err)
			if err != nil {
				return
			}
			number := desc("csi_proxy_smb_mappings", "Global SMB mappings of the node by state.", "state")
			other := 0
			for _, count := range mappings {
				other += count
			}
			for _, status := range statuses() {
				gauge(ch, number, float64(mappings[status]), strings.ReplaceAll(status.String(), " ", "-"))
				other -= mappings[status]
			}
			gauge(ch, number, float64(other), "other")
		})
	}
	both.Wait()
}

// statuses are the statuses of SMB mappings that have a name.
func statuses() []smbapi.Status {
	return []smbapi.Status{smbapi.StatusOK, smbapi.StatusPaused, smbapi.StatusDisconnected, smbapi.StatusNetworkError, smbapi.StatusConnecting, smbapi.StatusReconnecting}
}
