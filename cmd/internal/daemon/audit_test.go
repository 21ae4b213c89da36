package daemon_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// A request that changed the node is in the audit log whatever its answer is, and however many
// requests that changed nothing came before it: those are counted.
func TestAuditHasWhatWasDone(t *testing.T) {
	sockets(t)
	p := start(t)
	p.await(t, "Serving ")
	conn, err := transport.Connect(pipe.Path("csi-proxy-filesystem-v1"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	files := filesystemv1.NewFilesystemClient(conn)
	const dir = `C:\var\lib\kubelet\pods\victim`
	for _, name := range []string{dir, dir + `\a`, dir + `\b`, dir + `\c`} {
		if _, err := files.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: name}); err != nil {
			t.Fatal(err)
		}
	}
	for range 150 {
		if _, err := files.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: `C:\Windows\evil`}); err == nil {
			t.Fatal(`made C:\Windows\evil`)
		}
		if _, err := files.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: dir}); err != nil {
			t.Fatal(err)
		}
	}
	// The directories in it are removed, and then it cannot be.
	if err := control(t).Fail(t.Context(), nodespec.Fault{Call: "SetInformation", Code: win32.FileDispositionInformationEx, Skip: 3, Error: "STATUS_ACCESS_DENIED"}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Rmdir(t.Context(), &filesystemv1.RmdirRequest{Path: dir, Force: true}); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("Rmdir = %v, want PermissionDenied", err)
	}
	if out, err := files.PathExists(t.Context(), &filesystemv1.PathExistsRequest{Path: dir + `\a`}); err != nil || out.Exists {
		t.Fatalf("the directory in it exists: %t, %v, want that it was removed", out.GetExists(), err)
	}
	log, _ := p.output()
	audited := map[string]int{}
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"Audit"`) {
			for _, method := range []string{"Mkdir", "Rmdir"} {
				if strings.Contains(line, `method="`+method+`"`) {
					audited[method]++
				}
			}
		}
	}
	if audited["Rmdir"] != 1 {
		t.Errorf("the audit log has %d lines about Rmdir, want 1", audited["Rmdir"])
	}
	if n := audited["Mkdir"]; n < 4 || n > 100 {
		t.Errorf("the audit log has %d lines about Mkdir, want the four that made a directory, and a few of the 300 that changed nothing", n)
	}
}
