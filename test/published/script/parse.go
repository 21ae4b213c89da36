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

// section is a part of the script: calls to one node.
type section struct {
	file  string   // "calls/disk.txt"
	title string   // unique within the file
	apis  []string // such as "disk/v1"; the section runs once for each
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

// readScript reads the whole script.
func readScript() ([]section, error) {
	files, err := fs.Glob(callFiles, "calls/*.txt")
	if err != nil {
		return nil, err
	}
	var all []section
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

func parse(file, text string) ([]section, error) {
	var sections []section
	var s *section
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
			sections = append(sections, section{file: file, title: title, apis: strings.Fields(apis)})
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
			return nil, fmt.Errorf("%s: the last call of section %q has no result", path.Base(file), s.title)
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
