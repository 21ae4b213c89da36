package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"

	"github.com/kubernetes-csi/csi-proxy/lab/mirror"
	"github.com/kubernetes-csi/csi-proxy/lab/session"
	"github.com/kubernetes-csi/csi-proxy/lab/shim"
)

// env is a node with a mirror, and a Windows program.
type env struct {
	t    *testing.T
	node *simnode.Node
	s    *session.Session
	exe  string
}

func setup(t *testing.T) *env {
	t.Helper()
	s, err := session.Open(t.Context(), t.Output())
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	switch err := shim.Install(t.Context(), s); {
	case errors.Is(err, shim.ErrNoCompiler):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "files.exe")
	cmd := exec.Command("go", "build", "-o", exe, "./testdata/files")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	n := simnode.New(t)
	m, err := mirror.Start(s, n, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &env{t, n, s, exe}
}

// limit is how long the program and the mirror may take. Only a hang takes this long.
const limit = time.Minute

// program runs operations of the Windows program, and compares what it prints.
func (e *env) program(operationsAndWants ...string) {
	e.t.Helper()
	var operations, wants []string
	for i := 0; i+1 < len(operationsAndWants); i += 2 {
		operations, wants = append(operations, operationsAndWants[i]), append(wants, operationsAndWants[i+1])
	}
	lines := e.run(operations...)
	for i, want := range wants {
		name, _, _ := strings.Cut(operations[i], "|")
		if i >= len(lines) || !strings.HasPrefix(lines[i], name+" "+want) {
			e.t.Errorf("the program: %s prints %q, want %q", operations[i], lines[min(i, len(lines)-1)], name+" "+want)
		}
	}
}

// run runs operations of the Windows program, and returns the lines that it prints.
func (e *env) run(operations ...string) []string {
	e.t.Helper()
	p, err := e.s.Start(session.Program{Path: e.exe, Args: operations, Env: []string{shim.Env}})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), limit)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		e.t.Fatal(err)
	}
	return strings.Split(strings.ReplaceAll(strings.TrimSpace(p.Output()), "\r", ""), "\n")
}

