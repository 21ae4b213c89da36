package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// SMBRules say which shares callers may have mapped.
type SMBRules struct {
	// AllowLoopback lets them map shares of this node. Through such a share a
	// link in a working directory leads to any directory of the node.
	AllowLoopback bool
	// AllowAdminShares lets them map the shares that Windows makes for
	// administrators: C$, ADMIN$, IPC$ …
	AllowAdminShares bool
	// ThisNode are names and addresses of this node besides localhost and those
	// that are loopback addresses everywhere. A name that only DNS knows to be
	// this node's is not recognised.
	ThisNode []string
}

// check refuses to map, or to end the mapping of, a share that the rules exclude.
func (r SMBRules) check(remote string) error {
	share, err := smb.ParseRemotePath(remote)
	if err != nil {
		return err
	}
	denied := func(format, arg, flag string) error {
		return hosterr.WithHint("map share", hosterr.Quote(remote), hosterr.Text(hosterr.ErrPermissionDenied, format, arg, flag), "start csi-proxy with "+flag)
	}
	if !r.AllowLoopback && strings.ContainsFunc(share.Server, func(c rune) bool { return c > 0x7F }) {
		// Resolvers take some characters for others: a wide l for l, an ideographic stop for a dot.
		return denied("server %q may be another spelling of this node: write its name in ASCII (xn--…), or use the flag %s", share.Server, "-smb-allow-loopback")
	}
	if !r.AllowLoopback && r.isThisNode(share.Server) {
		return denied("server %q is this node, which needs the flag %s", share.Server, "-smb-allow-loopback")
	}
	if !r.AllowAdminShares && isAdminShare(share.Share) {
		return denied("share %q is for administrators, which needs the flag %s", share.Share, "-smb-allow-admin-shares")
	}
	return nil
}

// isAdminShare tells whether Windows makes a share of that name by itself
// (Microsoft: "How to remove administrative shares"). Other shares whose name
// ends in $ are hidden and nothing more.
func isAdminShare(share string) bool {
	switch strings.ToUpper(share) {
	case "ADMIN$", "IPC$", "PRINT$", "FAX$", "PIPE", "MAILSLOT": // the last two are reserved for what IPC$ is (NetShareAdd)
		return true
	}
	return len(share) == 2 && share[1] == '$' && ('a' <= share[0]|0x20 && share[0]|0x20 <= 'z')
}

// ipv6Literal is how an IPv6 address is written in a UNC path: with - for : and
// this behind.
const ipv6Literal = ".ipv6-literal.net"

// isThisNode tells whether the name of a server means this node.
func (r SMBRules) isThisNode(server string) bool {
	name := strings.ToLower(server)
	if name == "localhost" || strings.HasPrefix(name, "localhost.") || strings.HasSuffix(name, ".localhost") || name == "loopback" {
		return true
	}
	if slices.ContainsFunc(r.ThisNode, func(n string) bool {
		n = strings.ToLower(n)
		_, err := netip.ParseAddr(n)
		// With any domain behind: which ones the node has is not known here.
		return name == n || err != nil && strings.HasPrefix(name, n+".")
	}) {
		return true
	}
	if text, ok := strings.CutSuffix(name, ipv6Literal); ok {
		text, _, _ = strings.Cut(text, "s") // s is for the % before a zone
		name = strings.ReplaceAll(text, "-", ":")
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsUnspecified() || slices.ContainsFunc(r.ThisNode, func(n string) bool {
		own, err := netip.ParseAddr(n)
		return err == nil && own.Unmap().WithZone("") == addr
	})
}
