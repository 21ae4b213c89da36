package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const root = "../.."

func TestPicturesAreOfARealRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sockets, because named pipes are global: run it on Linux")
	}
	if testing.Short() {
		t.Skip("the stage generated compares the pictures")
	}
	pictures, err := take(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "screens", "*.svg"))
	if err != nil || len(files) != len(pictures) {
		t.Errorf("docs/screens has %d pictures, want %d: run make generate", len(files), len(pictures))
	}
	for name, want := range pictures {
		got, err := os.ReadFile(filepath.Join(root, "docs", "screens", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/screens/%s is out of date: run make generate\n%s", name, want)
		}
	}
}

func TestDrawKeepsEveryLetter(t *testing.T) {
	lines := []string{prompt + "a <b> & c", "", "  two  words", `\\nas\data`}
	var texts []string
	d := xml.NewDecoder(bytes.NewReader(draw(lines)))
	inText := false
	for {
		token, err := d.Token()
		if token == nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch v := token.(type) {
		case xml.StartElement:
			inText = v.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				texts = append(texts, string(v))
			}
		}
	}
	if got, want := strings.Join(texts, "\n"), "$ a <b> & c\ntwo  words\n"+`\\nas\data`; got != want {
		t.Errorf("the picture has the texts %q, want %q", got, want)
	}
}
