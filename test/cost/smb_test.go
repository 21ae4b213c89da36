package cost

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

const server = "files.example.com"

// shareOperations are requests about one share that is not mapped at first.
func shareOperations() []operation {
	const remote = `\\` + server + `\mine`
	mapping := func(ctx context.Context, w *world) error {
		return err2(w.SMB.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{
			RemotePath: remote, LocalPath: w.deep + `\share`, Username: "csi", Password: "csi"}))
	}
	return []operation{
		{name: "NewSMBGlobalMapping", calls: 25, run: mapping},
		{name: "NewSMBGlobalMapping, again", calls: 11, run: mapping},
		{name: "RemoveSMBGlobalMapping", calls: 4, run: func(ctx context.Context, w *world) error {
			return err2(w.SMB.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: remote}))
		}},
	}
}

// measureShare returns the calls of each operation on a node with so many other mappings.
func measureShare(t *testing.T, mappings int) []int64 {
	t.Helper()
	var all []int64
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, func(c *nodespec.Config) {
			c.SMBServers = []nodespec.SMBServer{{Name: server, Shares: []string{"mine"}, Accounts: []nodespec.SMBAccount{{User: "csi", Password: "csi"}}}}
		})
		for i := range mappings {
			w.others = append(w.others, win32.Use{Remote: fmt.Sprintf(`\\%s\share%d`, server, i), User: "csi"})
		}
		// As the daemon does when it starts.
		if err := w.SMB.Survey(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, o := range shareOperations() {
			n, err := w.count(func() error { return o.run(t.Context(), w) })
			if err != nil {
				t.Fatalf("%s with %d mappings: %v", o.name, mappings, err)
			}
			all = append(all, n)
		}
	})
	return all
}
