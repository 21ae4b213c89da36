package files

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// maxLinks is how many reparse points the resolution of a name may follow
// (Microsoft: "Reparse Points and File Operations").
const maxLinks = 63

// place is the result of resolving a name: an existing entry, or a directory and
// the name of a missing entry in it.
type place struct {
	vol   *volume.Volume
	tree  *filetree.Tree
	dir   *filetree.Entry // the directory of name; nil if the place is the start of the search
	name  string
	entry *filetree.Entry // nil if there is none
	slash bool            // the name ends in a backslash
}

// lookupMode controls the treatment of reparse points.
type lookupMode struct {
	dontReparse bool // OBJ_DONT_REPARSE: fail instead of following any
	openLast    bool // FILE_OPEN_REPARSE_POINT: do not follow the last component
}

// resolve finds the place of name: relative to the directory from, or, if from is
// nil, as an absolute NT name. Errors are NTSTATUS, with their source next to
// them. [MS-FSA] 2.1.5.1 refers to phases 1 and 6 of that section.
func (n *Namespace) resolve(from *file, name string, m lookupMode) (place, error) {
	if volume.Units(name) > volume.MaxPath {
		return place{}, win32.STATUS_NAME_TOO_LONG // Source: inference, RtlInitUnicodeStringEx
	}
	var at place
	var err error
	if from == nil {
		if at, name, err = n.device(name, m); err != nil {
			return place{}, err
		}
	} else {
		at = place{vol: from.vol, tree: from.tree, entry: from.open.Entry()}
		if strings.HasPrefix(name, `\`) {
			// Source: code, fastfat create.c, "A relative open must be via a relative path".
			return place{}, win32.STATUS_OBJECT_NAME_INVALID
		}
	}
	for links := 0; ; links++ {
		found, target, err := walk(at, name, m)
		if err != nil || target == "" {
			return found, err
		}
		if m.dontReparse {
			// docs/develop/contract/files.md#opening-below-a-directory; ntdef.h says the
			// same of OBJ_DONT_REPARSE.
			// Source: code, hcsshim safefile; OBJ_DONT_REPARSE in ntdef.h.
			return place{}, win32.STATUS_REPARSE_POINT_ENCOUNTERED
		}
		if links == maxLinks {
			// Source: inference, by the text of the code in ntstatus.h; the limit is in "Reparse
			// Points".
			return place{}, win32.STATUS_REPARSE_POINT_NOT_RESOLVED
		}
		if at, name, err = n.device(target, lookupMode{}); err != nil {
			return place{}, err
		}
	}
}

// device resolves the device at the front of an absolute NT name. It returns the
// root directory of the volume and the rest of the name, relative to it.
func (n *Namespace) device(name string, m lookupMode) (at place, rest string, err error) {
	if !strings.HasPrefix(name, `\`) {
		// Source: inference, neither absolute nor relative to a handle (ntstatus.h).
		return place{}, "", win32.STATUS_OBJECT_PATH_SYNTAX_BAD
	}
	short, link := volume.CutPrefixFold(name, `\??\`)
	if remote, network := volume.CutPrefixFold(short, `UNC\`); link && network {
		if m.dontReparse {
			// Source: inference, a link of the object manager, as a drive letter is.
			return place{}, "", win32.STATUS_REPARSE_POINT_ENCOUNTERED
		}
		v, rest, err := n.shares.OpenShare(remote)
		if err != nil {
			return place{}, "", err
		}
		return place{vol: v, tree: v.Tree, entry: v.Tree.Root()}, rest, nil
	}
	vol, rest, ok := n.volumes.OfName(name)
	if !ok {
		// ntstatus.h: PATH if a component on the way is missing, NAME if it is
		// the last one. The directories of devices exist.
		if !link {
			if short, link = volume.CutPrefixFold(name, `\Device\`); !link {
				short = name[1:]
			}
		}
		if strings.Contains(short, `\`) {
			// Source: inference, by the text of the code in ntstatus.h.
			return place{}, "", win32.STATUS_OBJECT_PATH_NOT_FOUND
		}
		// Source: inference, by the text of the code in ntstatus.h.
		return place{}, "", win32.STATUS_OBJECT_NAME_NOT_FOUND
	}
	if link && m.dontReparse {
		// `\??\C:` is a symbolic link of the object manager to the volume's device, and
		// OBJ_DONT_REPARSE means those too (general knowledge; ntdef.h speaks of "any
		// reparses"). Windows' own callers use the flag with relative names only.
		// Source: inference, by "any reparses" in ntdef.h: a drive letter is a link of the
		// object manager.
		return place{}, "", win32.STATUS_REPARSE_POINT_ENCOUNTERED
	}
	switch {
	case rest == "":
		// Source: node, the device itself, for which this project uses CreateFile.
		return place{}, "", win32.STATUS_NOT_SUPPORTED
	case vol.OfflineNow:
		return place{}, "", win32.STATUS_DEVICE_NOT_READY // Source: inference, as for the volume itself
	case vol.Exclusive():
		return place{}, "", win32.STATUS_ACCESS_DENIED // Source: code, fastfat create.c, of a locked volume
	case vol.Corrupt:
		return place{}, "", win32.STATUS_DISK_CORRUPT_ERROR // Source: inference, by the text of the code in ntstatus.h
	case vol.Tree == nil:
		// Source: document, STATUS_UNRECOGNIZED_VOLUME (ntstatus.h).
		return place{}, "", win32.STATUS_UNRECOGNIZED_VOLUME // docs/develop/contract/volumes.md#is-it-formatted
	}
	rest = rest[1:]
	if len(rest) > 1 {
		// A file system accepts one extra backslash at the front (fastfat's
		// create.c, in Microsoft's driver samples).
		rest = strings.TrimPrefix(rest, `\`)
	}
	return place{vol: vol, tree: vol.Tree, entry: vol.Tree.Root()}, rest, nil
}

// walk walks the names of name, from at. If there is a reparse point to follow,
// target is the absolute name with which the search starts again.
func walk(at place, name string, m lookupMode) (found place, target string, err error) {
	found = at
	var names []string
	if name != "" {
		names = strings.Split(name, `\`)
		if found.slash = names[len(names)-1] == ""; found.slash {
			names = names[:len(names)-1]
		}
		for _, part := range names {
			if err := filetree.CheckName(part); err != nil {
				return place{}, "", err // [MS-FSA] 2.1.5.1
			}
		}
	}
	if len(names) == 0 {
		if at.reparses() && !m.openLast {
			target, err = follow(at, nil, found.slash)
		}
		return found, target, err
	}
	for i, part := range names {
		last := i == len(names)-1
		switch {
		case !found.entry.IsDir() && i == 0:
			// Source: specification, [MS-FSA] 2.1.5.1, relative to a file.
			return place{}, "", win32.STATUS_INVALID_PARAMETER
		case !found.entry.IsDir():
			// [MS-FSA] 2.1.5.1 has STATUS_NOT_A_DIRECTORY, which is what a client
			// of SMB sees; NTFS itself answers this, and Win32 "path not found"
			// (general knowledge).
			// Source: code, fastfat create.c, "Cannot open file as subdirectory"; [MS-FSA]
			// 2.1.5.1 has STATUS_NOT_A_DIRECTORY.
			return place{}, "", win32.STATUS_OBJECT_PATH_NOT_FOUND
		case i > 0 && found.entry.DeletePending():
			return place{}, "", win32.STATUS_DELETE_PENDING // Source: specification, [MS-FSA] 2.1.5.1
		}
		found.dir, found.name = found.entry, part
		found.entry = found.dir.Lookup(part)
		switch {
		case found.entry == nil && last:
			return found, "", nil
		case found.entry == nil:
			return place{}, "", win32.STATUS_OBJECT_PATH_NOT_FOUND // Source: specification, [MS-FSA] 2.1.5.1
		case found.reparses() && (!last || !m.openLast):
			target, err = follow(found, names[i+1:], found.slash)
			return place{}, target, err
		}
	}
	return found, "", nil
}

// reparses reports whether opening the entry does not open the entry itself.
func (p place) reparses() bool {
	if p.entry.Reparse() == nil {
		return false
	}
	return p.vol.Kernel().Windows.FilterTags != behavior.FilterTagsOpened || p.entry.ReparseTag()&win32.REPARSE_NAME_SURROGATE != 0
}

// follow returns the absolute NT name to which the reparse point at p, followed
// by the names rest, resolves.
func follow(p place, rest []string, slash bool) (string, error) {
	r, err := win32.DecodeReparse(p.entry.Reparse())
	if err != nil {
		return "", win32.STATUS_IO_REPARSE_DATA_INVALID // Source: node, unreachable: the tree refuses such data
	}
	target := ""
	switch {
	case r.Tag != win32.IO_REPARSE_TAG_MOUNT_POINT && r.Tag != win32.IO_REPARSE_TAG_SYMLINK:
		if p.entry.ReparseTag()&win32.REPARSE_NAME_SURROGATE == 0 {
			p.vol.Kernel().Chosen("filterTags", "no driver handles a reparse point", p.entry.Path())
		}
		// Source: inference, by the text of the code in ntstatus.h; see the option filterTags.
		return "", win32.STATUS_IO_REPARSE_TAG_NOT_HANDLED
	case !r.Relative:
		target = r.Substitute
	default:
		if target, err = relativeTarget(p, r.Substitute); err != nil {
			return "", err
		}
	}
	if len(rest) > 0 {
		target = strings.TrimSuffix(target, `\`) + `\` + strings.Join(rest, `\`)
	}
	if slash && !strings.HasSuffix(target, `\`) {
		target += `\`
	}
	return target, nil
}

// relativeTarget joins the directory of the link at p and its target as text:
// ".." removes the name before it, even if that is a link. More ".." than names
// is an error (Windows' behavior is not known).
func relativeTarget(p place, sub string) (string, error) {
	var names []string
	dir := p.entry.Parent()
	if rest, ok := strings.CutPrefix(sub, `\`); ok {
		sub = rest // from the root of the volume
	} else if dir != nil && dir.Parent() != nil {
		names = strings.Split(dir.Path()[1:], `\`)
	}
	for _, part := range strings.Split(sub, `\`) {
		switch part {
		case "", ".":
		case "..":
			if len(names) == 0 {
				return "", win32.STATUS_IO_REPARSE_DATA_INVALID // Source: inference, more ".." than names
			}
			names = names[:len(names)-1]
		default:
			names = append(names, part)
		}
	}
	return p.vol.NTDevice() + `\` + strings.Join(names, `\`), nil
}

// exists returns the error of opening an existing p: [MS-FSA] 2.1.5.1, phases 6
// and 7, and 2.1.5.1.2.
func (p place) exists() error {
	switch {
	case p.entry == nil:
		return win32.STATUS_OBJECT_NAME_NOT_FOUND // Source: specification, [MS-FSA] 2.1.5.1, phase 7
	case p.slash && !p.entry.IsDir():
		return win32.STATUS_NOT_A_DIRECTORY // Source: specification, [MS-FSA] 2.1.5.1, phase 7
	case p.entry.DeletePending():
		return win32.STATUS_DELETE_PENDING // Source: specification, [MS-FSA] 2.1.5.1.2
	}
	return nil
}
