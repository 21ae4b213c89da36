package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// syncFiles writes files below root, by their slash-separated paths. With check it writes
// nothing, and fails with the names of those that are missing or differ.
func syncFiles(root string, files map[string][]byte, check bool) error {
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(root, filepath.FromSlash(name))
		if check {
			if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, files[name]) {
				differ = append(differ, file)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return err
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("out of date: %s; run make generate", strings.Join(differ, ", "))
	}
	return nil
}
