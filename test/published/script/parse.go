package script

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed calls/*.txt
var callFiles embed.FS

// Section is a part of the script: calls to one node.
type Section struct {
	File  string   // "calls/disk.txt"
	Title string   // unique within the file
	APIs  []string // such as "disk/v1"; the section runs once for each
	steps []step
}

// step is a call, or a command of csi-proxyctl.
type step struct {
	line    int
	command []string // arguments of csi-proxyctl, or nil
	api     string   // "" means the section's API
	method  string
	request string // JSON with variables

	want string // JSON with patterns, if code is empty
	code string
	text string
}

// Call is a call of the script when it runs for one API.
type Call struct {
	Section  Section
	API      string // API of the call, such as "disk/v1"
	Method   string
	Answered bool // the call succeeds
}

// Calls returns the calls that the section makes when it runs for api.
func (s Section) Calls(api string) []Call {
	var all []Call
	for _, st := range s.steps {
		if st.command != nil {
			continue
		}
		c := Call{Section: s, API: api, Method: st.method, Answered: st.code == ""}
		if st.api != "" {
			c.API = st.api
		}
		all = append(all, c)
	}
	return all
}

// Sections reads the whole script.
func Sections() ([]Section, error) {
	files, err := fs.Glob(callFiles, "calls/*.txt")
	if err != nil {
		return nil, err
	}
	var all []Section
	for _, f := range files {
		text, err := callFiles.ReadFile(f)
		if err != nil {
			return nil, err
		}
		sections, err := parse(f, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, sections...)
	}
	return all, nil
}

func parse(file, text string) ([]Section, error) {
	var sections []Section
	var s *Section
	titles := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", path.Base(file), i+1, fmt.Sprintf(format, args...))
		}
		trimmed := strings.TrimSpace(line)
		heading, isHeading := strings.CutPrefix(line, "=== ")
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
			continue
		case isHeading:
			apis, title, ok := strings.Cut(heading, ": ")
			if !ok || titles[title] {
				return nil, bad("want === API …: TITLE, with a unique title")
			}
			titles[title] = true
			sections = append(sections, Section{File: file, Title: title, APIs: strings.Fields(apis)})
			s = &sections[len(sections)-1]
			continue
		case s == nil:
			return nil, bad("line before the first section")
		}
		var last *step
		if n := len(s.steps); n > 0 {
			last = &s.steps[n-1]
		}
		indented := line != strings.TrimLeft(line, " \t")
		switch {
		case !indented && last != nil && last.command == nil && last.want == "" && last.code == "":
			return nil, bad("the call before this line has no result")
		case !indented && strings.HasPrefix(line, "$ "):
			s.steps = append(s.steps, step{line: i + 1, command: strings.Fields(line[2:])})
		case !indented:
			st := step{line: i + 1, method: line, request: "{}"}
			if b := strings.IndexByte(line, '{'); b >= 0 {
				st.method, st.request = line[:b], line[b:]
			}
			st.method = strings.TrimSpace(st.method)
			if api, method, ok := strings.Cut(st.method, " "); ok {
				st.api, st.method = api, method
			}
			if _, err := decode(st.request); err != nil {
				return nil, bad("request: %v", err)
			}
			s.steps = append(s.steps, st)
		case last == nil || last.command != nil || last.want != "" || last.code != "":
			return nil, bad("result without a call")
		case strings.HasPrefix(trimmed, "! "):
			var ok bool
			if last.code, last.text, ok = strings.Cut(trimmed[2:], " "); !ok {
				return nil, bad("want ! CODE TEXT")
			}
		default:
			if _, err := decode(trimmed); err != nil {
				return nil, bad("response: %v", err)
			}
			last.want = trimmed
		}
	}
	for _, s := range sections {
		if n := len(s.steps); n == 0 || s.steps[n-1].command == nil && s.steps[n-1].want == "" && s.steps[n-1].code == "" {
			return nil, fmt.Errorf("%s: the last call of section %q has no result", path.Base(file), s.Title)
		}
	}
	return sections, nil
}

// decode parses JSON in which a backslash is not an escape character.
func decode(text string) (map[string]any, error) {
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(strings.ReplaceAll(text, `\`, `\\`)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}
