package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// up refuses a directory that is not a lab's, or that is not the user's own, and changes
// nothing there.
func TestUpRefusesDirectory(t *testing.T) {
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, dir string) error
	}{
		{"with files", "has files that are not a lab's, such as precious", func(_ *testing.T, dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "precious"), []byte("content"), 0o600)
		}},
		{"with a log", "has files that are not a lab's, such as log", func(_ *testing.T, dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "log"), []byte("content"), 0o600)
		}},
		{"link", "is a symbolic link", func(t *testing.T, dir string) error { return os.Symlink(t.TempDir(), dir) }},
		{"file", "is not a directory", func(_ *testing.T, dir string) error { return os.WriteFile(dir, nil, 0o600) }},
		{"open to others", "chmod 700", func(_ *testing.T, dir string) error { return os.Mkdir(dir, 0o755) }},
		{"of another user", "belongs to user 12345", func(t *testing.T, dir string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can make a directory of another user")
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chown(dir, 12345, 12345)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "lab")
			if err := c.make(t, dir); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CSI_PROXY_LAB_DIR", dir)
			before := content(t, dir)
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), []string{"up"}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("up = %d, %q, want 1 and %q", code, stderr.String(), c.want)
			}
			if after := content(t, dir); after != before {
				t.Errorf("up has changed the directory from %q to %q", before, after)
			}
		})
	}
}

// content returns the files below a directory and their content.
func content(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := []byte(nil)
		if d.Type().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		b.WriteString(path + " " + d.Type().String() + " " + string(text) + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What a lab leaves that was killed is no obstacle, and a user's file in a lab's directory
// stays.
func TestDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parent", "lab")
	t.Setenv("CSI_PROXY_LAB_DIR", dir)
	if err := makeDirectory(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(pipes(), 0o700); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "precious")
	for _, file := range []string{control(), logFile(), filepath.Join(pipes(), "a.sock"), users} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := makeDirectory(); err != nil {
		t.Errorf("the directory of a lab that was killed: %v", err)
	}
	if err := removeDirectory(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "precious" {
		t.Errorf("the directory has %v, %v, want the user's file only", entries, err)
	}
	if err := os.Remove(users); err != nil {
		t.Fatal(err)
	}
	if err := removeDirectory(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the empty directory is left: %v", err)
	}
}
