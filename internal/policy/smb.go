package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// SMBRules are the rules for shares that callers may map.
type SMBRules struct {
	// AllowLoopback allows shares of this node. Through such a share, a link in a
	// working directory can lead to any directory of the node.
	AllowLoopback bool
	// AllowAdminShares allows the shares that Windows creates for administrators: C$,
	// ADMIN$, IPC$ …
	AllowAdminShares bool
	// ThisNode returns the names and addresses that this node has now, in addition to
	// localhost and loopback addresses. nil means none. A name that only DNS maps to this
	// node is not recognized.
	ThisNode func() ([]string, error)
}

// check fails if the rules forbid to map a share or to remove its mapping.
func (r SMBRules) check(remote string) error {
	path, err := smb.ParseRemotePath(remote)
	if err != nil {
		return err
	}
	server, share := path.Share.Server(), path.Share.Name()
	denied := func(format, arg, flag string) error {
		return hosterr.WithHint("map share", hosterr.Quote(remote), hosterr.Text(hosterr.ErrPermissionDenied, format, arg, flag), "start csi-proxy with "+flag)
	}
	if !r.AllowLoopback && strings.ContainsFunc(server, func(c rune) bool { return c > 0x7F }) {
		// Resolvers map some characters to others: a full-width l to l, an ideographic
		// full stop to a dot.
		return denied("server %q may be another spelling of this node: use a name in ASCII (xn--…) or the flag %s", server, "-smb-allow-loopback")
	}
	if !r.AllowLoopback {
		var names []string
		if r.ThisNode != nil {
			if names, err = r.ThisNode(); err != nil {
				// Shares of this node would not be recognized.
				return hosterr.Wrap("list the names and addresses of this node", "", hosterr.Text(hosterr.ErrUnavailable, "%w", err))
			}
		}
		if isThisNode(server, names) {
			return denied("server %q is this node, which requires the flag %s", server, "-smb-allow-loopback")
		}
	}
	if !r.AllowAdminShares && isAdminShare(share) {
		return denied("share %q is an administrative share, which requires the flag %s", share, "-smb-allow-admin-shares")
	}
	return nil
}

// isAdminShare reports whether Windows itself creates a share of that name (Microsoft:
// "How to remove administrative shares"). Other shares whose names end in $ are only
// hidden. Letters that only Go takes for the same count, too: an ſ for an s.
func isAdminShare(share string) bool {
	switch strings.ToUpper(share) {
	case "ADMIN$", "IPC$", "PRINT$", "FAX$", "PIPE", "MAILSLOT": // the last two are reserved for IPC (NetShareAdd)
		return true
	}
	return len(share) == 2 && share[1] == '$' && 'a' <= share[0] && share[0] <= 'z'
}

// ipv6Literal is the suffix of an IPv6 address in a UNC path, which has - instead of :.
const ipv6Literal = ".ipv6-literal.net"

// isThisNode reports whether a server name, in lower case, refers to the node with these names
// and addresses.
func isThisNode(name string, names []string) bool {
	if name == "localhost" || strings.HasPrefix(name, "localhost.") || strings.HasSuffix(name, ".localhost") || name == "loopback" {
		return true
	}
	if slices.ContainsFunc(names, func(n string) bool {
		n = strings.ToLower(n)
		_, err := netip.ParseAddr(n)
		// Any domain may follow, because the domains of the node are not known here.
		return name == n || err != nil && strings.HasPrefix(name, n+".")
	}) {
		return true
	}
	if text, ok := strings.CutSuffix(name, ipv6Literal); ok {
		text, _, _ = strings.Cut(text, "s") // s replaces the % before a zone
		name = strings.ReplaceAll(text, "-", ":")
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsUnspecified() || slices.ContainsFunc(names, func(n string) bool {
		own, err := netip.ParseAddr(n)
		return err == nil && own.Unmap().WithZone("") == addr
	})
}
