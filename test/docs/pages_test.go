package docs

import (
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// page is a page of the documentation.
type page struct {
	name   string // slash-separated, from the project's root
	text   string // without blocks
	blocks []block
}

// block is a fenced block.
type block struct {
	line int      // line of the opening fence
	info []string // the words after the fence
	body string
}

var fence = regexp.MustCompile("^ *(```+|~~~+) *(.*)$")

// parse reads a page.
func parse(name, text string) page {
	p := page{name: name}
	var open string // the fence that is open
	var prose, body strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		m := fence.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		switch {
		case m != nil && open == "":
			open = m[1]
			p.blocks = append(p.blocks, block{line: n, info: strings.Fields(m[2])})
			body.Reset()
		case m != nil && m[2] == "" && strings.HasPrefix(m[1], open):
			p.blocks[len(p.blocks)-1].body = body.String()
			open = ""
		case open != "":
			body.WriteString(line)
		default:
			prose.WriteString(line)
		}
	}
	p.text = prose.String()
	return p
}

// skip reports whether a directory has no files of this project, or only files that tests read.
func skip(path, name string) bool {
	return path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules")
}

// files returns the files below dir that want accepts: their names relative to the
// root, and their contents.
func files(t *testing.T, dir string, want func(name string) bool) iter.Seq2[string, []byte] {
	t.Helper()
	return func(yield func(string, []byte) bool) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if skip(path, d.Name()) {
					return filepath.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(rel)
			if !want(name) {
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil && !yield(name, text) {
				return filepath.SkipAll
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pages reads all pages except those that tests read.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for name, text := range files(t, root, func(name string) bool { return filepath.Ext(name) == ".md" }) {
		all = append(all, parse(name, string(text)))
	}
	for _, must := range []string{"README.md", "ARCHITECTURE.md", "docs/run/reference.md", "docs/run/csi-proxyctl.md"} {
		if !slices.ContainsFunc(all, func(p page) bool { return p.name == must }) {
			t.Fatalf("%s is not among the %d pages found", must, len(all))
		}
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	code    = regexp.MustCompile("`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	named   = regexp.MustCompile(`<a id="([\w-]+)"></a>`)
)

// anchors returns the link targets of a page: its headings and its explicit
// anchors.
func anchors(p page) map[string]bool {
	all := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(p.text, -1) {
		all[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(p.text, -1) {
		text := strings.ToLower(link.ReplaceAllString(m[1], "]"))
		all[strings.ReplaceAll(noWord.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return all
}

func TestLinksResolve(t *testing.T) {
	all := pages(t)
	links := 0
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(p.text, "``"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := p.name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), path))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: the link to %s: %v", p.name, m[1], err)
				continue
			}
			if anchor == "" || !strings.HasSuffix(target, ".md") {
				continue
			}
			i := slices.IndexFunc(all, func(p page) bool { return p.name == target })
			if i < 0 || !anchors(all[i])[anchor] {
				t.Errorf("%s: %s has no heading #%s", p.name, target, anchor)
			}
		}
	}
	if links < 30 {
		t.Errorf("found only %d links: the search is broken", links)
	}
}
