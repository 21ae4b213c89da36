package deploy

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

const (
	pictureFile = "../../../docs/run/dashboard.svg"
	fleetNodes  = 200
	fleetTime   = time.Hour
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

// Of 200 nodes exactly the five sick ones have alerts, and each panel of the dashboard has data. The
// picture in docs/ is what the panels' queries return. Flag -update draws it.
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

	drawing := draw(t, series)
	if *update {
		if err := os.WriteFile(pictureFile, []byte(drawing), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(pictureFile); err != nil || string(have) != drawing {
		t.Errorf("%s is not what the dashboard's queries return (%v); run make generate", pictureFile, err)
	}
}

// draw draws the panels of the dashboard as SVG.
func draw(t *testing.T, series storage.Queryable) string {
	t.Helper()
	const width, height, columns = 300, 150, 4
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 10_000_000)
	var out strings.Builder
	column, y := 0, 10
	panels, _ := dashboard(t)
	for _, p := range panels {
		if p.Type == "row" {
			if column > 0 {
				column, y = 0, y+height
			}
			y += 26
			fmt.Fprintf(&out, "<text x=\"10\" y=\"%d\" font-weight=\"600\">%s</text>\n", y-6, html.EscapeString(p.Title))
			continue
		}
		var lines promql.Matrix
		var names []string
		for _, target := range p.Targets {
			q, err := engine.NewRangeQuery(context.Background(), series, nil, target.Expr, time.Unix(0, 0), time.Unix(0, 0).Add(fleetTime), 2*time.Minute)
			if err != nil {
				t.Fatalf("%s: %v", target.Expr, err)
			}
			found, err := q.Exec(context.Background()).Matrix()
			if err != nil {
				t.Fatalf("%s: %v", target.Expr, err)
			}
			for _, s := range found {
				lines = append(lines, s)
				names = append(names, legend(target.LegendFormat, s))
			}
			defer q.Close() // it keeps the points until they are drawn
		}
		// What is sick on no node of this fleet.
		if empty := p.Title == "Nodes that wait for the pipes" || p.Title == "Starts per hour"; (len(lines) == 0) != empty || len(lines) > 12 && strings.Contains(p.Targets[0].LegendFormat, "{{node}}") {
			t.Errorf("the panel %q has %d lines", p.Title, len(lines))
		}
		x := 10 + column*width
		fmt.Fprintf(&out, "<g transform=\"translate(%d %d)\"><rect width=\"%d\" height=\"%d\" class=\"p\"/><text x=\"8\" y=\"16\">%s</text>\n", x, y, width-10, height-10, html.EscapeString(p.Title))
		plot(&out, lines, names)
		out.WriteString("</g>\n")
		if column++; column == columns {
			column, y = 0, y+height
		}
	}
	if column > 0 {
		y += height
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="The dashboard's panels, drawn from their queries over an hour of %d simulated nodes">
<!-- Drawn by make generate from the queries of deploy/grafana/csi-proxy.json. -->
<style>.p { fill: #f6f8fa; stroke: #d0d7de } polyline { fill: none; stroke-width: 1.5 } .l { font-size: 10px }</style>
%s</svg>
`, columns*width+10, y+10, fleetNodes, out.String())
}

// plot draws lines and the names of the first ones.
func plot(out *strings.Builder, lines promql.Matrix, names []string) {
	const left, right, top, bottom, most = 34.0, 280.0, 26.0, 88.0, 3
	colors := []string{"#0969da", "#cf222e", "#1a7f37", "#9a6700"}
	highest := 0.0
	for _, s := range lines {
		for _, f := range s.Floats {
			highest = math.Max(highest, f.F)
		}
	}
	if len(lines) == 0 {
		out.WriteString("<text x=\"120\" y=\"70\" fill=\"#57606a\">no line</text>\n")
		return
	}
	highest = math.Max(highest, 1e-9)
	fmt.Fprintf(out, "<text class=\"l\" x=\"4\" y=\"%g\">%.4g</text><text class=\"l\" x=\"4\" y=\"%g\">0</text>\n", top+8, highest, bottom)
	for i, s := range lines {
		var points []string
		at := func(f promql.FPoint) string {
			share := float64(f.T) / float64(fleetTime.Milliseconds())
			return fmt.Sprintf("%.0f,%.1f", left+share*(right-left), bottom-f.F/highest*(bottom-top))
		}
		for j, f := range s.Floats {
			if j > 0 && j < len(s.Floats)-1 && s.Floats[j-1].F == f.F && s.Floats[j+1].F == f.F {
				continue // on the line between its neighbours
			}
			points = append(points, at(f))
		}
		color := colors[i%len(colors)]
		fmt.Fprintf(out, "<polyline stroke=\"%s\" points=\"%s\"/>\n", color, strings.Join(points, " "))
		if i < most {
			fmt.Fprintf(out, "<text class=\"l\" x=\"8\" y=\"%d\" fill=\"%s\">%s</text>\n", 104+i*13, color, html.EscapeString(names[i]))
		}
	}
	if len(lines) > most {
		fmt.Fprintf(out, "<text class=\"l\" x=\"220\" y=\"130\" fill=\"#57606a\">and %d more</text>\n", len(lines)-most)
	}
}

// legend returns a series' name, by the format of the dashboard.
func legend(format string, s promql.Series) string {
	for name, value := range s.Metric.Map() {
		format = strings.ReplaceAll(format, "{{"+name+"}}", value)
	}
	return format
}
