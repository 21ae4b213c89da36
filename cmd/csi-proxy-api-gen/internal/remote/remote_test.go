package remote_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/remote"
)

const repository = "../../../.."

// generate runs the generator on the repository after edits: of each file named
// by a key, the first text becomes the second.
func generate(t *testing.T, edits map[string][2]string, change func(*remote.Config)) (map[string][]byte, string, error) {
	t.Helper()
	root := t.TempDir()
	copyDir := func(dir, pattern string) {
		names, err := filepath.Glob(filepath.Join(repository, dir, filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s/%s: %d files, %v", dir, pattern, len(names), err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(repository, name)
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := edits[filepath.ToSlash(rel)]; ok {
				if !strings.Contains(string(text), e[0]) {
					t.Fatalf("%s does not contain %q", rel, e[0])
				}
				text = []byte(strings.Replace(string(text), e[0], e[1], 1))
				delete(edits, filepath.ToSlash(rel))
			}
			target := filepath.Join(root, rel)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	copyDir("client", "go.mod")
	copyDir("client/api", "*.proto")
	copyDir("client/api", "*/*/*.proto")
	copyDir("pkg", "*/types.go")
	copyDir("pkg/remote", "*.go")
	for name := range edits {
		t.Fatalf("%s was not there to be edited", name)
	}
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := remote.New(root, &log)
	if change != nil {
		change(c)
	}
	files, err := c.Generate(set)
	return files, log.String(), err
}

// The output for the real API is the golden file, and the module it stands in
// compiles it.
func TestWhatIsCheckedInIsWhatIsGenerated(t *testing.T) {
	files, log, err := generate(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"disk", "filesystem", "iscsi", "smb", "system", "volume"}
	for _, group := range want {
		name := "pkg/remote/" + group + "_calls.go"
		have, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(files[name], have) {
			t.Errorf("%s is not what is generated; run: make generate", name)
		}
	}
	if len(files) != len(want) {
		t.Errorf("generated %q, want one file for each of %q", slices.Sorted(maps.Keys(files)), want)
	}
	if want := "pkg/remote/filesystem.go: Filesystem.PathValid is written by hand (filesystem/v2alpha1)\n"; log != want {
		t.Errorf("printed %q, want %q", log, want)
	}
}

// A version may be older than the newest as long as it has all methods.
func TestVersionOfTheSameFamily(t *testing.T) {
	files, _, err := generate(t, nil, func(c *remote.Config) { c.Spoken["disk"] = "v1beta3" })
	if err != nil {
		t.Fatal(err)
	}
	if text := string(files["pkg/remote/disk_calls.go"]); !strings.Contains(text, "v1beta3.Disk_ServiceDesc.ServiceName") || strings.Contains(text, "v1.") {
		t.Errorf("not in the messages of v1beta3:\n%s", text)
	}
}

func TestRefusals(t *testing.T) {
	const (
		diskTypes   = "pkg/disk/types.go"
		volumeTypes = "pkg/volume/types.go"
		iscsiTypes  = "pkg/iscsi/types.go"
		diskProto   = "client/api/disk/v1/api.proto"
	)
	for _, c := range []struct {
		about  string
		edits  map[string][2]string
		change func(*remote.Config)
		want   []string
	}{
		{"a field of a request that the version cannot carry",
			map[string][2]string{volumeTypes: {"type FormatVolumeRequest struct {", "type FormatVolumeRequest struct {\n\tLabel string"}}, nil,
			[]string{"volume/v2alpha1: message FormatVolumeRequest has nothing for volume.FormatVolumeRequest.Label; write the method by hand"}},
		{"a field of a response that pkg has no place for",
			map[string][2]string{diskTypes: {"TotalBytes int64", "Bytes int64"}}, nil,
			[]string{"disk/v1: cannot place field GetDiskStatsResponse.total_bytes", "disk/v1: message GetDiskStatsResponse has nothing for disk.GetDiskStatsResponse.Bytes"}},
		{"a field of another type",
			map[string][2]string{diskTypes: {"TotalBytes int64", "TotalBytes string"}}, nil,
			[]string{"field GetDiskStatsResponse.total_bytes is int64, and string in pkg: write the method by hand"}},
		{"a field of a message inside a message",
			map[string][2]string{diskTypes: {"LUNID   string", "LUNID string\n\tPath string"}}, nil,
			[]string{"message DiskLocation has nothing for disk.DiskLocation.Path"}},
		{"an enum whose numbers differ",
			map[string][2]string{iscsiTypes: {"MUTUAL_CHAP = 2", "MUTUAL_CHAP = 3"}}, nil,
			[]string{"enum value MUTUAL_CHAP is 2, and iscsi.MUTUAL_CHAP is 3"}},
		{"a method that the version does not have",
			map[string][2]string{diskTypes: {"type Interface interface {", "type Interface interface {\n\tErase(context.Context, *RescanRequest) (*RescanResponse, error)"}}, nil,
			[]string{"disk/v1 has no method for disk.Interface.Erase: speak a version that has it, or write Disk.Erase by hand in pkg/remote"}},
		{"a method that was renamed in the version",
			map[string][2]string{diskProto: {"rpc Rescan(", "rpc ScanAgain("}}, nil,
			[]string{"disk/v1 has no method for disk.Interface.Rescan"}},
		{"a method that was written by hand and no longer is",
			map[string][2]string{"pkg/remote/filesystem.go": {") PathValid(", ") PathIsValid("}}, nil,
			[]string{"filesystem/v2alpha1 has no method for filesystem.Interface.PathValid"}},
		{"an older version that has not all methods",
			nil, func(c *remote.Config) { c.Spoken["filesystem"] = "v1" },
			[]string{"filesystem/v1 has no method for filesystem.Interface.RmdirContents"}},
		{"a version that does not exist",
			nil, func(c *remote.Config) { c.Spoken["disk"] = "v9" },
			[]string{"disk/v9 is to be spoken, and does not exist"}},
		{"a group of which nobody said what is spoken",
			nil, func(c *remote.Config) { delete(c.Spoken, "disk") },
			[]string{"group disk: which version is spoken?"}},
		{"a group that does not exist",
			nil, func(c *remote.Config) { c.Spoken["tape"] = "v1" },
			[]string{"there is no group tape to speak"}},
		{"a directory that does not exist",
			nil, func(c *remote.Config) { c.Dir = "pkg/far" },
			[]string{"pkg/far"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			files, log, err := generate(t, c.edits, c.change)
			if err == nil || files != nil || log != "" {
				t.Fatalf("%d files, printed %q, error %v; want an error alone", len(files), log, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestMethodWrittenByHandIsLeftOut(t *testing.T) {
	files, log, err := generate(t, map[string][2]string{"pkg/remote/filesystem.go": {
		"// PathValid answers", "func (c Filesystem) Mkdir() {}\n\n// PathValid answers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(files["pkg/remote/filesystem_calls.go"]), ") Mkdir(") || !strings.Contains(log, "Filesystem.Mkdir is written by hand") {
		t.Errorf("Mkdir was generated, or not printed: %q", log)
	}
}
