package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile     = chartDir + "/files/rules.yaml"
	dashboardFile = "../../../deploy/grafana/csi-proxy.json"
)

// exported are the series of a daemon by the name that queries have.
type exported map[string][]labels.Labels

// scraped returns the series of a running daemon that serves a simulated node, after a call and one
// that fails.
func scraped(t *testing.T) exported {
	t.Helper()
	programs := programs(t)
	env := append(os.Environ(), "CSI_PROXY_DIR="+t.TempDir())
	daemon := exec.Command(filepath.Join(programs, "csi-proxy-sim"), "-metrics-bind-address=127.0.0.1:0")
	daemon.Env = env
	log, err := daemon.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { daemon.Process.Kill(); daemon.Wait() })
	var url string
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if u := regexp.MustCompile(`http://\S+/metrics`).FindString(lines.Text()); u != "" {
			url = u
		}
		if strings.Contains(lines.Text(), "Serving API") {
			break
		}
	}
	go io.Copy(io.Discard, log)
	for _, call := range [][]string{{"ListDiskIDs"}, {"GetDiskState", "disk_number=99"}} {
		c := exec.Command(filepath.Join(programs, "csi-proxyctl"), append([]string{"call", "disk/v1"}, call...)...)
		c.Env = env
		out, err := c.CombinedOutput()
		if fails := len(call) > 1; (err != nil) != fails {
			t.Fatalf("csi-proxyctl call %v: %v, want a failure: %t\n%s", call, err, fails, out)
		}
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	target := labels.FromStrings("job", "csi-proxy", "instance", "10.0.0.1:9808", "node", "node-1", "cluster", "c")
	all := exported{"up": {target}}
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		found, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			b := labels.NewBuilder(target)
			for name, value := range s.Metric {
				if name != model.MetricNameLabel {
					b.Set(string(name), string(value))
				}
			}
			name := string(s.Metric[model.MetricNameLabel])
			all[name] = append(all[name], b.Labels())
		}
	}
	return all
}

// check returns what a query uses and the daemon does not export: metrics, labels, and values
// of labels.
func (e exported) check(query string) (wrong []error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return []error{err}
	}
	has := func(of []labels.Labels, label string) bool {
		return slices.ContainsFunc(of, func(l labels.Labels) bool { return l.Has(label) })
	}
	// selected returns the series of all selectors in a part of the query.
	selected := func(part parser.Node) (all []labels.Labels) {
		parser.Inspect(part, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				all = append(all, e[s.Name]...)
			}
			return nil
		})
		return all
	}
	need := func(part parser.Node, names []string) {
		for _, label := range names {
			if !has(selected(part), label) {
				wrong = append(wrong, fmt.Errorf("no series of %s has the label %s", part, label))
			}
		}
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			series := e[n.Name]
			if series == nil {
				wrong = append(wrong, fmt.Errorf("the daemon exports no %s", n.Name))
				break
			}
			for _, m := range n.LabelMatchers {
				if m.Name == model.MetricNameLabel {
					continue
				}
				if !has(series, m.Name) {
					wrong = append(wrong, fmt.Errorf("%s has no label %s", n.Name, m.Name))
				} else if !slices.ContainsFunc(series, func(l labels.Labels) bool { return m.Matches(l.Get(m.Name)) }) {
					wrong = append(wrong, fmt.Errorf("no series of %s matches %s", n.Name, m))
				}
			}
		case *parser.AggregateExpr:
			need(n, n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				need(n.LHS, n.VectorMatching.MatchingLabels)
				need(n.RHS, n.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
	return wrong
}

// alerts returns the alerts by name, after Prometheus' own reader has read their file.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	for _, err := range errs {
		t.Error(err)
	}
	all := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r
		}
	}
	return all
}

// A panel of the dashboard.
type panel struct {
	Title, Type string
	Links       []struct{ URL string }
	Targets     []struct{ Expr string }
}

// dashboard returns the panels of the dashboard, and all queries: theirs and those of the
// variables.
func dashboard(t *testing.T) (panels []panel, queries []string) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, v := range dashboard.Templating.List {
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query); m != nil {
			queries = append(queries, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]))
		}
	}
	// As Grafana replaces them.
	variables := strings.NewReplacer("$__rate_interval", "4m", "$cluster", ".*", "$job", "csi-proxy", "$instance", ".*")
	for _, p := range dashboard.Panels {
		for i := range p.Targets {
			p.Targets[i].Expr = variables.Replace(p.Targets[i].Expr)
			queries = append(queries, p.Targets[i].Expr)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
	}
	return dashboard.Panels, queries
}

