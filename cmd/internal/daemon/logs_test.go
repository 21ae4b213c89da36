package daemon_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

var kills = flag.Int("kills", 20, "how many daemons TestKillLosesNoLine kills")

// crashing makes this test's binary run as a daemon that panics when it opens its node.
const crashing = "crashing"

type crashingHost struct{ daemon.Host }

func (crashingHost) Open(rules.Rules, *win32.Counts) (*daemon.Node, error) { panic("the test's panic") }

// startLogging starts a daemon that logs to a file, in a directory that does not exist yet.
func startLogging(t *testing.T, args ...string) (p *process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "new", "logs", "csi-proxy.log")
	return start(t, append([]string{"-logtostderr=false", "-log_file=" + log}, args...)...), log
}

// awaitLog waits until a log file contains text.
func awaitLog(t *testing.T, log, text string) {
	t.Helper()
	for limit := time.Now().Add(longLimit); ; time.Sleep(5 * time.Millisecond) {
		b, _ := os.ReadFile(log)
		if strings.Contains(string(b), text) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the log does not contain %q:\n%s", text, b)
		}
	}
}

// requestPath is the name in the path of a request of TestKillLosesNoLine.
var requestPath = regexp.MustCompile(`request-\d+`)

// A daemon is killed at a random moment of a series of failing requests. The log then has the
// last one whose answer arrived.
func TestKillLosesNoLine(t *testing.T) {
	sockets(t) // or it is skipped
	killed, found := 0, 0
	for i := range *kills {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			sockets(t)
			killed++
			p, log := startLogging(t)
			awaitLog(t, log, "Serving ")
			c, err := filesystem.NewClient()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var answered atomic.Int64
			go func() {
				for limit := rand.Int64N(30) + 1; answered.Load() < limit; time.Sleep(time.Microsecond) {
				}
				time.Sleep(rand.N(time.Millisecond))
				p.cmd.Process.Kill()
			}()
			last := ""
			for n := range 50 { // of more, some are not logged
				path := fmt.Sprintf(`request-%d`, n)
				_, err := c.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: `C:\Windows\` + path})
				if status.Code(err) != codes.PermissionDenied {
					break // killed
				}
				last = path
				answered.Add(1)
			}
			p.cmd.Wait()
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "Request failed") && requestPath.FindString(line) == last {
					found++
					return
				}
			}
			t.Errorf("the log has no line about the last request, for %s:\n%s", last, text)
		})
	}
	t.Attr("measured", fmt.Sprintf("killed %d times, the last failed request was in the log %d times", killed, found))
}

func TestCrashIsKept(t *testing.T) {
	sockets(t)
	log := filepath.Join(t.TempDir(), "csi-proxy.log")
	p := startProgram(t, os.Args[0], crashing, "-logtostderr=false", "-log_file="+log)
	if code := p.exit(t); code != 2 {
		t.Errorf("exit code %d, want that of a panic", code)
	}
	crash := strings.TrimSuffix(log, ".log") + "-crash.log"
	text, err := os.ReadFile(crash)
	if err != nil || !strings.Contains(string(text), "panic: the test's panic") || strings.Count(string(text), "\ngoroutine ") < 2 {
		t.Errorf("the file for crashes has no panic with all goroutines: %v\n%s", err, text)
	}
	start(t, "-logtostderr=false", "-log_file="+log)
	awaitLog(t, log, "Serving ")
	kept, err := filepath.Glob(strings.TrimSuffix(log, ".log") + "-crash-*.log")
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept crashes: %q, %v", kept, err)
	}
	if again, err := os.ReadFile(kept[0]); err != nil || string(again) != string(text) {
		t.Errorf("the kept crash has changed: %v\n%s", err, again)
	}
	awaitLog(t, log, `"Found the crash of an earlier process" file="`+kept[0]+`"`)
}

// A log file that cannot be written does not keep the node from serving.
func TestServesWithoutLogFile(t *testing.T) {
	sockets(t)
	notDir := configFile(t, "")
	p := start(t, "-logtostderr=false", "-log_file="+filepath.Join(notDir, "csi-proxy.log"))
	p.await(t, "Cannot write the log file, logging to standard error and retrying")
	p.await(t, "Serving ")
	diskClient(t)
}
