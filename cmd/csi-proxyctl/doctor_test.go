package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
)

// answers returns pipes of disk/v1beta1, disk/v1beta2 ... with these results.
func answers(all ...probed) []probed {
	for i := range all {
		all[i].api = api{group: "disk", version: apiversion.NewVersionOrPanic(fmt.Sprintf("v1beta%d", i+1))}
	}
	return all
}

func TestExaminePipes(t *testing.T) {
	for _, c := range []struct {
		name  string
		pipes []probed
		want  []string // result and text, in order
	}{
		{"all served", answers(probed{}, probed{}), []string{"ok 2 of 2 versions of the API are served"}},
		{"crowded", answers(probed{detail: "has too many callers: it refused 3 connections and 4 calls within 5s", refuses: true}), []string{"ok 1 of 1 versions of the API are served", "problem disk/v1beta1 has too many callers: it refused 3 connections and 4 calls within 5s"}},
		{"not running", answers(probed{state: absent}), []string{"problem csi-proxy is not running: no pipe exists"}},
		{"killed", answers(probed{state: stale}, probed{state: stale}), []string{"problem csi-proxy was killed: all its 2 sockets are left, and none answers"}},
		{"killed, with one version", answers(probed{state: stale}, probed{state: absent}), []string{"problem csi-proxy was killed: its socket is left, and does not answer"}},
		{"an older csi-proxy", answers(probed{server: "csi-proxy v1"}, probed{state: absent}), []string{"ok 1 of 2 versions of the API are served", "note missing: disk/v1beta2"}},
		{"missing version", answers(probed{server: "csi-proxy v2"}, probed{state: absent}), []string{"ok 1 of 2 versions of the API are served", "problem missing: disk/v1beta2"}},
		{"not an administrator", answers(probed{state: refused}, probed{state: refused}), []string{"problem access denied: disk/v1beta1, disk/v1beta2"}},
		{"left out", answers(probed{serves: []string{"csi-proxy-disk-v1beta1"}, server: "csi-proxy v2"}, probed{state: absent}), []string{"ok 1 of 2 versions of the API are served", "note -enable-api leaves out disk/v1beta2"}},
		{"not left out", answers(probed{serves: []string{"csi-proxy-disk-v1beta1", "csi-proxy-disk-v1beta2"}, server: "csi-proxy v2"}, probed{state: absent}), []string{"ok 1 of 2 versions of the API are served", "problem missing: disk/v1beta2"}},
		{"read only", answers(probed{readOnly: true}), []string{"ok 1 of 1 versions of the API are served", "note csi-proxy refuses every change: it was started with -read-only-api"}},
		{"one socket left", answers(probed{}, probed{state: stale}), []string{"ok 1 of 2 versions of the API are served", "problem no process listens on the sockets of disk/v1beta2, although csi-proxy serves the others"}},
		{"none answers", answers(probed{state: unhealthy, late: true}, probed{state: absent}), []string{"problem " + noAnswer}},
		{"one hangs", answers(probed{}, probed{state: unhealthy, detail: "context deadline exceeded"}), []string{"ok 1 of 2 versions of the API are served", "problem disk/v1beta2: context deadline exceeded"}},
		{"all hang", answers(probed{state: unhealthy, detail: "context deadline exceeded"}, probed{state: unhealthy, detail: "context deadline exceeded"}),
			[]string{"problem disk/v1beta1, disk/v1beta2: context deadline exceeded"}},
	} {
		var got []string
		for _, f := range examinePipes(c.pipes, "v2", nil) {
			got = append(got, f.Result+" "+f.What)
			if f.Result == resultProblem && f.Hint == "" {
				t.Errorf("%s: %q has no hint", c.name, f.What)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// If csi-proxy has ended, the reader needs to know where to find the reason.
func TestStartHint(t *testing.T) {
	hint := startHint("windows", "csiproxy", []string{`C:\csi\csi-proxy.log`})
	for _, want := range []string{"sc.exe start csiproxy", `its log (C:\csi\csi-proxy.log)`, "-crash.log", "event log Application, source csiproxy"} {
		if !strings.Contains(hint, want) {
			t.Errorf("%q has no %q", hint, want)
		}
	}
	if hint := startHint("windows", "csiproxy", nil); strings.Contains(hint, "()") || !strings.Contains(hint, "its log,") {
		t.Errorf("without a service: %q", hint)
	}
}

func TestExamineBuilds(t *testing.T) {
	for _, c := range []struct {
		name         string
		pipes        []probed
		result, text string
	}{
		{"one release", answers(probed{server: "csi-proxy v2"}, probed{server: "csi-proxy v2"}), resultOK, "csi-proxy v2, same release as csi-proxyctl"},
		{"another release", answers(probed{server: "csi-proxy v1"}), resultNote, "csi-proxy v1 is running, but this is csi-proxyctl v2"},
		{"the published csi-proxy", answers(probed{}), resultNote, "a csi-proxy of unknown version"},
		{"two at once", answers(probed{server: "csi-proxy v1"}, probed{server: "csi-proxy v2"}, probed{state: absent}), resultProblem,
			"csi-proxy v1 serves disk/v1beta1; csi-proxy v2 serves disk/v1beta2"},
	} {
		got := examineBuilds(c.pipes, "v2")
		if len(got) != 1 || got[0].Result != c.result || !strings.Contains(got[0].What, c.text) {
			t.Errorf("%s: %+v, want %s with %q", c.name, got, c.result, c.text)
		}
	}
}