// What alerts and the dashboard ask for is what a daemon exports.
func TestQueriesAreOfExportedSeries(t *testing.T) {
	series := scraped(t)
	queries := 0
	for name, r := range alerts(t) {
		queries++
		for _, err := range series.check(r.Expr) {
			t.Errorf("alert %s: %v", name, err)
		}
	}
	_, all := dashboard(t)
	for _, query := range all {
		queries++
		for _, err := range series.check(query) {
			t.Errorf("dashboard: %s: %v", query, err)
		}
	}
	t.Logf("%d queries on %d metrics", queries, len(series))

	// What is wrong is found.
	for query, want := range map[string]string{
		`rate(csi_proxy_calls_lost_total[5m])`:                        "exports no csi_proxy_calls_lost_total",
		`csi_proxy_disks{disk="1"}`:                                   "csi_proxy_disks has no label disk",
		`csi_proxy_disks{state="broken"}`:                             `no series of csi_proxy_disks matches state="broken"`,
		`sum by (volume) (csi_proxy_disks)`:                           "has the label volume",
		`csi_proxy_ready and on (zone) csi_proxy_build_info`:          "has the label zone",
		`sum by (state) (csi_proxy_disks`:                             "unclosed left parenthesis",
		`grpc_server_handled_total{grpc_code="OK",grpc_service="v7"}`: `matches grpc_service="v7"`,
	} {
		if found := fmt.Sprint(series.check(query)); !strings.Contains(found, want) {
			t.Errorf("%s: found %s, want %q", query, found, want)
		}
	}
}

// scrapes are the samples of a Prometheus in memory.
type scrapes []promql.Series

// load parses series in the notation of promtool's tests, for a Prometheus that scrapes each minute.
func load(t *testing.T, text string) (all scrapes) {
	t.Helper()
	for line := range strings.Lines(text) {
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		series := promql.Series{Metric: metric}
		for minute, v := range values {
			if !v.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: int64(minute) * time.Minute.Milliseconds(), F: v.Value})
			}
		}
		all = append(all, series)
	}
	return all
}

func (all scrapes) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: all.matching}, nil
}

func (all scrapes) matching(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{at: -1}
	for _, s := range all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
			found.series = append(found.series, s)
		}
	}
	return found
}

