package files

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// This is for programs outside of the node that see its files in another way, such as
// those under Wine, which see directories of Linux.

// place finds a path, without following a link at its end.
func (n *Namespace) place(path string) (place, error) {
	return n.resolve(nil, `\??\`+strings.TrimRight(path, `\`), lookupMode{openLast: true})
}

// existing is place of a path at which there is something.
func (n *Namespace) existing(path string) (place, error) {
	p, err := n.place(path)
	if err == nil {
		err = p.exists()
	}
	return p, err
}

// Files returns a directory and all files and directories below it, each after its parent.
// It does not follow links. A missing directory is no error.
func (n *Namespace) Files(dir string) ([]nodespec.File, error) {
	if err := n.Lock(); err != nil {
		return nil, err
	}
	defer n.Unlock()
	p, err := n.place(dir)
	if err != nil || p.entry == nil {
		return nil, nil
	}
	var files []nodespec.File
	n.addFiles(&files, p.entry, strings.TrimRight(dir, `\`))
	return files, nil
}

func (n *Namespace) addFiles(files *[]nodespec.File, e *filetree.Entry, path string) {
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
func (n *Namespace) linkTo(e *filetree.Entry, path string) *nodespec.Link {
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
	if p.vol != nil && p.vol.Remote == "" {
		link.VolumeSize, link.FileSystem = nodespec.Size(p.vol.Size()), p.vol.FSID
	}
	return link
}

// PutFile makes a file or directory in a directory that exists, and sets the size of a
// file.
func (n *Namespace) PutFile(path string, dir bool, size int64) error {
	return n.Outside("put", path, func(t *kernel.Tx) error {
		p, err := n.place(path)
		if err != nil {
			return err
		}
		if p.entry == nil {
			attributes := uint32(win32.FILE_ATTRIBUTE_ARCHIVE)
			if dir {
				attributes = win32.FILE_ATTRIBUTE_DIRECTORY
			}
			if p.entry, err = p.vol.Tree.Create(p.vol.Changes(t), p.dir, p.name, attributes); err != nil {
				return err
			}
		}
		switch {
		case p.entry.IsDir() != dir:
			return win32.STATUS_OBJECT_NAME_COLLISION // Source: node, only for tests
		case dir || p.entry.Size() == size:
			return nil
		}
		return p.vol.Tree.SetSize(p.vol.Changes(t), p.entry, size)
	})
}

// SetRights makes the access control list of a file or directory grant these access rights
// to the account of the services, and nothing else.
func (n *Namespace) SetRights(path string, rights uint32) error {
	return n.Outside("set rights", path, func(t *kernel.Tx) error {
		p, err := n.existing(path)
		if err != nil {
			return err
		}
		p.vol.Tree.SetRights(p.vol.Changes(t), p.entry, rights)
		return nil
	})
}

// SetShortName gives a file or directory a short name (8.3), as Windows does for a long one,
// and as an account with SeRestorePrivilege can ([MS-FSCC], FileShortNameInformation).
func (n *Namespace) SetShortName(path, name string) error {
	return n.Outside("set short name", path, func(t *kernel.Tx) error {
		p, err := n.existing(path)
		if err != nil {
			return err
		}
		return p.vol.Tree.SetShortName(p.vol.Changes(t), p.entry, name)
	})
}

// RenameFile gives a file, directory or link another path.
func (n *Namespace) RenameFile(from, to string) error {
	return n.Outside("rename", from, func(t *kernel.Tx) error {
		p, err := n.existing(from)
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
		open, err := p.vol.Tree.Open(p.entry, win32.DELETE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE)
		if err != nil {
			return err
		}
		defer p.vol.Tree.Close(p.vol.Changes(t), open)
		return p.vol.Tree.Rename(p.vol.Changes(t), open, target.dir, target.name)
	})
}

// RemoveFile removes a file, a link or an empty directory. One that is missing is no
// error.
func (n *Namespace) RemoveFile(path string) error {
	return n.Outside("remove", path, func(t *kernel.Tx) error {
		p, err := n.place(path)
		if err != nil || p.entry == nil {
			return nil
		}
		open, err := p.vol.Tree.Open(p.entry, win32.DELETE, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE)
		if err != nil {
			return err
		}
		err = p.vol.Tree.SetDisposition(open, win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS|win32.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
		p.vol.Tree.Close(p.vol.Changes(t), open)
		return err
	})
}
