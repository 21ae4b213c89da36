package daemon_test

import (
	"io"
	"net/http"
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
// depend.
func TestMetrics(t *testing.T) {
	sockets(t)
	p := start(t, "-metrics-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")
	if got := scrape(t, p); strings.Contains(got, `grpc_method="`) {
		t.Errorf("before the first call:\n%s", got)
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
		`csi_proxy_build_info{goversion="` + runtime.Version() + `",version="v0.0.0-test"} 1`,
		`csi_proxy_calls_in_flight{phase="queued"} 0`,
		`csi_proxy_calls_in_flight{phase="receiving"} 0`,
		`csi_proxy_calls_in_flight{phase="running"} 0`,
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

	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
