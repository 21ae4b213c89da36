package rows_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
)

const repository = "../../../.."

// remote runs the generator on a copy of the repository after edits: in each file, by
// name, the first text is replaced by the second.
func remote(t *testing.T, edits map[string][2]string, change func(*rows.Config)) (map[string][]byte, error) {
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
	copyDir("client/api", "*.proto")
	copyDir("client/api", "*/*/*.proto")
	copyDir("pkg", "*/types.go")
	copyDir("pkg/remote", "*.go")
	for name := range edits {
		t.Fatalf("%s does not exist", name)
	}
	c := rows.New(root)
	if change != nil {
		change(c)
	}
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Remote(set)
}

// newest is the newest version of a group in this repository.
func newest(t *testing.T, group string) string {
	t.Helper()
	set, err := apis.Load(filepath.Join(repository, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, v := range set.Versions() {
		if v.Group.Name == group {
			name = v.Name // oldest first
		}
	}
	return name
}

// newVersion adds version v99 of the disk group to the copy: the newest one, after edits.
func newVersion(t *testing.T, c *rows.Config, edits ...string) {
	t.Helper()
	now := newest(t, "disk")
	proto, err := os.ReadFile(filepath.Join(repository, "client/api/disk", now, "api.proto"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.Root, "client/api/disk/v99")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(append(edits, "package "+now+";", "package v99;", "disk/"+now, "disk/v99")...).Replace(string(proto))
	if err := os.WriteFile(filepath.Join(dir, "api.proto"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantIn(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// A new version is tried first, with its own messages, which older versions with the same
// messages share.
func TestNewVersionIsTriedFirst(t *testing.T) {
	now := newest(t, "disk")
	files, err := remote(t, nil, func(c *rows.Config) { newVersion(t, c) })
	if err != nil {
		t.Fatal(err)
	}
	wantIn(t, string(files["pkg/remote/disk_calls.go"]), `{"v99", &v99.Disk_ServiceDesc},`+"\n\t\t"+`{"`+now+`", &`+now+`.`,
		`case "v99", "`+now+`"`, "return v99_PartitionDisk(ctx, c.pipe, in)", "&v99.PartitionDiskRequest{")
}

// A request with a field that the version does not have is refused, also by methods that are
// written by hand, unless they use the field. A field that a response lacks is zero.
func TestRemoteFieldsOfNewVersion(t *testing.T) {
	files, err := remote(t, map[string][2]string{"pkg/disk/types.go": {
		"type PartitionDiskRequest struct {", "type PartitionDiskRequest struct {\n\tKeep *DiskIDs\n\tStyle string\n"}},
		func(c *rows.Config) {
			newVersion(t, c, "message PartitionDiskRequest {", "message PartitionDiskRequest {\n  DiskIDs keep = 70;\n  string style = 71;")
		})
	if err != nil {
		t.Fatal(err)
	}
	text := string(files["pkg/remote/disk_calls.go"])
	absent := "\t\tif in.Keep != nil {\n\t\t\treturn nil, c.pipe.lacksField(\"PartitionDisk\", \"Keep\")\n\t\t}\n" +
		"\t\tif in.Style != \"\" {\n\t\t\treturn nil, c.pipe.lacksField(\"PartitionDisk\", \"Style\")\n\t\t}\n"
	wantIn(t, text, "case \"v99\":\n\t\treturn v99_PartitionDisk(ctx, c.pipe, in)\n", absent+"\t\treturn "+newest(t, "disk")+"_PartitionDisk(")
	if calls, refused := strings.Count(text, "_PartitionDisk(ctx, c.pipe, in)"), strings.Count(text, absent); refused != calls-1 {
		t.Errorf("%d of %d calls of PartitionDisk refuse the new fields, want all but that of v99:\n%s", refused, calls, text)
	}

	_, err = remote(t, map[string][2]string{"pkg/iscsi/types.go": {"type TargetPortal struct {", "type TargetPortal struct {\n\tTag uint32"}},
		func(c *rows.Config) {
			dir := filepath.Join(c.Root, "client/api/iscsi/v99")
			proto, err := os.ReadFile(filepath.Join(repository, "client/api/iscsi", newest(t, "iscsi"), "api.proto"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("package "+newest(t, "iscsi")+";", "package v99;", "iscsi/"+newest(t, "iscsi"), "iscsi/v99", "message TargetPortal {", "message TargetPortal {\n  uint32 tag = 70;").Replace(string(proto))
			if err := os.WriteFile(filepath.Join(dir, "api.proto"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	if err == nil || !strings.Contains(err.Error(), "has no field for TargetPortal.Tag, which a caller may set: write the method by hand") {
		t.Errorf("a new field of a message in a request: error %v, want one that asks for a method by hand", err)
	}
}

func TestRemoteRefusals(t *testing.T) {
	const (
		diskTypes   = "pkg/disk/types.go"
		volumeTypes = "pkg/volume/types.go"
		iscsiTypes  = "pkg/iscsi/types.go"
	)
	disk, filesystem, volume := newest(t, "disk"), newest(t, "filesystem"), newest(t, "volume")
	diskProto := "client/api/disk/" + disk + "/api.proto"
	for _, c := range []struct {
		about  string
		edits  map[string][2]string
		change func(*rows.Config)
		want   []string
	}{
		{"a field of a request that the version cannot carry",
			map[string][2]string{volumeTypes: {"type FormatVolumeRequest struct {", "type FormatVolumeRequest struct {\n\tLabel string"}}, nil,
			[]string{"volume/" + volume + ": message FormatVolumeRequest has no field for volume.FormatVolumeRequest.Label; write the method by hand"}},
		{"a method that the version does not have",
			map[string][2]string{diskTypes: {"type Interface interface {", "type Interface interface {\n\tErase(context.Context, *RescanRequest) (*RescanResponse, error)"}}, nil,
			[]string{"disk/" + disk + ", the newest version, has no method for disk.Service.Erase: add it to the version, or write " + disk + "_Erase or Disk.Erase by hand in pkg/remote"}},
		{"a method that was renamed in the version",
			map[string][2]string{diskProto: {"rpc Rescan(", "rpc ScanAgain("}}, nil,
			[]string{"disk/" + disk + ", the newest version, has no method for disk.Service.Rescan", "disk/" + disk + " has a method ScanAgain that is never called"}},
		{"a method that was written by hand and no longer is",
			map[string][2]string{"pkg/remote/filesystem.go": {") PathValid(", ") PathIsValid("}}, nil,
			[]string{"filesystem/" + filesystem + ", the newest version, has no method for filesystem.Service.PathValid: add it"}},
		{"a method that an older version has under another name",
			map[string][2]string{"pkg/remote/filesystem.go": {"v1beta1_CreateSymlink(", "v1beta1_MakeSymlink("}}, nil,
			[]string{"filesystem/v1beta1 has a method LinkPath that is never called: write v1beta1_METHOD, which calls it", "filesystem/v1alpha1 has a method LinkPath that is never called"}},
		{"a method by hand that calls another one",
			map[string][2]string{"pkg/remote/filesystem.go": {`"LinkPath"`, `"LinkPaths"`}}, nil,
			[]string{"filesystem/v1beta1 has a method LinkPath that is never called"}},
		{"a method that corresponds to none, without an exception",
			nil, func(c *rows.Config) {
				c.Exceptions = slices.DeleteFunc(rows.PublishedExceptions(), func(e rows.Exception) bool { return e.Field == "" })
			},
			[]string{"disk/v1alpha1 has a method GetDiskNumberByName that is never called"}},
		{"a directory that does not exist",
			nil, func(c *rows.Config) { c.RemoteDir = "pkg/far" },
			[]string{"pkg/far"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			files, err := remote(t, c.edits, c.change)
			if err == nil || files != nil {
				t.Fatalf("%d files, error %v; want only an error", len(files), err)
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
	files, err := remote(t, map[string][2]string{"pkg/remote/filesystem.go": {
		"// PathValid ", "func (c Filesystem) Mkdir() {}\n\n// PathValid "}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(files["pkg/remote/filesystem_calls.go"]), ") Mkdir(") {
		t.Error("Mkdir was generated")
	}
}
