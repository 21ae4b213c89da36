package metrics

import (
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// values returns the metrics of a registry by name and the value of their only label.
func values(t *testing.T, r *prometheus.Registry) map[[2]string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[[2]string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := [2]string{f.GetName()}
			for _, l := range m.Label {
				key[1] = l.GetValue()
			}
			all[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// A disk or a server that hangs does not make a scrape hang, and each scrape does not leave
// another thread in Windows.
func TestScrapeOfNodeThatHangs(t *testing.T) {
	synctest.Test(t, testScrapeOfNodeThatHangs)
}

func testScrapeOfNodeThatHangs(t *testing.T) {
	n := simnode.New(t)
	states := &server.States{Node: n.Disk().(server.Disks).Node(), SMB: n.SMB().(server.Mappings)}
	r := prometheus.NewRegistry()
	r.MustRegister(&node{states: states})
	check := func(when string, want map[[2]string]float64) {
		t.Helper()
		begin := time.Now()
		got := values(t, r)
		if took := time.Since(begin); took > nodeLimit {
			t.Errorf("%s: a scrape took %s, want %s at most", when, took, nodeLimit)
		}
		for key, value := range want {
			if v, ok := got[key]; v != value || !ok {
				t.Errorf("%s: %s = %v (there: %t), want %v", when, key, v, ok, value)
			}
		}
	}
	disks := func(online, unanswered float64) map[[2]string]float64 {
		return map[[2]string]float64{
			{"csi_proxy_disks", "online"}: online, {"csi_proxy_disks", "unanswered"}: unanswered, {"csi_proxy_disks", "offline"}: 0,
			{"csi_proxy_node_answered", "disks"}: 1,
		}
	}
	check("at first", disks(3, 0))

	hang := func(f simnode.Fault) {
		t.Helper()
		f.Delay = time.Hour
		if _, err := n.Fail(f); err != nil {
			t.Fatal(err)
		}
	}
	hang(simnode.Fault{Call: winapi.DeviceIoControl, Times: 1})
	hang(simnode.Fault{Call: winapi.UseEnum})
	for range 2 {
		want := disks(2, 1)
		want[[2]string{"csi_proxy_node_answered", "smb_mappings"}] = 0
		check("while a disk and the SMB client hang", want)
		if _, ok := values(t, r)[[2]string{"csi_proxy_smb_mappings", "ok"}]; ok {
			t.Error("mappings have states that Windows did not report")
		}
	}
	for _, c := range states.Node.Counts.All() {
		if hangs := c.Call == "DeviceIoControl" || c.Call == "UseEnum"; hangs != (c.Running == 1) {
			t.Errorf("%d calls of %s hang", c.Running, c.Call)
		}
	}
	n.ClearFaults()
	synctest.Wait() // until the calls that hung have ended
	want := disks(3, 0)
	want[[2]string{"csi_proxy_node_answered", "smb_mappings"}] = 1
	check("afterwards", want)
}

// What a scrape returns of nodes that are sick, or have what a healthy node may have. The alerts
// and the dashboard of deploy/ are about these values.
func TestScrapesOfSickNodes(t *testing.T) {
	const share, staged = `\\files.example.com\data`, `C:\var\lib\kubelet\staged`
	mapShare := func(n *simnode.Node) error {
		_, err := n.SMB().NewSMBGlobalMapping(t.Context(), &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: staged, Username: "csi", Password: "csi"})
		return err
	}
	for name, c := range map[string]struct {
		do   func(*simnode.Node) error
		want map[[2]string]float64
	}{
		"offline disk": {func(n *simnode.Node) error {
			d, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Offline: new(true)})
			return errors.Join(err, n.AwaitDisk(d.Number))
		}, map[[2]string]float64{{"csi_proxy_disks", "offline"}: 1, {"csi_proxy_disks", "online"}: 3}},
		"idle mapping": {func(n *simnode.Node) error {
			return errors.Join(mapShare(n), n.SetSMBMappingStatus(share, "disconnected"))
		}, map[[2]string]float64{{"csi_proxy_smb_mappings", "disconnected"}: 1}},
		"pending removal": {func(n *simnode.Node) error {
			err := mapShare(n)
			if _, removed := n.SMB().RemoveSMBGlobalMapping(t.Context(), &smb.RemoveSMBGlobalMappingRequest{RemotePath: share}); removed != nil {
				err = removed
			}
			return err
		}, map[[2]string]float64{{"csi_proxy_smb_mappings", "ok"}: 1, {"csi_proxy_smb_mappings_pending_removal"}: 1}},
	} {
		n := simnode.New(t)
		r := prometheus.NewRegistry()
		r.MustRegister(&node{states: &server.States{Node: n.Disk().(server.Disks).Node(), SMB: n.SMB().(server.Mappings)}})
		if err := c.do(n); err != nil {
			t.Fatal(err)
		}
		got := values(t, r)
		for key, want := range c.want {
			if got[key] != want {
				t.Errorf("%s: %s = %v, want %v", name, key, got[key], want)
			}
		}
	}
}

// A call that hangs is in flight, and is the oldest of its group.
func TestCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := new(calls.Calls)
		for _, pipe := range []string{"csi-proxy-volume-v1", "csi-proxy-volume-v1beta3"} {
			c := &inflight.Call{Pipe: pipe, Started: time.Now()}
			c.Begin(t.Context(), func() {})
			c.SetPhase(inflight.Running, nil)
			all.Start(c, time.Hour, nil)
			time.Sleep(10 * time.Second)
			defer all.End(c)
		}
		r := prometheus.NewRegistry()
		r.MustRegister(&inFlight{groups: []string{"disk", "volume"}, calls: all})
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{
			`csi_proxy_calls_in_flight{group="volume",phase="running"} 2`, `csi_proxy_oldest_call_seconds{group="volume"} 20`,
			`csi_proxy_calls_in_flight{group="disk",phase="running"} 0`, `csi_proxy_oldest_call_seconds{group="disk"} 0`,
		} {
			if !strings.Contains(text.String(), "\n"+want+"\n") {
				t.Errorf("there is no %q in\n%s", want, text.String())
			}
		}
	})
}

