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
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
)

const repository = "../../../.."

// generate runs the generator on a copy of the repository after edits: in each file, by
// name, the first text is replaced by the second.
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
		t.Fatalf("%s does not exist", name)
	}
	var log bytes.Buffer
	c := remote.New(root, &log)
	if change != nil {
		change(c)
	}
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.Generate(set)
	return files, log.String(), err
}

// The output for the real API is the golden file, which is compiled with its module.
func TestRepositoryClientsAreUpToDate(t *testing.T) {
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
			t.Errorf("%s is not up to date; run: make generate", name)
		}
	}
	if len(files) != len(want) {
		t.Errorf("generated %q, want one file for each of %q", slices.Sorted(maps.Keys(files)), want)
	}
	for _, want := range []string{
		"pkg/remote/filesystem.go: Filesystem.PathValid is hand-written (filesystem)\n",
		"pkg/remote/disk.go: Disk.SetDiskReadOnly is hand-written (disk)\n",
		"pkg/remote/disk.go: diskV1beta2.PartitionDisk is hand-written (disk/v1beta2)\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("printed %q, want %q in it", log, want)
		}
	}
}

// newest is the newest version of a group in this repository.
func newest(group string) string {
	families := rows.Published()
	return families[slices.IndexFunc(families, func(f rows.Family) bool { return f.Group == group })].Versions[0]
}

// A new version of a family is tried first, with its own messages.
func TestNewVersionIsTriedFirst(t *testing.T) {
	now := newest("disk")
	proto, err := os.ReadFile(filepath.Join(repository, "client/api/disk", now, "api.proto"))
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := generate(t, nil, func(c *remote.Config) {
		dir := filepath.Join(c.Rows.Root, "client/api/disk/v99")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("package "+now+";", "package v99;", "disk/"+now, "disk/v99").Replace(string(proto))
		if err := os.WriteFile(filepath.Join(dir, "api.proto"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c.Rows.Families = rows.Published()
		c.Rows.Families[0].Versions = append([]string{"v99"}, c.Rows.Families[0].Versions...)
	})
	if err != nil {
		t.Fatal(err)
	}
	text := string(files["pkg/remote/disk_calls.go"])
	for _, want := range []string{`{"v99", &v99.Disk_ServiceDesc},` + "\n\t\t" + `{"` + now + `", &` + now + `.`, `case "v99", "` + now + `", `, "type diskV99 struct", "&v99.PartitionDiskRequest{"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func TestRefusals(t *testing.T) {
	const (
		diskTypes   = "pkg/disk/types.go"
		volumeTypes = "pkg/volume/types.go"
		iscsiTypes  = "pkg/iscsi/types.go"
	)
	disk, filesystem, volume := newest("disk"), newest("filesystem"), newest("volume")
	diskProto := "client/api/disk/" + disk + "/api.proto"
	for _, c := range []struct {
		about  string
		edits  map[string][2]string
		change func(*remote.Config)
		want   []string
	}{
		{"a field of a request that the version cannot carry",
			map[string][2]string{volumeTypes: {"type FormatVolumeRequest struct {", "type FormatVolumeRequest struct {\n\tLabel string"}}, nil,
			[]string{"volume/" + volume + ": message FormatVolumeRequest has no field for volume.FormatVolumeRequest.Label; write the method by hand"}},
		{"a field of a response that pkg has no place for",
			map[string][2]string{diskTypes: {"TotalBytes int64", "Bytes int64"}}, nil,
			[]string{"disk/" + disk + ": field GetDiskStatsResponse.total_bytes", "disk/" + disk + ": message GetDiskStatsResponse has no field for disk.GetDiskStatsResponse.Bytes"}},
		{"a field of another type",
			map[string][2]string{diskTypes: {"TotalBytes int64", "TotalBytes string"}}, nil,
			[]string{"field GetDiskStatsResponse.total_bytes is int64, but string in pkg: write the method by hand"}},
		{"a field of a message inside a message",
			map[string][2]string{diskTypes: {"LUNID   string", "LUNID string\n\tPath string"}}, nil,
			[]string{"message DiskLocation has no field for disk.DiskLocation.Path"}},
		{"an enum whose numbers differ",
			map[string][2]string{iscsiTypes: {"MUTUAL_CHAP = 2", "MUTUAL_CHAP = 3"}}, nil,
			[]string{"enum value MUTUAL_CHAP is 2, but iscsi.MUTUAL_CHAP is 3"}},
		{"a method that the version does not have",
			map[string][2]string{diskTypes: {"type Interface interface {", "type Interface interface {\n\tErase(context.Context, *RescanRequest) (*RescanResponse, error)"}}, nil,
			[]string{"disk/" + disk + ", the newest version, has no method for disk.Service.Erase: add it to the version, or write diskV" + disk[1:] + ".Erase or Disk.Erase by hand in pkg/remote"}},
		{"a method that was renamed in the version",
			map[string][2]string{diskProto: {"rpc Rescan(", "rpc ScanAgain("}}, nil,
			[]string{"disk/" + disk + ", the newest version, has no method for disk.Service.Rescan", "disk/" + disk + " has a method ScanAgain that is never called"}},
		{"a method that was written by hand and no longer is",
			map[string][2]string{"pkg/remote/filesystem.go": {") PathValid(", ") PathIsValid("}}, nil,
			[]string{"filesystem/" + filesystem + ", the newest version, has no method for filesystem.Service.PathValid: add it"}},
		{"a method of an older family whose types changed",
			map[string][2]string{"pkg/remote/disk.go": {") PartitionDisk(", ") PartitionTheDisk("}}, nil,
			[]string{"disk/v1beta2: field PartitionDiskRequest.diskID"}},
		{"a method that an older family has under another name",
			map[string][2]string{"pkg/remote/filesystem.go": {") CreateSymlink(", ") MakeSymlink("}}, nil,
			[]string{"filesystem/v1beta1 has a method LinkPath that is never called: write the method of filesystemV1beta1 that calls it by hand in pkg/remote"}},
		{"a method by hand that calls another one",
			map[string][2]string{"pkg/remote/filesystem.go": {`"LinkPath"`, `"LinkPaths"`}}, nil,
			[]string{"filesystem/v1beta1 has a method LinkPath that is never called"}},
		{"a group without a family",
			nil, func(c *remote.Config) {
				c.Rows.Families = slices.DeleteFunc(rows.Published(), func(f rows.Family) bool { return f.Group == "smb" })
			},
			[]string{"group smb: no family of versions"}},
		{"a directory that does not exist",
			nil, func(c *remote.Config) { c.Dir = "pkg/far" },
			[]string{"pkg/far"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			files, log, err := generate(t, c.edits, c.change)
			if err == nil || files != nil || log != "" {
				t.Fatalf("%d files, printed %q, error %v; want only an error", len(files), log, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}

func TestHandWrittenMethodIsSkipped(t *testing.T) {
	files, log, err := generate(t, map[string][2]string{"pkg/remote/filesystem.go": {
		"// PathValid ", "func (c Filesystem) Mkdir() {}\n\n// PathValid "}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(files["pkg/remote/filesystem_calls.go"]), ") Mkdir(") || !strings.Contains(log, "Filesystem.Mkdir is hand-written") {
		t.Errorf("Mkdir was generated, or not printed: %q", log)
	}
}
