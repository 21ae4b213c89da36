package storage

import (
	"context"
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

// LetUsersModify makes the access control list of a new volume's root directory grant the
// group Users the right to change everything below it, as well as what Windows grants others
// there. Accounts of ordinary containers, such as ContainerUser, are in that group.
func LetUsersModify(ctx context.Context, n *node.Node, id string) error {
	const both = win32.OBJECT_INHERIT_ACE | win32.CONTAINER_INHERIT_ACE
	const read, modify, all = 0x1200A9, 0x1301BF, 0x10000000 // FILE_GENERIC_READ with EXECUTE; with WRITE and DELETE; GENERIC_ALL
	descriptor := win32.EncodeDACL([]win32.ACE{
		{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 5, Sub: []uint32{32, 544}}},  // Administrators
		{Flags: both, Mask: win32.FILE_ALL_ACCESS, SID: win32.SID{Authority: 5, Sub: []uint32{18}}},       // LocalSystem
		{Flags: both | win32.INHERIT_ONLY_ACE, Mask: all, SID: win32.SID{Authority: 3, Sub: []uint32{0}}}, // the creator
		{Flags: both, Mask: modify, SID: win32.SID{Authority: 5, Sub: []uint32{32, 545}}},                 // Users
		{Mask: read, SID: win32.SID{Authority: 1, Sub: []uint32{0}}},                                      // everyone
	})
	err := Retry(ctx, n, func() error {
		h, err := openRoot(n, id, win32.WRITE_DAC|win32.SYNCHRONIZE)
		if err != nil {
			return err
		}
		defer device{node: n, h: h}.Close()
		return n.API.SetSecurity(h, win32.DACL_SECURITY_INFORMATION, descriptor)
	})
	return hosterr.Wrap("set the rights of the root directory", "", Gone(err))
}

// openRoot opens the root directory of a volume.
func openRoot(n *node.Node, id string, access uint32) (win32.Handle, error) {
	// `\\?\Volume{…}\` is `\??\Volume{…}\` to the Nt functions.
	return n.API.NtCreateFile(0, `\??\`+strings.TrimPrefix(id, `\\?\`), access, win32.OBJ_CASE_INSENSITIVE,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE, win32.FILE_OPEN,
		win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT|win32.FILE_OPEN_FOR_BACKUP_INTENT)
}
