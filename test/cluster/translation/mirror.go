package translation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// mirror makes the kubelet's directories on Linux and on the node fit.
type mirror struct {
	root string // the kubelet's directory on Linux
	node filesystem.Interface

	mu   sync.Mutex
	made map[string]bool // paths on Linux that the node has or had
}

// before makes the directories on the node that the kubelet has made on the way to a path.
func (m *mirror) before(ctx context.Context, file string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	deepest := ""
	for _, dir := range parents(m.root, file) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			break
		}
		deepest = dir
	}
	if deepest == "" {
		return nil
	}
	on, err := windows(m.root, deepest)
	if err != nil {
		return err
	}
	if _, err := m.node.Mkdir(ctx, &filesystem.MkdirRequest{Path: on}); err != nil {
		return err
	}
	m.made[deepest] = true
	for _, dir := range parents(m.root, deepest) {
		m.made[dir] = true
	}
	return nil
}

// after shows the kubelet what a call has left at a path.
func (m *mirror) after(ctx context.Context, file string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	on, err := windows(m.root, file)
	if err != nil {
		return err
	}
	there, err := m.node.PathExists(ctx, &filesystem.PathExistsRequest{Path: on})
	if err != nil {
		return err
	}
	if there.Exists {
		m.made[file] = true
		return os.MkdirAll(file, 0o750)
	}
	delete(m.made, file)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes the directories on the node that the kubelet has removed, the deepest first.
func (m *mirror) sweep(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, file := range m.paths() {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := m.remove(ctx, file); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// remove removes a path on the node if it is an empty directory.
func (m *mirror) remove(ctx context.Context, file string) error {
	on, err := windows(m.root, file)
	if err != nil {
		return err
	}
	link, err := m.node.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: on})
	if err == nil && !link.IsSymlink {
		_, err = m.node.Rmdir(ctx, &filesystem.RmdirRequest{Path: on})
	}
	if err == nil && !link.IsSymlink || errors.Is(err, hosterr.ErrNotFound) {
		delete(m.made, file)
		return nil
	}
	return err
}

// paths returns the paths on Linux that the node has, the deepest first.
func (m *mirror) paths() []string {
	var files []string
	for file := range m.made {
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b string) int { return len(b) - len(a) })
	return files
}

// run sweeps until ctx ends. An error is one of a proxy that does not run: the next sweep
// finds the same.
func (m *mirror) run(ctx context.Context) {
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			_ = m.sweep(ctx)
		}
	}
}

// volumes returns the paths on the node of what belongs to pods and staged volumes.
func (m *mirror) volumes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []string
	for file := range m.made {
		pods := path.Join(m.root, "pods")
		if path.Dir(file) != pods && path.Base(file) != "globalmount" {
			continue
		}
		if on, err := windows(m.root, file); err == nil {
			left = append(left, on)
		}
	}
	slices.Sort(left)
	return left
}
