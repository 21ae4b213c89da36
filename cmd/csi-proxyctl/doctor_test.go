package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
)

// answers are pipes of disk/v1alpha1, disk/v1beta1 ... that answer like this.
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
		{"all answer", answers(probed{}, probed{}), []string{"ok 2 of 2 versions of the API answer"}},
		{"nobody", answers(probed{state: absent}), []string{"problem csi-proxy does not run: there is no pipe"}},
		{"an older csi-proxy", answers(probed{server: "csi-proxy v1"}, probed{state: absent}), []string{"ok 1 of 2 versions of the API answer", "note not there: disk/v1beta2"}},
		{"one that does not serve all", answers(probed{server: "csi-proxy v2"}, probed{state: absent}), []string{"ok 1 of 2 versions of the API answer", "problem not there: disk/v1beta2"}},
		{"not an administrator", answers(probed{state: refused}, probed{state: refused}), []string{"problem access is denied: disk/v1beta1, disk/v1beta2"}},
		{"one hangs", answers(probed{}, probed{state: ill, detail: "context deadline exceeded"}), []string{"ok 1 of 2 versions of the API answer", "problem disk/v1beta2: context deadline exceeded"}},
	} {
		var got []string
		for _, f := range examinePipes(c.pipes, "v2") {
			got = append(got, f.Result+" "+f.What)
			if f.Result == resultProblem && f.Hint == "" {
				t.Errorf("%s: %q does not say what to do", c.name, f.What)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestExamineBuilds(t *testing.T) {
	for _, c := range []struct {
		name         string
		pipes        []probed
		result, text string
	}{
		{"one release", answers(probed{server: "csi-proxy v2"}, probed{server: "csi-proxy v2"}), resultOK, "csi-proxy v2, and csi-proxyctl"},
		{"another release", answers(probed{server: "csi-proxy v1"}), resultNote, "csi-proxy v1 serves, and this is csi-proxyctl v2"},
		{"the published csi-proxy", answers(probed{}), resultNote, "does not tell its version"},
		{"two at once", answers(probed{server: "csi-proxy v1"}, probed{server: "csi-proxy v2"}, probed{state: absent}), resultProblem,
			"csi-proxy v1 serves disk/v1beta1; csi-proxy v2 serves disk/v1beta2"},
	} {
		got := examineBuilds(c.pipes, "v2")
		if len(got) != 1 || got[0].Result != c.result || !strings.Contains(got[0].What, c.text) {
			t.Errorf("%s: %+v, want %s with %q", c.name, got, c.result, c.text)
		}
	}
}
