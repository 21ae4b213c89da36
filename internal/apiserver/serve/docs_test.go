package serve

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// docs/run/reference.md documents the deadlines of this package.
func TestDeadlinesMatchDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/run/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	if line := fmt.Sprintf("| all others | %s |", minutes(defaultDeadline)); !strings.Contains(doc, line) {
		t.Errorf("docs/run/reference.md has no line with %q", line)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z, ]+) \| (\d+m) \|$`).FindAllStringSubmatch(doc, -1) {
		for _, method := range strings.Split(row[1], ", ") {
			documented[method] = row[2]
		}
	}
	for method, d := range deadlines {
		if documented[method] != minutes(d) {
			t.Errorf("docs/run/reference.md gives %s the deadline %q, want %s", method, documented[method], minutes(d))
		}
		delete(documented, method)
	}
	if d := deadlines["FormatVolume"]; d >= backend.FormatLimit {
		t.Errorf("FormatVolume has %v, and Windows at most %v: the call would end with a timeout of Windows", d, backend.FormatLimit)
	}
	for method := range documented {
		t.Errorf("docs/run/reference.md documents a deadline for %s, which has none of its own", method)
	}
}

func minutes(d time.Duration) string { return fmt.Sprintf("%.0fm", d.Minutes()) }

// A renamed method would silently get the default deadline.
func TestDeadlinesNameExistingMethods(t *testing.T) {
	known := map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !apiversion.IsValidVersion(string(f.Package())) {
			return true
		}
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				known[string(methods.Get(j).Name())] = true
			}
		}
		return true
	})
	for method := range deadlines {
		if !known[method] {
			t.Errorf("no version has a method %s", method)
		}
	}
}