// seriesSet is a list of series as a query reads it.
type seriesSet struct {
	series scrapes
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.series[s.at]) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// firing returns the summaries of the alerts that fire after a time.
func firing(t *testing.T, name string, r rulefmt.Rule, text string, after time.Duration) (summaries []string) {
	t.Helper()
	series := load(t, text)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Hour, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	since := map[string]time.Duration{} // when each began to be true
	for at := time.Duration(0); at <= after; at += time.Minute {
		q, err := engine.NewInstantQuery(context.Background(), series, nil, r.Expr, time.Unix(0, 0).Add(at))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found, err := q.Exec(context.Background()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		summaries = nil
		now := map[string]time.Duration{}
		for _, s := range found {
			key := s.Metric.String()
			now[key] = at
			if begin, ok := since[key]; ok {
				now[key] = begin
			}
			if at-now[key] >= time.Duration(r.For) {
				summaries = append(summaries, expand(t, r.Annotations["summary"], s))
			}
		}
		since = now
		q.Close()
	}
	return summaries
}

// expand expands a text of an alert, as Prometheus does.
func expand(t *testing.T, text string, s promql.Sample) string {
	t.Helper()
	data := template.AlertTemplateData(s.Metric.Map(), nil, "", s)
	expander := template.NewTemplateExpander(context.Background(), "{{$labels := .Labels}}{{$value := .Value}}"+text, "alert", data, 0, nil, &url.URL{}, nil)
	out, err := expander.Expand()
	if err != nil {
		t.Errorf("%q: %v", text, err)
	}
	return out
}

// Each alert fires when its node is broken, for that node alone, and not before.
func TestAlerts(t *testing.T) {
	for _, of := range []string{`job="csi-proxy",instance="`, `cluster="c",instance="10.0.0.1:9808",job="csi-proxy",node="`} {
		testAlerts(t, of)
	}
}

// testAlerts does so for series whose labels end with the name of the node.
func testAlerts(t *testing.T, of string) {
	tests := map[string]struct {
		broken, healthy string // the value of the series over 2 hours
		series          []string
		after           time.Duration // when it fires
		want            string        // the summary
	}{
		"CSIProxyDown":              {"1x10 0x110", "1x120", []string{"up{%s}"}, 16 * time.Minute, "CSI Proxy on bad does not answer."},
		"CSIProxyRestarts":          {"1x10 2x10 3x10 4x90", "1x60 2x60", []string{"process_start_time_seconds{%s}"}, 33 * time.Minute, "CSI Proxy on bad has started 3 times within an hour."},
		"CSIProxyPipesNotServed":    {"0x120", "0x3 1x120", []string{"csi_proxy_ready{%s}"}, 5 * time.Minute, "CSI Proxy on bad runs, but serves no pipes."},
		"CSIProxyOverloaded":        {"0+1x120", "0x20 1x100", []string{`csi_proxy_calls_refused_total{group="volume",%s}`}, 6 * time.Minute, "CSI Proxy on bad refuses calls or connections of volume."},
		"CSIProxyCallHangs":         {"0+60x120", "0+60x10 0+60x10 0x100", []string{`csi_proxy_oldest_call_seconds{group="disk",%s}`}, 16 * time.Minute, "A call of disk on bad has not finished for 16m 0s."},
		"CSIProxyFails":             {"0x1 1x120", "0x120", []string{`csi_proxy_failures_total{group="volume",kind="node",%s}`}, 7 * time.Minute, "Calls of volume fail on bad."},
		"CSIProxyDiskDoesNotAnswer": {"1x120", "0x1 1x5 0x120", []string{`csi_proxy_disks{state="unanswered",%s}`}, 10 * time.Minute, "A disk of bad does not answer."},
		"CSIProxyMappingsBroken":    {"1x120", "0x1 1x9 0x110", []string{`csi_proxy_smb_mappings{state="network-error",%s}`}, 15 * time.Minute, "SMB mappings of bad do not work."},
	}
	rules := alerts(t)
	for name := range rules {
		if _, ok := tests[name]; !ok {
			t.Errorf("the alert %s has no test", name)
		}
	}
	for name, test := range tests {
		r, ok := rules[name]
		if !ok {
			t.Errorf("there is no alert %s", name)
			continue
		}
		var series strings.Builder
		for node, values := range map[string]string{"bad": test.broken, "good": test.healthy} {
			for _, s := range append(test.series, "csi_proxy_build_info{%s}") {
				v := values
				if strings.HasPrefix(s, "csi_proxy_build_info") {
					v = "1x10" // then it is stale, as when a daemon is gone
					if name != "CSIProxyDown" {
						v = "1x120"
					}
				}
				fmt.Fprintf(&series, "  %s %s\n", fmt.Sprintf(s, of+node+`"`), v)
			}
		}
		if got := firing(t, name, r, series.String(), test.after); !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s: after %v these fire: %q, want %q", name, test.after, got, test.want)
		} else {
			t.Logf("%s fires after %v: %s", name, test.after, got[0])
		}
		if got := firing(t, name, r, series.String(), test.after-time.Minute); got != nil {
			t.Errorf("%s: a minute before, these fire: %q", name, got)
		}
		if got := firing(t, name, r, strings.ReplaceAll(series.String(), test.broken, test.healthy), test.after); got != nil {
			t.Errorf("%s: on two healthy nodes these fire: %q", name, got)
		}
	}
	// A daemon that stays down does not become one that was never there, and one that is down
	// between two crashes still restarts too often.
	for name, series := range map[string][2]string{
		"CSIProxyDown":     {"up{%s} 1x10 0x2000", "csi_proxy_build_info{%s} 1x10"},
		"CSIProxyRestarts": {"process_start_time_seconds{%s} 1x10 2x10 3x10 4x2", "csi_proxy_build_info{%s} 1x35"},
	} {
		after := map[string]time.Duration{"CSIProxyDown": 30 * time.Hour, "CSIProxyRestarts": 50 * time.Minute}[name]
		lines := fmt.Sprintf("  "+series[0]+"\n  "+series[1]+"\n", of+`bad"`, of+`bad"`)
		if got := firing(t, name, rules[name], lines, after); len(got) != 1 {
			t.Errorf("%s: %v after the start these fire: %q, want one", name, after, got)
		}
	}
	// Connections are overload of their own.
	if got := firing(t, "CSIProxyOverloaded", rules["CSIProxyOverloaded"], `  csi_proxy_connections_closed_total{group="disk",reason="refused",`+of+"bad\"} 0+1x120\n", 6*time.Minute); len(got) != 1 {
		t.Errorf("CSIProxyOverloaded: while connections are closed these fire: %q, want one", got)
	}
	// A share that cannot be reached: its mapping may look idle, and the kubelet asks again and again.
	failures := func(values string) string {
		return `  csi_proxy_failures_total{group="smb",kind="time",` + of + "bad\"} " + values + "\n"
	}
	if got := firing(t, "CSIProxyMappingsBroken", rules["CSIProxyMappingsBroken"], failures("0+1x120"), time.Hour); len(got) != 1 {
		t.Errorf("CSIProxyMappingsBroken: while calls about a share fail these fire: %q, want one", got)
	}
	if got := firing(t, "CSIProxyMappingsBroken", rules["CSIProxyMappingsBroken"], failures("0x30 1+1x3 5x80"), 44*time.Minute); got != nil {
		t.Errorf("CSIProxyMappingsBroken: after a few failures these fire: %q", got)
	}
	// Windows disconnects idle mappings, which is no fault of the node.
	if got := firing(t, "CSIProxyMappingsBroken", rules["CSIProxyMappingsBroken"], `  csi_proxy_smb_mappings{state="disconnected",`+of+"idle\"} 3x120\n", time.Hour); got != nil {
		t.Errorf("on a node with idle mappings these fire: %q", got)
	}
	// A node that was removed is no alert.
	if got := firing(t, "CSIProxyDown", rules["CSIProxyDown"], "  up{"+of+"gone\"} 1x10 _x110\n  csi_proxy_build_info{"+of+"gone\"} 1x10 _x110\n", 30*time.Minute); got != nil {
		t.Errorf("after a node was removed these fire: %q", got)
	}
}

