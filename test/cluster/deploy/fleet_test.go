package deploy

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

const (
	fleetNodes = 200
	fleetTime  = time.Hour
)

// sick are the nodes of the fleet that are not as most are: five of them are sick after a while. The
// others have what a healthy node may have: an offline disk, an idle mapping, a pending removal.
var sick = map[int]string{17: down, 42: "disk", 77: "share", 104: "queue", 150: "fails", 120: "offline", 30: "idle", 60: "pending"}

// down is a node that is gone after downAfter scrapes.
const (
	down      = "down"
	downAfter = 20
)

// fleet returns what Prometheus has of an hour of 200 nodes. TestFleet of cmd/internal/metrics runs
// csi-proxy over a simulated node of each kind and records what it returns to a scrape each minute;
// here it is of every node of the kind, by its labels. Not of the recording are up, and what depends
// on the machine that recorded: the start of the process and the version of Go.
func fleet(t *testing.T) storage.Queryable {
	t.Helper()
	recording := t.TempDir()
	record := exec.Command("go", "test", "-count=1", "-vet=off", programTags, "./internal/metrics", "-run=^TestFleet$", "-record="+recording)
	record.Dir = "../../../cmd"
	record.Env = append(os.Environ(), "GOWORK=")
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("record the fleet: %v\n%s", err, out)
	}
	series := promqltest.LoadedStorage(t, "")
	for minute := range int(fleetTime/time.Minute) + 1 {
		scrapes := map[string][]sample{}
		at := series.Appender(t.Context())
		for n := 1; n <= fleetNodes; n++ {
			kind := cmp.Or(sick[n], []string{"ebs", "smb"}[n%2])
			target := labels.FromStrings("cluster", "c", "instance", fmt.Sprintf("10.0.%d.%d:9808", n/100, n%100), "job", "csi-proxy", "node", fmt.Sprintf("node-%03d", n))
			from, up := kind, 1.0
			if kind == down {
				if from = "ebs"; minute > downAfter {
					from, up = "", 0
				}
			}
			if _, ok := scrapes[from]; !ok && from != "" {
				scrapes[from] = scrapeOf(t, filepath.Join(recording, fmt.Sprintf("%s-%02d", from, minute)))
			}
			for _, s := range append(scrapes[from], sample{"up", nil, up}) {
				b := labels.NewBuilder(target).Set(model.MetricNameLabel, s.name)
				for name, value := range s.labels {
					b.Set(name, value)
				}
				switch s.name {
				case "process_start_time_seconds":
					s.value = 1
				case "csi_proxy_build_info":
					b.Set("goversion", "go1.26")
				}
				if _, err := at.Append(0, b.Labels(), int64(minute)*time.Minute.Milliseconds(), s.value); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := at.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return series
}

// scrapeOf returns the samples of a recorded scrape that are of csi-proxy.
func scrapeOf(t *testing.T, file string) []sample {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.DeleteFunc(samples(t, f), func(s sample) bool {
		return strings.HasPrefix(s.name, "go_") || strings.HasPrefix(s.name, "process_") && s.name != "process_start_time_seconds"
	})
}

// Of 200 nodes exactly the five sick ones have alerts, and each panel of the dashboard has data.
func TestFleet(t *testing.T) {
	series := fleet(t)
	var fired []string
	for name, r := range alerts(t) {
		for _, summary := range firingIn(t, series, name, r, fleetTime) {
			fired = append(fired, name+": "+summary)
		}
	}
	slices.Sort(fired)
	want := []string{
		"CSIProxyCallHangs: A call of volume on node-104 has not finished for 41m 16s.",
		"CSIProxyDiskDoesNotAnswer: A disk of node-042 does not answer.",
		"CSIProxyDown: CSI Proxy on node-017 does not answer.",
		"CSIProxyFails: Calls of volume fail on node-150.",
		"CSIProxyMappingsBroken: SMB mappings of node-077 do not work.",
		"CSIProxyOverloaded: CSI Proxy on node-104 refuses calls or connections of volume.",
	}
	if !slices.Equal(fired, want) {
		t.Errorf("these alerts fire:\n%s\nwant\n%s", strings.Join(fired, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("of %d nodes these have alerts:\n%s", fleetNodes, strings.Join(fired, "\n"))

	panelsHaveData(t, series)
}

// panelsHaveData asks each panel's queries for an hour of the fleet. A panel that has a line for each
// node has few lines.
func panelsHaveData(t *testing.T, series storage.Queryable) {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 10_000_000)
	panels, _ := dashboard(t)
	for _, p := range panels {
		if p.Type == "row" {
			continue
		}
		lines := 0
		for _, target := range p.Targets {
			q, err := engine.NewRangeQuery(t.Context(), series, nil, target.Expr, time.Unix(0, 0), time.Unix(0, 0).Add(fleetTime), 2*time.Minute)
			if err != nil {
				t.Fatalf("%s: %v", target.Expr, err)
			}
			found, err := q.Exec(t.Context()).Matrix()
			if err != nil {
				t.Fatalf("%s: %v", target.Expr, err)
			}
			lines += len(found)
			q.Close()
		}
		// What is sick on no node of this fleet.
		if empty := p.Title == "Nodes that wait for the pipes" || p.Title == "Starts per hour"; (lines == 0) != empty || lines > 12 && strings.Contains(p.Targets[0].LegendFormat, "{{node}}") {
			t.Errorf("the panel %q has %d lines", p.Title, lines)
		}
	}
}
