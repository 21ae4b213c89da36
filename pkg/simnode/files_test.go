package simnode_test

import (
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

const pods = `C:\var\lib\kubelet\pods`

func paths(t *testing.T, n *simnode.Node) []string {
	t.Helper()
	files, err := n.Files(pods)
	must(t, err)
	var all []string
	for _, f := range files {
		all = append(all, f.Path)
	}
	return all
}

// Files from outside are files of the node.
func TestFilesFromOutside(t *testing.T) {
	n := simnode.New(t)
	for _, put := range []struct {
		path string
		dir  bool
		size int64
	}{{pods + `\a`, true, 0}, {pods + `\a\file`, false, 10}, {pods + `\a\file`, false, 5}, {pods + `\a`, true, 0}} {
		must(t, n.PutFile(put.path, put.dir, put.size))
	}
	files, err := n.Files(pods)
	if err != nil || len(files) != 3 || !files[1].Dir || files[2].Path != pods+`\a\file` || files[2].Size != 5 || files[2].Dir {
		t.Fatalf("files = %+v, %v", files, err)
	}
	if err := n.RemoveFile(pods + `\a`); err == nil {
		t.Error("a directory with a file can be removed")
	}
	if err := n.PutFile(pods+`\a`, false, 0); err == nil {
		t.Error("a file can be put at the path of a directory")
	}
	if err := n.PutFile(pods+`\missing\file`, false, 0); err == nil {
		t.Error("a file can be put in a directory that is missing")
	}
	if _, err := n.Filesystem().RmdirContents(t.Context(), &filesystem.RmdirContentsRequest{Path: pods}); err != nil {
		t.Error(err)
	}
	if err := n.RemoveFile(pods + `\a`); err != nil {
		t.Errorf("remove of a missing directory: %v", err)
	}
	if files, err := n.Files(pods + `\a`); err != nil || files != nil {
		t.Errorf("files of a missing directory: %v, %v", files, err)
	}
}

// A watcher brings changes before a call, and sees the changes of the call before it
// returns.
func TestWatchFiles(t *testing.T) {
	n := simnode.New(t)
	brought := false
	seen := make(chan []string, 100)
	stop, err := n.WatchFiles(func() {
		if !brought {
			brought = true
			if err := n.PutFile(pods+`\outside`, true, 0); err != nil {
				t.Error(err)
			}
		}
	}, func() { seen <- paths(t, n) })
	must(t, err)
	if _, err := n.WatchFiles(func() {}, func() {}); err == nil {
		t.Error("a second watcher is accepted")
	}
	exists, err := n.Filesystem().PathExists(t.Context(), &filesystem.PathExistsRequest{Path: pods + `\outside`})
	if err != nil || !exists.Exists {
		t.Errorf("the directory from outside: %v, %v", exists, err)
	}
	must(t, ignore(n.Filesystem().Mkdir(t.Context(), &filesystem.MkdirRequest{Path: pods + `\made`})))
	stop()
	found := false
	for range len(seen) {
		found = found || slices.Contains(<-seen, pods+`\made`)
	}
	if !found {
		t.Error("the watcher has not seen the directory when the call returns")
	}
	if _, err := n.WatchFiles(func() {}, func() {}); err != nil {
		t.Errorf("after stop: %v", err)
	}
}