func (e *env) exists(path string, want bool) {
	e.t.Helper()
	got, err := e.node.Filesystem().PathExists(e.t.Context(), &filesystem.PathExistsRequest{Path: path})
	if err != nil || got.Exists != want {
		e.t.Errorf("on the node %s exists: %v, %v, want %v", path, got, err, want)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const pods = mirror.Dir + `\pods`

// What a program does with files, the node has.
func TestProgramToNode(t *testing.T) {
	e := setup(t)
	e.program(`mkdir|`+pods+`\a\b\c`, "ok", `write|`+pods+`\a\b\file|12345`, "ok")
	e.exists(pods+`\a\b\c`, true)
	files, err := e.node.Files(pods + `\a\b\file`)
	if err != nil || len(files) != 1 || files[0].Size != 5 {
		t.Errorf("the file of 5 bytes is %+v on the node, %v", files, err)
	}
	e.program(`rename|`+pods+`\a\b|`+pods+`\moved`, "ok", `write|`+pods+`\moved\file|1234567`, "ok", `mkdir|`+pods+`\moved\c\later`, "ok")
	e.exists(pods+`\a\b`, false)
	e.exists(pods+`\moved\c\later`, true)
	files, err = e.node.Files(pods + `\moved\file`)
	if err != nil || len(files) != 1 || files[0].Size != 7 {
		t.Errorf("the renamed file of 7 bytes is %+v on the node, %v", files, err)
	}
	e.program(`removeall|`+pods+`\moved`, "ok", `remove|`+pods+`\a`, "ok")
	e.exists(pods+`\moved`, false)
	e.exists(pods+`\a`, false)
	e.exists(pods, true)

	// What a program writes aside and renames over its file, as state is written, is there once;
	// so is what takes the place of another kind.
	state := pods + `\state`
	e.program(`mkdir|`+pods+`\kind`, "ok", `write|`+state+`|1`, "ok", `write|`+state+`.tmp|12345`, "ok")
	e.exists(state+`.tmp`, true)
	e.program(`rename|`+state+`.tmp|`+state, "ok", `remove|`+pods+`\kind`, "ok", `write|`+pods+`\kind|1`, "ok")
	e.exists(state+`.tmp`, false)
	e.exists(state, true)
	e.program(`size|`+state, "5", `list|`+pods, "[kind state]")
	must[*filesystem.RmdirResponse](t)(e.node.Filesystem().Rmdir(t.Context(), &filesystem.RmdirRequest{Path: state}))
	e.program(`list|`+pods, "[kind]", `remove|`+pods+`\kind`, "ok", `mkdir|`+pods+`\kind\e`, "ok")
	e.exists(pods+`\kind\e`, true)
	e.program(`removeall|`+pods+`\kind`, "ok")

	// What the node removes is removed for the program, too.
	e.program(`mkdir|`+pods+`\d\e`, "ok", `write|`+pods+`\d\file|1`, "ok")
	must[*filesystem.RmdirResponse](t)(e.node.Filesystem().Rmdir(t.Context(), &filesystem.RmdirRequest{Path: pods + `\d`, Force: true}))
	e.program(`list|`+pods, "[]")
}

// Whatever a program does while the mirror looks, the node has it in the end, and the mirror
// undoes none of it.
func TestChangesWhileMirrorLooks(t *testing.T) {
	e := setup(t)
	root := e.s.OnLinux(pods)
	on := func(below ...string) string { return filepath.Join(append([]string{root}, below...)...) }
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		do(os.MkdirAll(on(a, "c", "d"), 0o755), os.WriteFile(on(a, "c", "file"), []byte("12345"), 0o644))
		if i%4 == 1 {
			time.Sleep(time.Duration(i) * 10 * time.Microsecond) // then the mirror has some of it
		}
		do(os.Rename(on(a, "c"), on(b)), os.WriteFile(on(b, "file"), []byte("1234567"), 0o644), os.MkdirAll(on(b, "d", "later"), 0o755))
		if i%2 == 1 {
			do(os.RemoveAll(on(b)), os.RemoveAll(on(a)))
		}
	}
	e.exists(pods, true) // from here on the node has all changes
	got := map[string]simnode.Size{}
	for _, f := range must[[]simnode.File](t)(e.node.Files(pods)) {
		got[strings.ReplaceAll(strings.TrimPrefix(f.Path, pods), `\`, "/")] = f.Size
	}
	want := map[string]simnode.Size{"": 0}
	for i := 0; i < 300; i += 2 {
		a, b := fmt.Sprintf("/a%d", i), fmt.Sprintf("/b%d", i)
		want[a], want[b], want[b+"/d"], want[b+"/d/later"], want[b+"/file"] = 0, 0, 0, 0, 7
	}
	if !maps.Equal(got, want) {
		for path := range want {
			if size, ok := got[path]; !ok || size != want[path] {
				t.Errorf("the node has %s: %v, of %d bytes, want %d", path, ok, size, want[path])
			}
		}
		for path := range got {
			if _, ok := want[path]; !ok {
				t.Errorf("the node has %s, which the program has removed", path)
			}
		}
	}
	here := map[string]simnode.Size{}
	do(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below := strings.TrimPrefix(path, root)
		here[below] = 0
		if info, err := d.Info(); err == nil && !d.IsDir() {
			here[below] = simnode.Size(info.Size())
		}
		return nil
	}))
	if !maps.Equal(here, want) {
		t.Errorf("the program has %d files and directories, want %d", len(here), len(want))
	}
}

// What the node has, a program sees: directories, mounted volumes with their sizes, and
// links.
func TestNodeToProgram(t *testing.T) {
	e := setup(t)
	n, ctx := e.node, t.Context()
	const staging, target = mirror.Dir + `\plugins\kubernetes.io\csi\globalmount`, pods + `\pod\mount`
	attach := func(d simnode.Disk) simnode.DiskInfo {
		t.Helper()
		info := must[simnode.DiskInfo](t)(n.AttachDisk(d))
		if err := n.AwaitDisk(info.Number); err != nil {
			t.Fatal(err)
		}
		return info
	}
	info := attach(simnode.Disk{Size: 1 << 30})
	must[*disk.PartitionDiskResponse](t)(n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: info.Number}))
	id := must[*volume.ListVolumesOnDiskResponse](t)(n.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: info.Number})).VolumeIDs[0]
	must[*volume.FormatVolumeResponse](t)(n.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}))
	must[*filesystem.MkdirResponse](t)(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: staging}))
	e.program(`isdir|`+staging, "true", `readlink|`+staging, "error")
	must[*volume.MountVolumeResponse](t)(n.Volume().MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: staging}))
	must[*filesystem.MkdirResponse](t)(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: pods + `\pod`}))
	must[*filesystem.CreateSymlinkResponse](t)(n.Filesystem().CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: staging, TargetPath: target}))
	size := func() string {
		for _, v := range must[simnode.State](t)(n.Show()).Volumes {
			if v.ID == id {
				return strconv.FormatInt(int64(v.Size), 10)
			}
		}
		return "none"
	}
	e.program(`total|`+target, size())
	e.program(
		`isdir|`+target, "true", `mode|`+target, "L", `isdir|`+staging, "true", `mode|`+staging, "?", `readlink|`+target, staging, `readlink|`+strings.ToUpper(target), staging, `readlink|`+staging, `\\?\Volume{`,
		`write|`+target+`\data|content`, "ok", `list|`+staging, "[data]")

	// In each form of a path that drivers pass.
	slashes := strings.ReplaceAll(target, `\`, "/")
	for _, form := range []string{slashes, slashes[2:], target[2:], `\\?\` + target, strings.ReplaceAll(slashes, "/pods/", "//pods/./")} {
		e.program(`readlink|`+form, staging, `mode|`+form, "L", `isdir|`+form, "true")
	}
	e.program(`readlink|`+strings.ReplaceAll(staging, `\`, "/"), `\\?\Volume{`, `mode|`+strings.ReplaceAll(staging, `\`, "/"), "?")

	if err := n.GrowDisk(info.Number, 2<<30); err != nil {
		t.Fatal(err)
	}
	must[*disk.RescanResponse](t)(n.Disk().Rescan(ctx, &disk.RescanRequest{}))
	must[*volume.ResizeVolumeResponse](t)(n.Volume().ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id}))
	e.program(`total|`+target, size())

	// Without its disk a link leads nowhere; with the disk the data is there again.
	if err := n.DetachDisk(info.Number); err != nil {
		t.Fatal(err)
	}
	e.eventually(`isdir|`+target, "error")
	attach(simnode.Disk{ID: info.ID})
	e.eventually(`list|`+target, "[data]")

	// A format removes it.
	must[struct{}](t)(struct{}{}, n.MakeFile(staging+`\data`))
	again := must[*simnode.Process](t)(n.NewProcess(rules.Rules{FormatExisting: true}))
	must[*volume.FormatVolumeResponse](t)(again.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}))
	e.program(`list|`+staging, "[]", `list|`+target, "[]", `write|`+target+`\data|content`, "ok")

	// The program removes the link, and the volume stays.
	e.program(`remove|`+target, "ok", `list|`+staging, "[data]", `readlink|`+target, "error")
	e.exists(target, false)
	must[*volume.UnmountVolumeResponse](t)(n.Volume().UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: staging}))
	e.program(`isdir|`+staging, "true", `list|`+staging, "[]", `readlink|`+staging, "error")
}

// eventually runs an operation until it prints what is wanted: what a method of the node other
// than its services changes, the mirror shows soon after.
func (e *env) eventually(operation, want string) {
	e.t.Helper()
	name, _, _ := strings.Cut(operation, "|")
	for start := time.Now(); ; {
		got := e.run(operation)[0]
		if strings.HasPrefix(got, name+" "+want) {
			return
		}
		if time.Since(start) > limit {
			e.t.Fatalf("the program: %s prints %q after %v, want %q", operation, got, limit, name+" "+want)
		}
	}
}

// A share is there while its server is reachable.
func TestShares(t *testing.T) {
	e := setup(t)
	n, ctx := e.node, t.Context()
	const share, staging = `\\files.example.com\data`, mirror.Dir + `\plugins\share`
	must[*smb.NewSMBGlobalMappingResponse](t)(n.SMB().NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: staging, Username: "csi", Password: "csi"}))
	e.program(`write|`+staging+`\file|1`, "ok", `isdir|`+staging, "true", `readlink|`+staging, share)
	if err := n.SetSMBServerDown("files.example.com", true); err != nil {
		t.Fatal(err)
	}
	e.eventually(`list|`+staging, "error")
	if err := n.SetSMBServerDown("files.example.com", false); err != nil {
		t.Fatal(err)
	}
	e.eventually(`list|`+staging, "[file]")
}
