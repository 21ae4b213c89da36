package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
)

// word matches a word of a shell command: quoted with single quotes or not at all.
var word = regexp.MustCompile(`'([^']*)'|(\S+)`)

// given returns the values that a helm command gives.
func given(t *testing.T, command string) values {
	t.Helper()
	v := values{}
	flag := ""
	for _, m := range word.FindAllStringSubmatch(command, -1) {
		text := m[1] + m[2]
		var err error
		switch flag {
		case "--set":
			err = strvals.ParseInto(text, v)
		case "--set-json":
			err = strvals.ParseJSON(text, v)
		}
		if err != nil {
			t.Fatalf("%s %s: %v", flag, text, err)
		}
		flag = text
	}
	return v
}

// The chart accepts the values of each helm command on the pages.
func TestHelmCommandsOfPages(t *testing.T) {
	files, err := filepath.Glob("../../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, withValues := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, command := range regexp.MustCompile(`(?m)^helm (install|upgrade) .*$`).FindAllString(joined, -1) {
			commands++
			v := given(t, command)
			if len(v) > 0 {
				withValues++
			}
			image, _ := v["image"].(values)
			if strings.HasPrefix(command, "helm upgrade ") && image == nil {
				v["image"] = withImage()["image"] // of the release before
			}
			if _, err := render(t, v); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), command, err)
			}
		}
	}
	if commands < 4 || withValues < 3 {
		t.Errorf("the pages have %d helm commands, %d with values; want more", commands, withValues)
	}
}
