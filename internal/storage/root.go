package storage

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// systemNames are the names that Windows itself puts into the root directory of a
// volume.
var systemNames = []string{".", "..", "System Volume Information", "$RECYCLE.BIN"}

// FirstName returns a name from the root directory of a volume's file system, or
// "" if there is nothing but what Windows itself puts there.
func FirstName(ctx context.Context, n *node.Node, id string) (string, error) {
	var name string
	// Retry the open as well: when a volume disappears, an open handle of its root
	// directory reports "not ready", but a new open reports "not found".
	err := Retry(ctx, n, func() (err error) {
		name, err = firstName(ctx, n, id)
		return err
	})
	return name, hosterr.Wrap("list the root directory", "", Gone(err))
}

func firstName(ctx context.Context, n *node.Node, id string) (string, error) {
	h, err := openRoot(n, id, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE)
	if err != nil {
		return "", err
	}
	defer device{node: n, h: h}.Close()
	buf := make([]byte, 16<<10)
	for restart := true; ; restart = false {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		got, err := n.API.QueryDirectory(h, restart, buf)
		if win32.IsCode(err, win32.ERROR_NO_MORE_FILES) || restart && win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		entries, err := win32.DecodeDirectory(buf[:min(got, len(buf))])
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if !isSystemName(e.Name) {
				return e.Name, nil
			}
		}
	}
}

func isSystemName(name string) bool {
	for _, o := range systemNames {
		if strings.EqualFold(name, o) {
			return true
		}
	}
	return false
}

// Rights of directories (winnt.h).
const (
	readAndExecute = 0x1200A9
	modify         = 0x1301BF
	genericAll     = 0x10000000
)

// The access control lists of a volume's root directory: that which Windows gives a new NTFS
// (docs/develop/contract/volumes.md#format), and the same with the right of Users to change everything.
// Accounts of ordinary containers, such as ContainerUser, are in that group.
func windowsRights() []win32.ACE {
	return append(rootRights(readAndExecute),
		win32.ACE{Flags: win32.CONTAINER_INHERIT_ACE, Mask: 0x4, SID: users()},                          // make directories
		win32.ACE{Flags: win32.CONTAINER_INHERIT_ACE | win32.INHERIT_ONLY_ACE, Mask: 0x2, SID: users()}) // make files
}

func usersModify() []win32.ACE { return rootRights(modify) }

func users() win32.SID { return win32.SID{Authority: 5, Sub: []uint32{32, 545}} }

func rootRights(ofUsers uint32) []win32.ACE {
	const both = win32.OBJECT_INHERIT_ACE | win32.CONTAINER_INHERIT_ACE
	return []win32.ACE{
		{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 5, Sub: []uint32{32, 544}}},         // Administrators
		{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 5, Sub: []uint32{18}}},              // LocalSystem
		{Flags: both | win32.INHERIT_ONLY_ACE, Mask: genericAll, SID: win32.SID{Authority: 3, Sub: []uint32{0}}}, // the creator
		{Flags: both, Mask: ofUsers, SID: users()},
		{Mask: readAndExecute, SID: win32.SID{Authority: 1, Sub: []uint32{0}}}, // everyone
	}
}

// LetUsersModify lets the group Users change everything on a volume, if the node is configured
// so. A volume that was not just formatted must be empty and have the rights that Windows gives
// a new one: otherwise an administrator has chosen its rights, or a pod.
func LetUsersModify(ctx context.Context, n *node.Node, id string, formatted bool) error {
	if !n.UsersModify {
		return nil
	}
	if !formatted {
		if name, err := FirstName(ctx, n, id); err != nil || name != "" {
			return err
		}
	}
	err := Retry(ctx, n, func() error {
		h, err := openRoot(n, id, win32.READ_CONTROL|win32.WRITE_DAC|win32.SYNCHRONIZE)
		if err != nil {
			return err
		}
		defer device{node: n, h: h}.Close()
		if !formatted {
			if windows, err := hasWindowsRights(n, h); err != nil || !windows {
				return err
			}
		}
		return n.API.SetSecurity(h, win32.EncodeDACL(usersModify()))
	})
	return hosterr.Wrap("set the rights of the root directory", "", Gone(err))
}

// hasWindowsRights reports whether an open root directory has the rights that Windows gives a
// new NTFS. A list that cannot be decoded is another one.
func hasWindowsRights(n *node.Node, h win32.Handle) (bool, error) {
	list := make([]byte, 1<<16) // larger than any list
	size, err := n.API.QuerySecurity(h, list)
	if err != nil {
		return false, err
	}
	aces, err := win32.DecodeDACL(list[:min(size, len(list))])
	return err == nil && maps.Equal(granted(aces), granted(windowsRights())), nil
}

// granted returns what a list grants to whom, for the directory and for what is made in it.
// Windows may write one entry as two, in another order, and GENERIC_ALL as what it stands for.
func granted(aces []win32.ACE) map[string]uint32 {
	rights := map[string]uint32{}
	for _, a := range aces {
		if a.Mask&genericAll != 0 {
			a.Mask |= win32.FILE_ALL_ACCESS
		}
		a.Mask &^= genericAll
		for _, flag := range []byte{win32.OBJECT_INHERIT_ACE, win32.CONTAINER_INHERIT_ACE} {
			if a.Flags&flag != 0 {
				rights[fmt.Sprint(a.SID, flag)] |= a.Mask
			}
		}
		if a.Flags&win32.INHERIT_ONLY_ACE == 0 {
			rights[fmt.Sprint(a.SID, 0)] |= a.Mask
		}
	}
	return rights
}

// openRoot opens the root directory of a volume.
func openRoot(n *node.Node, id string, access uint32) (win32.Handle, error) {
	// `\\?\Volume{…}\` is `\??\Volume{…}\` to the Nt functions.
	return n.API.NtCreateFile(0, `\??\`+strings.TrimPrefix(id, `\\?\`), access, win32.OBJ_CASE_INSENSITIVE,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE, win32.FILE_OPEN,
		win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT|win32.FILE_OPEN_FOR_BACKUP_INTENT)
}