// blocked is a collector that waits.
type blocked struct {
	unchecked
	collecting, end chan struct{}
}

// Collect implements [prometheus.Collector].
func (b blocked) Collect(chan<- prometheus.Metric) { b.collecting <- struct{}{}; <-b.end }

// A flood of scrapes does not make the daemon hold the metrics many times.
func TestScrapesAreLimited(t *testing.T) {
	s := New("v0.0.0-test")
	b := blocked{collecting: make(chan struct{}), end: make(chan struct{})}
	s.registry.MustRegister(b)
	scrape := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.metrics(w, nil)
		return w
	}
	codes := make(chan int)
	for range maxScrapes {
		go func() { codes <- scrape().Code }()
		<-b.collecting
	}
	if w := scrape(); w.Code != 503 || w.Body.String() != "4 scrapes run, which is the limit: scrape again later\n" {
		t.Errorf("beyond the limit: %d %s", w.Code, w.Body)
	}
	close(b.end)
	for range maxScrapes {
		if code := <-codes; code != 200 {
			t.Errorf("a scrape within the limit: %d", code)
		}
	}
	go func() { <-b.collecting }()
	if w := scrape(); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// A failure is counted by what has to change. A failed check of health, which has no group, is no
// failure of the API.
func TestFailuresAreCountedByKind(t *testing.T) {
	s := New("test")
	s.Open(serve.Pipes(wire.Disk(nil, nil)), new(calls.Calls), nil)
	var config serve.Config
	s.Count(&config)
	for method, code := range map[string]codes.Code{
		"/grpc.health.v1.Health/Check": codes.NotFound, "/v1.Disk/GetDiskState": codes.Internal, "/v1.Disk/Rescan": codes.Unavailable,
		"/v1beta1.Disk/ListDiskIDs": codes.OK, "/v1beta1.Disk/Rescan": codes.DataLoss,
	} {
		_, _ = config.Count(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			return nil, status.Error(code, "")
		})
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "csi_proxy_failures_total" {
			continue
		}
		for _, m := range f.Metric {
			got[m.Label[0].GetValue()+" "+m.Label[1].GetValue()] = m.Counter.GetValue()
		}
	}
	if want := map[string]float64{"disk node": 2, "disk time": 1, "disk request": 0}; !maps.Equal(got, want) {
		t.Errorf("failures %v, want %v", got, want)
	}
}
