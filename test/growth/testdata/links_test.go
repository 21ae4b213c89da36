package growth_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v2alpha2"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	old "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v2alpha2"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// foreign is a driver's HostAPI, which has only what is published.
type foreign struct{}

func (foreign) PathExists(string) (bool, error)    { return true, nil }
func (foreign) PathValid(string) (bool, error)     { return true, nil }
func (foreign) Mkdir(string) error                 { return nil }
func (foreign) Rmdir(string, bool) error           { return nil }
func (foreign) RmdirContents(string) error         { return nil }
func (foreign) CreateSymlink(string, string) error { return nil }
func (foreign) IsSymlink(string) (bool, error)     { return true, nil }

// TestNewVersion uses the new method and the new fields through pipes, with the rules of the
// daemon: by the generated client of the new version, by package remote, which says what older
// versions lack, and by an old client, for which nothing has changed.
func TestNewVersion(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)

	n := nodetest.New(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}}}, nil)
	s, err := services.Open(n.Node)
	if err != nil {
		t.Fatal(err)
	}
	const pods = `C:\var\lib\kubelet\pods`
	dirs, err := policy.ParseDirs([]string{`C:\var\lib\kubelet`})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Filesystem.Mkdir(t.Context(), &filesystem.MkdirRequest{Path: pods}); err != nil {
		t.Fatal(err)
	}

	ready := make(chan struct{})
	server, err := serve.Open(context.Background(), serve.Config{Ready: func() { close(ready) }},
		serve.Pipes(wire.Services(wire.Groups{Filesystem: s.Filesystem, Check: (&policy.Rules{Dirs: dirs}).Check}))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	<-ready

	c, err := client.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const link, later = pods + `\link`, pods + `\later`
	if _, err := c.CreateSymlink(t.Context(), &v2alpha2.CreateSymlinkRequest{SourcePath: later, TargetPath: link, IsDirectory: true}); err != nil {
		t.Fatal(err)
	}
	if out, err := c.PathExists(t.Context(), &v2alpha2.PathExistsRequest{Path: link}); err != nil || !out.Exists || !out.IsDirectory {
		t.Errorf("PathExists of a link to a directory = %v, %v, want both fields", out, err)
	}
	if out, err := c.GetSymlinkTarget(t.Context(), &v2alpha2.GetSymlinkTargetRequest{Path: link}); err != nil || out.Target != later {
		t.Errorf("GetSymlinkTarget = %v, %v, want %s", out, err, later)
	}
	if _, err := c.GetSymlinkTarget(t.Context(), &v2alpha2.GetSymlinkTargetRequest{Path: `C:\Windows`}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("GetSymlinkTarget outside of the working directories: %v, want PermissionDenied", err)
	}

	// An old client, and an old client that sends the new field.
	o, err := old.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	exists, err := o.PathExists(t.Context(), &v1.PathExistsRequest{Path: link})
	if err != nil || !exists.Exists || len(exists.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("PathExists of v1 = %v, %v, want its own field only", exists, err)
	}
	request := &v1.CreateSymlinkRequest{SourcePath: later, TargetPath: pods + `\other`}
	request.ProtoReflect().SetUnknown([]byte{3<<3 | 0, 1}) // is_directory = true
	if _, err := o.CreateSymlink(t.Context(), request); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "field 3") {
		t.Errorf("CreateSymlink of v1 with field 3: %v, want InvalidArgument", err)
	}

	newest, err := remote.NewFilesystem(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer newest.Close()
	if out, err := newest.GetSymlinkTarget(t.Context(), &filesystem.GetSymlinkTargetRequest{Path: link}); err != nil || out.Target != later {
		t.Errorf("remote GetSymlinkTarget = %v, %v, want %s", out, err, later)
	}
	fallback, err := remote.NewFilesystem(t.Context(), remote.WithVersions(apiversion.NewVersionOrPanic("v2alpha1"), apiversion.NewVersionOrPanic("v1beta1")))
	if err != nil {
		t.Fatal(err)
	}
	defer fallback.Close()
	if _, err := fallback.GetSymlinkTarget(t.Context(), &filesystem.GetSymlinkTargetRequest{Path: link}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("remote GetSymlinkTarget of v2alpha1: %v, want ErrUnsupported", err)
	}
	if _, err := fallback.CreateSymlink(t.Context(), &filesystem.CreateSymlinkRequest{SourcePath: later, TargetPath: pods + `\other`, IsDirectory: true}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "IsDirectory") {
		t.Errorf("remote CreateSymlink with IsDirectory of v2alpha1: %v, want ErrUnsupported", err)
	}
	if out, err := fallback.PathExists(t.Context(), &filesystem.PathExistsRequest{Path: link}); err != nil || !out.Exists || out.IsDirectory {
		t.Errorf("remote PathExists of v2alpha1 = %v, %v, want the old field only", out, err)
	}

	// A driver's own HostAPI lacks the operations.
	own, err := filesystem.New(foreign{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.GetSymlinkTarget(t.Context(), &filesystem.GetSymlinkTargetRequest{Path: link}); !errors.Is(err, hosterr.ErrUnimplemented) {
		t.Errorf("GetSymlinkTarget of another HostAPI: %v, want ErrUnimplemented", err)
	}
	if _, err := own.CreateSymlink(t.Context(), &filesystem.CreateSymlinkRequest{SourcePath: later, TargetPath: link, IsDirectory: true}); !errors.Is(err, hosterr.ErrUnimplemented) {
		t.Errorf("CreateSymlink with IsDirectory of another HostAPI: %v, want ErrUnimplemented", err)
	}
	if out, err := own.PathExists(t.Context(), &filesystem.PathExistsRequest{Path: link}); err != nil || !out.Exists || out.IsDirectory {
		t.Errorf("PathExists of another HostAPI = %v, %v, want only what it knows", out, err)
	}
}
