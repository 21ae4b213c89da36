package winfs

import (
	"context"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// LinkToShare creates a directory link at path that points to source, a share or a
// directory on a share. It works like [Symlink], but does not contact the server: the
// link is always to a directory. The target ends in a backslash, because container
// runtimes do not resolve a link to the root of a share without it (published).
func LinkToShare(ctx context.Context, n *node.Node, source, path string) error {
	return makeLink(ctx, n, strings.TrimSuffix(source, `\`)+`\`, path, func(_ *op, src winpath.Path) (linkKind, error) { return toDir, onShare(src) })
}

// CheckLinkToShare reports whether the link that [LinkToShare] would create exists.
// It fails like LinkToShare if something else exists at path, if the parent directory
// is missing, or if the path is not allowed. It changes nothing.
func CheckLinkToShare(ctx context.Context, n *node.Node, source, path string) (exists bool, err error) {
	err = run(ctx, n, "create symlink", path, func(o *op, p winpath.Path) error {
		src, err := parse(source)
		if err == nil {
			err = onShare(src)
		}
		if err != nil {
			return hosterr.Wrap("source", hosterr.Quote(source), err)
		}
		dir, err := o.placeFor(p)
		if err != nil {
			return err
		}
		defer o.close(dir)
		err = o.sameLink(dir, p.Base(), src, toDir)
		if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) {
			return nil
		}
		exists = err == nil
		return err
	})
	return exists, err
}

func onShare(p winpath.Path) error {
	if !p.IsUNC() {
		return hosterr.Text(hosterr.ErrInvalid, "not a path on a share")
	}
	return nil
}
