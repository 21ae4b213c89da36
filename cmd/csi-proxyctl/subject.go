package main

import (
	"regexp"
	"strconv"
	"strings"
)

// The kinds of subjects that why explains.
const (
	aName = iota
	aPath
	aVolume
	aDisk
	aPipe
)

// subject is what why explains.
type subject struct {
	kind int
	text string
	disk uint32
}

var (
	doubled    = regexp.MustCompile(`(?i)[a-z]:\\\\[^\\]|\\\\\\\\`) // as in JSON and in quoted Go strings
	pipeName   = regexp.MustCompile(`(?i)(?:^|pipe[\\/])(csi-proxy-(?:[a-z0-9]+-v[a-z0-9]+|admin))`)
	apiName    = regexp.MustCompile(`^([a-z]+)/(v[a-z0-9]+)$`)
	wholePath  = regexp.MustCompile(`(?i)^([a-z]:[\\/]|[\\/])`)
	pathInText = regexp.MustCompile(`(?i)(?:\b[a-z]:[\\/]|(?:^|[\s"'])[\\/]var[\\/]lib[\\/]|\\\\[a-z0-9][a-z0-9._-]*\\)[^\s"'<>|*?:,;()]+`)
	mappedFor  = regexp.MustCompile(`share (\\\\[^\s"]+) is mapped for `) // the mapping that is in the way of another one
	volumeName = regexp.MustCompile(`(?i)Volume(\{[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\})`)
	diskName   = regexp.MustCompile(`(?i)(?:^|\bdisk |PhysicalDrive)(\d+)\b`)
	pvName     = regexp.MustCompile(`volume "([^"]+)"`)
)

// subjectOf returns what a text names: a pipe, a path, a volume or a disk. A text with several
// of them, such as an error, names the first of these kinds, because a path leads to the rest.
// Any other text is a name.
func subjectOf(text string) subject {
	text = strings.TrimSpace(text)
	if doubled.MatchString(text) {
		text = strings.ReplaceAll(text, `\\`, `\`)
	}
	if m := pipeName.FindStringSubmatch(text); m != nil {
		return subject{kind: aPipe, text: strings.ToLower(m[1])}
	}
	if m := apiName.FindStringSubmatch(text); m != nil {
		return subject{kind: aPipe, text: "csi-proxy-" + m[1] + "-" + m[2]}
	}
	if m := mappedFor.FindStringSubmatch(text); m != nil {
		return subject{kind: aPath, text: m[1]}
	}
	volume := volumeName.FindStringSubmatch(text)
	device := diskName.FindStringSubmatch(text)
	if wholePath.MatchString(text) && volume == nil && !strings.HasPrefix(text, `\\.\`) {
		return subject{kind: aPath, text: text}
	}
	if path := pathInText.FindString(text); path != "" {
		return subject{kind: aPath, text: strings.TrimRight(strings.TrimLeft(path, " \t\"'"), `.`)}
	}
	if volume != nil {
		return subject{kind: aVolume, text: `\\?\Volume` + strings.ToLower(volume[1]) + `\`}
	}
	if device != nil {
		if n, err := strconv.ParseUint(device[1], 10, 32); err == nil && (device[0] != device[1] || device[1] == text) {
			return subject{kind: aDisk, disk: uint32(n)}
		}
	}
	if m := pvName.FindStringSubmatch(text); m != nil {
		return subject{kind: aName, text: m[1]}
	}
	return subject{kind: aName, text: text}
}
