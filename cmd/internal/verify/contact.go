package verify

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
)

// questionLimit is how long a question may take, except in the first contact.
const questionLimit = 10 * time.Minute

// asked returns the questions of a run. The first contact has those on which most depends.
func asked(o options) []question {
	return slices.DeleteFunc(questions(), func(q question) bool { return o.FirstContact && q.first == 0 })
}

// expected returns the answers that we rely on: those that the simulated node can have are all
// provided for.
func (q question) expected() []string {
	for _, o := range behavior.All() {
		if o.Key == q.option {
			var names []string
			for _, v := range o.Values {
				names = append(names, v.Name)
			}
			return names
		}
	}
	return q.expect
}

// screen prints what the first contact found, on one screen.
func (r *report) screen(w io.Writer, file string) {
	fmt.Fprintf(w, "First contact: %s, csi-proxy-verify %s\n\n", r.on(), r.Program)
	surprises, silent := 0, 0
	for _, q := range asked(options{FirstContact: true}) {
		verdict, answer := "none", "not asked"
		if i := slices.IndexFunc(r.Results, func(res result) bool { return res.Name == q.name }); i >= 0 {
			res := r.Results[i]
			switch {
			case res.Answer == "":
				verdict, silent = string(res.Verdict), silent+1
				answer, _, _ = strings.Cut(res.Detail, "\n")
			case slices.Contains(q.expected(), res.Answer):
				verdict, answer = "ok", res.Answer
			default:
				verdict, answer, surprises = "NEW", res.Answer, surprises+1
			}
		}
		fmt.Fprintf(w, "%-8s%-27s%s\n", verdict, q.name, short(answer))
		if verdict == "NEW" {
			fmt.Fprintf(w, "%8sso %s\n", "", cmp.Or(q.change, "the simulated node gets this behavior, and the services are tested with it"))
		}
	}
	fmt.Fprintf(w, "\n%d new, %d without an answer. %s.json has them in full, and no name of this\nmachine: please send it.\n", surprises, silent, filepath.Base(file))
}

// short fits an answer into a line.
func short(text string) string {
	if r := []rune(text); len(r) > 44 {
		return string(r[:44]) + " …"
	}
	return text
}
