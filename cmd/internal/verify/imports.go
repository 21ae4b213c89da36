package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
)

// Places of a clone of the repository.
const (
	reportsDir  = "docs/develop/windows"
	answersPage = "docs/develop/windows.md"
)

// The answers are between these lines of their page.
const (
	answersBegin = "<!-- answers: written by csi-proxy-verify import -->\n"
	answersEnd   = "<!-- end of answers -->\n"
)

// importReports copies reports into the clone in root, and writes the answers of Windows on
// its page from all reports that it has.
func importReports(root string, files []string) error {
	for _, file := range files {
		r, err := readReport(file)
		if err != nil {
			return err
		}
		if r.Windows == simulatedWindows || r.Windows == wine {
			return fmt.Errorf("%s is of a run on %s: only reports of Windows are evidence", file, r.on())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(root, reportsDir), 0o755); err != nil {
			return err
		}
		// A later run on the same Windows replaces an earlier one.
		name := strings.ReplaceAll(strings.ReplaceAll(r.on(), ", ", "-"), " ", "-")
		if r.Reboot {
			name += "-reboot"
		}
		if r.Container {
			name += "-container"
		}
		if err := os.WriteFile(filepath.Join(root, reportsDir, filepath.Base(name)+".json"), text, 0o644); err != nil {
			return err
		}
	}
	reports, err := imported(root)
	if err != nil {
		return err
	}
	page := filepath.Join(root, answersPage)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := withAnswers(string(text), reports)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(changed), 0o644)
}

func readReport(file string) (report, error) {
	var r report
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Windows == "" || len(r.Results) == 0 {
		return r, fmt.Errorf("%s is no report of csi-proxy-verify: %w", file, err)
	}
	return r, nil
}

// imported returns the reports of a clone, ordered by what they are about.
func imported(root string) ([]report, error) {
	files, err := filepath.Glob(filepath.Join(root, reportsDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []report
	for _, file := range files {
		r, err := readReport(file)
		if err != nil {
			return nil, err
		}
		// The report about a restart belongs to the one of the same Windows.
		if i := slices.IndexFunc(all, func(other report) bool { return other.on() == r.on() }); i >= 0 {
			all[i].Results = append(all[i].Results, r.Results...)
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b report) int { return strings.Compare(a.on(), b.on()) })
	return all, nil
}

// withAnswers returns the page with the table of questions and answers.
func withAnswers(page string, reports []report) (string, error) {
	before, rest, begun := strings.Cut(page, answersBegin)
	_, after, ended := strings.Cut(rest, answersEnd)
	if !begun || !ended {
		return "", errors.New("the lines around the answers are missing")
	}
	return before + answersBegin + answers(reports) + answersEnd + after, nil
}

// answers returns the table: a row for each question, a column for each report.
func answers(reports []report) string {
	var b strings.Builder
	b.WriteString("\n| question | answers that the simulated node can have, the strict one first; or what we expect, and what we would change |")
	for _, r := range reports {
		fmt.Fprintf(&b, " %s |", r.on())
	}
	if len(reports) == 0 {
		b.WriteString(" Windows |")
	}
	b.WriteString("\n|---|---" + strings.Repeat("|---", max(1, len(reports))) + "|\n")
	for _, q := range allQuestions() {
		values := "any"
		if len(q.expect) > 0 {
			values = strings.Join(q.expect, ", or ") + "; otherwise " + q.change
		}
		if i := slices.IndexFunc(behavior.All(), func(o behavior.Option) bool { return o.Key == q.option }); i >= 0 {
			var names []string
			for _, v := range behavior.All()[i].Values {
				names = append(names, v.Name)
			}
			values = "`" + q.option + "`: " + strings.Join(names, ", ")
		}
		fmt.Fprintf(&b, "| [%s](contract/%s) | %s |", q.asks, q.contract, values)
		for _, r := range reports {
			fmt.Fprintf(&b, " %s |", cell(r.answer(q.name)))
		}
		if len(reports) == 0 {
			b.WriteString(" not asked yet |")
		}
		b.WriteString("\n")
	}
	for _, r := range reports {
		fmt.Fprintf(&b, "\n%s: %s.\n", r.on(), r.operations())
	}
	b.WriteString("\n")
	return b.String()
}

// operations returns how many operations passed on a Windows, and which did not.
func (r report) operations() string {
	all, missed := 0, []string(nil)
	for _, res := range r.Results {
		if strings.HasPrefix(res.Section, operationsPrefix) {
			all++
			if res.Verdict != passed {
				missed = append(missed, res.Name)
			}
		}
	}
	if missed == nil {
		return fmt.Sprintf("%d operations passed, all that were run", all)
	}
	return fmt.Sprintf("%d of %d operations passed, not %s", all-len(missed), all, strings.Join(missed, ", "))
}

// allQuestions are those of a run, then those about a restart, and those that need a container.
func allQuestions() []question {
	all := questions()
	for _, q := range rebootQuestions() {
		all = append(all, q.question)
	}
	return append(all, containerQuestions()...)
}

// answer returns the answer to a question, or why there is none.
func (r report) answer(question string) string {
	for _, res := range r.Results {
		if (res.Section == questionsSection || res.Section == afterSection || res.Section == containerSection) && res.Name == question {
			if res.Answer != "" {
				return "**" + res.Answer + "**"
			}
			text, _, _ := strings.Cut(res.Detail, "\n")
			return string(res.Verdict) + ": " + text
		}
	}
	return "not asked"
}
