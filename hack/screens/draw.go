package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// prompt precedes a command.
const prompt = "$ "

// The measures of a picture, in pixels.
const (
	fontSize   = 13
	charWidth  = 7.8 // every line is stretched to it, in any font
	lineHeight = 19
	margin     = 16
)

// draw returns a picture of a terminal with these lines.
func draw(lines []string) []byte {
	widest := 0
	for _, l := range lines {
		widest = max(widest, utf8.RuneCountInString(l))
	}
	width := int(float64(widest)*charWidth) + 2*margin
	height := len(lines)*lineHeight + 2*margin - (lineHeight - fontSize)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, fontSize, escaped(strings.TrimPrefix(lines[0], prompt)))
	b.WriteString("  <style>text { fill: #e6edf3; white-space: pre } .c { fill: #7ee787; font-weight: 600 }</style>\n")
	fmt.Fprintf(&b, `  <rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, l := range lines {
		if l == "" {
			continue
		}
		class := ""
		if strings.HasPrefix(l, prompt) {
			class = ` class="c"`
		}
		// Blanks at the beginning become a larger x, because some viewers drop them.
		text := strings.TrimLeft(l, " ")
		indent := utf8.RuneCountInString(l) - utf8.RuneCountInString(text)
		fmt.Fprintf(&b, `  <text%s x="%.1f" y="%d" textLength="%.1f" xml:space="preserve">%s</text>`+"\n",
			class, margin+float64(indent)*charWidth, margin+i*lineHeight+fontSize-2, float64(utf8.RuneCountInString(text))*charWidth, escaped(text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func escaped(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // a bytes.Buffer never fails
	return b.String()
}
