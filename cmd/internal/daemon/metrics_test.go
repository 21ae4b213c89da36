package daemon_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	api "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	olderapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	older "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
)

// scrape returns the metrics of a daemon.
func scrape(t *testing.T, p *process) string {
	t.Helper()
	output, _ := p.output()
	url := regexp.MustCompile(`http://\S+/metrics`).FindString(output)
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return string(text)
}

// The series, labels and buckets are those of the published proxy, on which dashboards
// depend. Those of a method begin with its first call, and what alerts use is there from the start:
// without zeros, increase() misses the first failure.
func TestMetrics(t *testing.T) {
	sockets(t)
	p := start(t, "-metrics-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")
	fresh := scrape(t, p)
	for _, w := range []string{
		`csi_proxy_failures_total{group="volume",kind="node"} 0`,
		`csi_proxy_failures_total{group="disk",kind="request"} 0`,
		`csi_proxy_calls_refused_total{group="disk"} 0`,
		`csi_proxy_connections_closed_total{group="disk",reason="replaced"} 0`,
		`csi_proxy_connections_closed_total{group="disk",reason="refused"} 0`,
		`csi_proxy_oldest_call_seconds{group="smb"} 0`,
		`csi_proxy_ready 1`,
		`csi_proxy_disks{state="online"} 3`,
		`csi_proxy_disks{state="offline"} 0`,
		`csi_proxy_disks{state="unanswered"} 0`,
		`csi_proxy_smb_mappings{state="network-error"} 0`,
		`csi_proxy_smb_mappings_pending_removal 0`,
		`csi_proxy_node_answered{question="disks"} 1`,
		`csi_proxy_node_answered{question="smb_mappings"} 1`,
	} {
		if !strings.Contains(fresh, "\n"+w+"\n") {
			t.Errorf("before the first call, %s is missing", w)
		}
	}
	const most = 350
	if n := len(regexp.MustCompile(`(?m)^[^#]`).FindAllString(fresh, -1)); n > most {
		t.Errorf("%d series before the first call, want %d at most", n, most)
	}
	c, err := disk.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o, err := older.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := c.ListDiskIDs(t.Context(), &api.ListDiskIDsRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetDiskState(t.Context(), &api.GetDiskStateRequest{DiskNumber: 99}); err == nil {
		t.Fatal("disk 99 exists")
	}
	if _, err := o.ListDiskIDs(t.Context(), &olderapi.ListDiskIDsRequest{}); err != nil {
		t.Fatal(err)
	}

	got := scrape(t, p)
	want := []string{
		`grpc_server_started_total{grpc_method="ListDiskIDs",grpc_service="v1.Disk",grpc_type="unary"} 1`,
		`grpc_server_started_total{grpc_method="ListDiskIDs",grpc_service="v1beta2.Disk",grpc_type="unary"} 1`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="ListDiskIDs",grpc_service="v1.Disk",grpc_type="unary"} 1`,
		`grpc_server_handled_total{grpc_code="NotFound",grpc_method="GetDiskState",grpc_service="v1.Disk",grpc_type="unary"} 1`,
		`grpc_server_msg_received_total{grpc_method="GetDiskState",grpc_service="v1.Disk",grpc_type="unary"} 1`,
		`grpc_server_msg_sent_total{grpc_method="ListDiskIDs",grpc_service="v1.Disk",grpc_type="unary"} 1`,
		`grpc_server_handling_seconds_count{grpc_method="ListDiskIDs",grpc_service="v1.Disk",grpc_type="unary"} 1`,
		`csi_proxy_failures_total{group="disk",kind="request"} 1`,
		`csi_proxy_build_info{goversion="` + runtime.Version() + `",version="v0.0.0-test"} 1`,
		`csi_proxy_calls_in_flight{group="disk",phase="queued"} 0`,
		`csi_proxy_calls_in_flight{group="disk",phase="receiving"} 0`,
		`csi_proxy_calls_in_flight{group="disk",phase="running"} 0`,
		`csi_proxy_calls_in_flight{group="volume",phase="waiting"} 0`,
		"go_goroutines ",
		"process_start_time_seconds ",
	}
	for _, le := range []string{"0.001", "0.01", "0.1", "0.3", "0.6", "1", "3", "6", "9", "20", "30", "60", "90", "120", "+Inf"} {
		want = append(want, `grpc_server_handling_seconds_bucket{grpc_method="ListDiskIDs",grpc_service="v1.Disk",grpc_type="unary",le="`+le+`"} `)
	}
	for _, w := range want {
		if !strings.Contains(got, "\n"+w) {
			t.Errorf("%s is missing", w)
		}
	}
	if n := strings.Count(got, `grpc_server_handling_seconds_bucket{grpc_method="ListDiskIDs",grpc_service="v1.Disk"`); n != 15 {
		t.Errorf("%d buckets, want 15", n)
	}

	const each = 24
	calledMethod := regexp.MustCompile(`grpc_method="ListDiskIDs",grpc_service="v1.Disk"`)
	if n := len(calledMethod.FindAllString(got, -1)); n > each {
		t.Errorf("%d series of a method that was called, want %d at most", n, each)
	}
	for _, counted := range []string{`csi_proxy_win32_errors_total{call="Interfaces"} 1`, `csi_proxy_win32_calls_total{call="Interfaces"} 0`} {
		if strings.Contains(got, "\n"+counted+"\n") {
			t.Errorf("after the calls: %s", counted)
		}
	}
	documented(t, got)
	t.Logf("%d series", len(regexp.MustCompile(`(?m)^[^#]`).FindAllString(got, -1)))

	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// Profiles are served by flag only, and not where metrics are.
func TestProfilesHaveTheirOwnAddress(t *testing.T) {
	sockets(t)
	p := start(t, "-metrics-bind-address=127.0.0.1:0", "-pprof-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")
	output, _ := p.output()
	status := func(url string) (int, string) {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	profiles := regexp.MustCompile(`http://\S+/debug/pprof/`).FindString(output)
	if code, text := status(profiles + "goroutine?debug=2"); code != http.StatusOK || !strings.Contains(text, "apiserver") {
		t.Errorf("the goroutines: %d %.200s", code, text)
	}
	metrics := strings.TrimSuffix(regexp.MustCompile(`http://\S+/metrics`).FindString(output), "metrics")
	if code, _ := status(metrics + "debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("profiles at the address of metrics: %d", code)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	plain := start(t)
	plain.await(t, "Serving ")
	if output, _ := plain.output(); strings.Contains(output, "pprof") {
		t.Error("profiles are served without the flag")
	}
}

// documented checks that the table of the reference has the metrics of a scrape and their
// labels, and no others.
func documented(t *testing.T, scrape string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/run/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ = bytes.Cut(page, []byte("\n## Metrics\n"))
	in := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) ?\\|").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(row[1], "grpc_") || strings.HasPrefix(row[1], "csi_") {
			in[row[1]] = strings.Trim(strings.ReplaceAll(strings.ReplaceAll(row[2], "`", ""), " ", ""), " ")
		}
	}
	have := map[string]string{}
	for _, series := range regexp.MustCompile(`(?m)^((?:grpc|csi)_\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? `).FindAllStringSubmatch(scrape, -1) {
		var labels []string
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[2], -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		have[series[1]] = strings.Join(labels, ",")
	}
	if !maps.Equal(in, have) {
		t.Errorf("the reference has the metrics\n%q\nand the scrape\n%q", in, have)
	}
}