// The page and the part of it that an alert or a panel links to exist.
func TestRunbooksExist(t *testing.T) {
	const pages = "https://github.com/kubernetes-csi/csi-proxy/blob/master/"
	urls := map[string]string{}
	for name, r := range alerts(t) {
		urls[name] = r.Annotations["runbook_url"]
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s has no summary, description or severity", name)
		}
	}
	panels, _ := dashboard(t)
	for _, p := range panels {
		for _, l := range p.Links {
			urls[p.Title] = l.URL
		}
	}
	if len(urls) < 15 {
		t.Errorf("%d alerts and panels link to what to do, want more", len(urls))
	}
	for name, url := range urls {
		page, part, _ := strings.Cut(strings.TrimPrefix(url, pages), "#")
		text, err := os.ReadFile(filepath.Join("../../..", page))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var parts []string
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			parts = append(parts, strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
		}
		if !slices.Contains(parts, part) {
			t.Errorf("%s: %s has no part %q, only %q", name, page, part, parts)
		}
	}
}

// The chart makes a PrometheusRule of the same file, where that is wanted.
func TestChartHasTheRules(t *testing.T) {
	const kind = "monitoring.coreos.com/v1/PrometheusRule"
	given := withImage()
	if files := mustRender(t, given, kind); files["prometheusrule.yaml"] != "" {
		t.Error("there are rules by default")
	}
	given["metrics"] = values{"enabled": true, "rules": values{"enabled": true, "labels": values{"release": "prometheus"}}}
	if files := mustRender(t, given); files["prometheusrule.yaml"] != "" {
		t.Error("there are rules in a cluster that does not have the kind")
	}
	docs := documents(t, mustRender(t, given, kind)["prometheusrule.yaml"])
	if len(docs) != 1 {
		t.Fatalf("%d objects", len(docs))
	}
	var object struct {
		Kind     string
		Metadata struct{ Labels map[string]string }
		Spec     any
	}
	var want any
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]any{string(docs[0]): &object, string(text): &want} {
		if err := yaml.Unmarshal([]byte(from), to); err != nil {
			t.Fatal(err)
		}
	}
	if object.Metadata.Labels["release"] != "prometheus" || object.Metadata.Labels["app.kubernetes.io/name"] == "" {
		t.Errorf("the labels are %q, want those of the chart and of the values", object.Metadata.Labels)
	}
	if object.Kind != "PrometheusRule" || !reflect.DeepEqual(object.Spec, want) {
		t.Errorf("%s with\n%v\nwant the rules\n%v", object.Kind, object.Spec, want)
	}
}
