package emulated

import (
	"fmt"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// This is for programs outside of the node that see its files in another way, such as
// those under Wine, which see directories of Linux.

// watch is what [Node.Watch] set.
type watch struct {
	before, after func()
	signal        chan struct{} // a change outside of a Win32 call
}

// Watch calls before ahead of each Win32 call, and after when the state of the node has
// changed: before the Win32 call that changed it returns, or soon after another change.
// Both may call the methods of this file, and no others. There is one watcher at a time.
func (n *Node) Watch(before, after func()) (stop func(), err error) {
	w := &watch{before, after, make(chan struct{}, 1)}
	if !n.watch.CompareAndSwap(nil, w) {
		return nil, fmt.Errorf("watch: the files of this node are watched already")
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-w.signal:
				after()
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		n.watch.CompareAndSwap(w, nil)
		close(done)
		running.Wait()
	}), nil
}

// changed is called when the stored state has changed, with the node's lock.
func (n *Node) changed() {
	n.changes.Add(1)
	if w := n.watch.Load(); w != nil {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	}
}

// changedByTime is called when the time has come for something that was stored earlier.
func (n *Node) changedByTime() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed()
}

// outside runs a change that comes from outside of the node.
func (n *Node) outside(what, path string, change func(t *tx) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if err := n.transact(change); err != nil {
		return fmt.Errorf("%s %q: %w", what, path, n.cause(err))
	}
	return nil
}

// place finds a path, without following a link at its end.
func (n *Node) place(path string) (place, error) {
	return n.resolve(nil, `\??\`+strings.TrimRight(path, `\`), lookupMode{openLast: true})
}

// Files returns a directory and all files and directories below it, each after its parent.
// It does not follow links. A missing directory is no error.
func (n *Node) Files(dir string) ([]nodespec.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return nil, err
	}
	p, err := n.place(dir)
	if err != nil || p.entry == nil {
		return nil, nil
	}
	var files []nodespec.File
	n.addFiles(&files, p.entry, strings.TrimRight(dir, `\`))
	return files, nil
}

func (n *Node) addFiles(files *[]nodespec.File, e *filetree.Entry, path string) {
	f := nodespec.File{ID: uint64(e.ID()), Path: path, Dir: e.IsDir(), Size: nodespec.Size(e.Size())}
	if e.Reparse() != nil {
		f.Link = n.linkTo(e, path)
	}
	*files = append(*files, f)
	for c, more := (filetree.Cursor{}), true; more; {
		var child *filetree.Entry
		if child, c, more = e.Next(c); more {
			n.addFiles(files, child, path+`\`+child.Name())
		}
	}
}

// linkTo describes where the link e at a path leads.
func (n *Node) linkTo(e *filetree.Entry, path string) *nodespec.Link {
	r, err := win32.DecodeReparse(e.Reparse())
	if err != nil {
		return &nodespec.Link{}
	}
	link := &nodespec.Link{Target: r.Substitute}
	p, err := n.resolve(nil, `\??\`+path, lookupMode{})
	if err != nil || p.exists() != nil {
		return link
	}
	link.Exists = true
	if p.vol != nil && p.vol.remote == "" {
		link.VolumeSize, link.FileSystem = nodespec.Size(p.vol.length()), p.vol.fsid
	}
	return link
}

// PutFile makes a file or directory in a directory that exists, and sets the size of a
// file.
func (n *Node) PutFile(path string, dir bool, size int64) error {
	return n.outside("put", path, func(t *tx) error {
		p, err := n.place(path)
		if err != nil {
			return err
		}
		if p.entry == nil {
			attributes := uint32(win32.FILE_ATTRIBUTE_ARCHIVE)
			if dir {
				attributes = win32.FILE_ATTRIBUTE_DIRECTORY
			}
			if p.entry, err = p.vol.tree.Create(t.files(p.vol), p.dir, p.name, attributes); err != nil {
				return err
			}
		}
		switch {
		case p.entry.IsDir() != dir:
			return win32.STATUS_OBJECT_NAME_COLLISION // Source: node, only for tests
		case dir || p.entry.Size() == size:
			return nil
		}
		return p.vol.tree.SetSize(t.files(p.vol), p.entry, size)
	})
}

// SetRights makes the access control list of a file or directory grant these access rights
// to the account of the services, and nothing else.
func (n *Node) SetRights(path string, rights uint32) error {
	return n.outside("set rights", path, func(t *tx) error {
		p, err := n.place(path)
		if err == nil {
			err = p.exists()
		}
		if err != nil {
			return err
		}
		p.vol.tree.SetRights(t.files(p.vol), p.entry, rights)
		return nil
	})
}

// SetShortName gives a file or directory a short name (8.3), as Windows does for a long one,
// and as an account with SeRestorePrivilege can ([MS-FSCC], FileShortNameInformation).
func (n *Node) SetShortName(path, name string) error {
	return n.outside("set short name", path, func(t *tx) error {
		p, err := n.place(path)
		if err == nil {
			err = p.exists()
		}
		if err != nil {
			return err
		}
		return p.vol.tree.SetShortName(t.files(p.vol), p.entry, name)
	})
}

// RenameFile gives a file, directory or link another path.
func (n *Node) RenameFile(from, to string) error {
	return n.outside("rename", from, func(t *tx) error {
		p, err := n.place(from)
		if err == nil {
			err = p.exists()
		}
		if err != nil {
			return err
		}
		target, err := n.place(to)
		if err != nil {
			return err
		}
		if target.vol != p.vol || target.dir == nil {
			return win32.STATUS_NOT_SAME_DEVICE // Source: node, only for tests
		}
		open, err := p.vol.tree.Open(p.entry, win32.DELETE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE, false)
		if err != nil {
			return err
		}
		defer p.vol.tree.Close(t.files(p.vol), open)
		return p.vol.tree.Rename(t.files(p.vol), open, target.dir, target.name, true)
	})
}

// RemoveFile removes a file, a link or an empty directory. One that is missing is no
// error.
func (n *Node) RemoveFile(path string) error {
	return n.outside("remove", path, func(t *tx) error {
		p, err := n.place(path)
		if err != nil || p.entry == nil {
			return nil
		}
		open, err := p.vol.tree.Open(p.entry, win32.DELETE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE, false)
		if err != nil {
			return err
		}
		err = p.vol.tree.SetDisposition(open, win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS|win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
		p.vol.tree.Close(t.files(p.vol), open)
		return err
	})
}
