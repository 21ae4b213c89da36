package deploy

import (
	"context"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

const (
	pictureFile = "../../../docs/run/dashboard.svg"
	fleetNodes  = 200
	fleetTime   = time.Hour
)

// fleet is an hour of 200 nodes, scraped each minute, in the notation of Prometheus' tests. Five
// of them are sick after a while. The other series are what a healthy node has: an offline disk,
// idle mappings, pending removals, and requests that fail by their own fault.
func fleet() string {
	var all strings.Builder
	for n := 1; n <= fleetNodes; n++ {
		of := fmt.Sprintf(`cluster="c",instance="10.0.%d.%d:9808",job="csi-proxy",node="node-%03d"`, n/100, n%100, n)
		add := func(metric, labels, values string) {
			if labels != "" {
				labels += ","
			}
			fmt.Fprintf(&all, "  %s{%s%s} %s\n", metric, labels, of, values)
		}
		is := func(sick int, values, healthy string) string {
			if n == sick {
				return values
			}
			return healthy
		}
		const down, disk, share, queue, fails = 17, 42, 77, 104, 150
		add("up", "", is(down, "1x20 0x40", "1x60"))
		version := "v2.0.0"
		if n <= 20 {
			version = "v2.0.1"
		}
		life := is(down, "x20 _x40", "x60")
		add("csi_proxy_build_info", `goversion="go1.26",version="`+version+`"`, "1"+life)
		add("process_start_time_seconds", "", "1"+life)
		add("csi_proxy_ready", "", "1"+life)
		add("csi_proxy_node_answered", `question="disks"`, "1"+life)
		add("csi_proxy_node_answered", `question="smb_mappings"`, "1"+life)
		add("csi_proxy_disks", `state="online"`, is(disk, "4x15 3x45", "4"+life))
		add("csi_proxy_disks", `state="offline"`, is(120, "1x60", "0"+life))
		add("csi_proxy_disks", `state="read-only"`, "0"+life)
		add("csi_proxy_disks", `state="unanswered"`, is(disk, "0x15 1x45", "0"+life))
		add("csi_proxy_smb_mappings", `state="ok"`, is(share, "3x10 1x50", "3"+life))
		add("csi_proxy_smb_mappings", `state="network-error"`, is(share, "0x10 2x50", "0"+life))
		add("csi_proxy_smb_mappings", `state="disconnected"`, is(30, "0x20 1x40", "0"+life))
		add("csi_proxy_smb_mappings_pending_removal", "", is(60, "1x60", "0"+life))
		for _, group := range []string{"disk", "smb", "volume"} {
			sick := func(node int, values string) string {
				if group == "volume" {
					return is(node, values, "0"+life)
				}
				return "0" + life
			}
			add("csi_proxy_calls_in_flight", `phase="queued",group="`+group+`"`, sick(queue, "0x20 0+4x10 40x30"))
			add("csi_proxy_oldest_call_seconds", `group="`+group+`"`, sick(queue, "0x20 0+60x40"))
			add("csi_proxy_calls_refused_total", `group="`+group+`"`, sick(queue, "0x30 0+6x30"))
			add("csi_proxy_connections_closed_total", `reason="refused",group="`+group+`"`, "0"+life)
			add("csi_proxy_connections_closed_total", `reason="replaced",group="`+group+`"`, "0"+life)
			add("csi_proxy_failures_total", `kind="node",group="`+group+`"`, sick(fails, "0x25 1+1x35"))
			add("csi_proxy_failures_total", `kind="request",group="`+group+`"`, "0+1"+life)
		}
		for i, method := range []string{"v1.Disk/ListDiskLocations", "v1.Volume/FormatVolume", "v1.Volume/MountVolume"} {
			service, name, _ := strings.Cut(method, "/")
			m := fmt.Sprintf(`grpc_type="unary",grpc_service="%s",grpc_method="%s"`, service, name)
			add("grpc_server_handled_total", `grpc_code="OK",`+m, fmt.Sprintf("0+%d%s", 3-i, life))
			if n == fails && name == "FormatVolume" {
				add("grpc_server_handled_total", `grpc_code="Internal",`+m, "_x25 1+1x35")
			}
			for le, part := range map[string]int{"0.1": 1, "1": 2 + i%2, "30": 3, "+Inf": 3} {
				add("grpc_server_handling_seconds_bucket", `le="`+le+`",`+m, fmt.Sprintf("0+%d%s", part*(3-i), life))
			}
			add("csi_proxy_call_seconds_total", `phase="running",`+m, "0+0.3"+life)
			add("csi_proxy_call_seconds_total", `phase="queued",`+m, "0"+life)
		}
		for i, call := range []string{"CreateFile", "DeviceIoControl"} {
			c := `call="` + call + `"`
			add("csi_proxy_win32_calls_total", c, fmt.Sprintf("0+%d%s", 40+20*i, life))
			add("csi_proxy_win32_errors_total", c, fmt.Sprintf("0+%d%s", 2*i, life))
			add("csi_proxy_win32_seconds_total", c, fmt.Sprintf("0+0.0%d%s", 1+2*i, life))
			add("csi_proxy_win32_calls_in_flight", c, is(queue, fmt.Sprintf("0x20 %dx40", 32*i), "0"+life))
		}
	}
	return all.String()
}

// Of 200 nodes exactly the five sick ones have alerts, and each panel of the dashboard has data. The
// picture in docs/ is what the panels' queries return. Flag -update draws it.
func TestFleet(t *testing.T) {
	series := promqltest.LoadedStorage(t, "load 1m\n"+fleet())
	var fired []string
	for name, r := range alerts(t) {
		for _, summary := range firingIn(t, series, name, r, fleetTime) {
			fired = append(fired, name+": "+summary)
		}
	}
	slices.Sort(fired)
	want := []string{
		"CSIProxyCallHangs: A call of volume on node-104 has not finished for 39m 0s.",
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
		if empty := p.Title == "Nodes that wait for the pipes" || p.Title == "Starts per hour"; (len(lines) == 0) != empty || len(lines) > 12 {
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
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="The dashboard's panels, drawn from their queries over an hour of %d modelled nodes">
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
