package translation

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Dir is the kubelet's directory on a Windows node.
const Dir = `C:\var\lib\kubelet`

// windows returns the path on the node of a path on Linux. root is the kubelet's directory
// there.
func windows(root, file string) (string, error) {
	clean := path.Clean(file)
	if clean == root {
		return Dir, nil
	}
	below, ok := strings.CutPrefix(clean, root+"/")
	if !ok {
		return "", fmt.Errorf("path %q is not in the kubelet's directory %q", file, root)
	}
	if at := strings.IndexAny(below, `\:*?"<>|`); at >= 0 {
		return "", fmt.Errorf("path %q has the character %q, which no Windows path has", file, below[at])
	}
	return Dir + `\` + strings.ReplaceAll(below, "/", `\`), nil
}

// parents returns the directories from below root down to file, without either.
func parents(root, file string) []string {
	var dirs []string
	for dir := filepath.Dir(file); len(dir) > len(root); dir = filepath.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}
