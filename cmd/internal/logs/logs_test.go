package logs_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
)

// keepLoggers puts the loggers of the process back at the end of the test.
func keepLoggers(t *testing.T) {
	state, log := klog.CaptureState(), slog.Default()
	t.Cleanup(func() { state.Restore(); slog.SetDefault(log) })
}

func TestDirectoryHasAFileForEachSeverity(t *testing.T) {
	keepLoggers(t)
	klog.LogToStderr(false)
	dir := filepath.Join(t.TempDir(), "new")
	files, err := logs.Set(logs.Options{Program: "p", Dir: dir}, os.Stderr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	slog.Info("Did something")
	slog.Warn("Saw something")
	slog.Error("Failed to do something")
	counts := map[string]int{}
	for name, text := range read(t, dir) {
		parts := strings.Split(name, ".log.")
		counts[strings.Split(parts[len(parts)-1], ".")[0]] = strings.Count(text, "something")
	}
	if counts["INFO"] != 3 || counts["WARNING"] != 2 || counts["ERROR"] != 1 || len(counts) != 3 {
		t.Errorf("lines by file: %v", counts)
	}
}

func TestJSON(t *testing.T) {
	keepLoggers(t)
	var out bytes.Buffer
	if _, err := logs.Set(logs.Options{ToStderr: true, JSON: true, Verbosity: 2}, &out, nil); err != nil {
		t.Fatal(err)
	}
	slog.Log(t.Context(), -3, "Too much")
	slog.Log(t.Context(), -2, "Called", "took", 1500*time.Millisecond)
	klog.ErrorS(os.ErrNotExist, "Failed to open", "n", 7)
	lines := strings.Split(out.String(), "\n")
	want := []string{
		`^{"time":"[^"]+","level":"INFO","source":"logs/logs_test.go:\d+","msg":"Called","took":"1.5s"}$`,
		`^{"time":"[^"]+","level":"ERROR","source":"logs/logs_test.go:\d+","msg":"Failed to open","err":"file does not exist","n":7}$`,
		`^$`,
	}
	for i := range max(len(lines), len(want)) {
		if i >= len(lines) || i >= len(want) || !regexp.MustCompile(want[i]).MatchString(lines[i]) {
			t.Fatalf("line %d of\n%s\nis not the expected one", i, &out)
		}
	}
}

// blockedForTheTest is what a stuck process is in.
func blockedForTheTest(release chan struct{}) { <-release }

func TestStuckStopIsLoggedWithGoroutines(t *testing.T) {
	keepLoggers(t)
	for _, c := range []struct {
		takes time.Duration
		want  bool
	}{{20 * time.Second, false}, {40 * time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			release, stopped := make(chan struct{}), make(chan struct{})
			go blockedForTheTest(release)
			go logs.DumpIfStuck(ctx, stopped, 30*time.Second)
			time.Sleep(time.Hour)
			cancel()
			time.Sleep(c.takes)
			close(stopped)
			close(release)
			synctest.Wait()
			if got := strings.Contains(out.String(), "Still stopping") && strings.Contains(out.String(), "blockedForTheTest"); got != c.want {
				t.Errorf("a stop of %v: logged is %t, want %t:\n%s", c.takes, got, c.want, &out)
			}
		})
	}
}
