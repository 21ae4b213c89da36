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
	// `\\?\Volume{…}\` is `\??\Volume{…}\` to the Nt functions.
	h, err := n.API.NtCreateFile(0, `\??\`+strings.TrimPrefix(id, `\\?\`), win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE|win32.FILE_SHARE_DELETE, win32.FILE_OPEN,
		win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT|win32.FILE_OPEN_FOR_BACKUP_INTENT)
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
