package smb

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// RemotePath is a parsed remote path.
type RemotePath struct {
	Share winpath.Share
	// names are the names of the server, the share, and the directories below it, as the
	// caller wrote them. Links have them.
	names []string
}

// ParseRemotePath parses \\server\share, with or without directories below it. Forward
// slashes are separators, and repeated and trailing separators are ignored. It returns an
// error of the kind hosterr.ErrInvalid with the published text, and a hint with the reason,
// for other Windows paths (drives, devices, \\?\…), for "." and "..", for names that Windows
// would change, and for servers that Windows would not access by SMB (server@SSL is WebDAV)
// or that are an unusual spelling of an address.
func ParseRemotePath(remote string) (RemotePath, error) {
	if remote == "" {
		return RemotePath{}, hosterr.Text(hosterr.ErrInvalid, "remote path is empty")
	}
	bad := func(format string, args ...any) (RemotePath, error) {
		return RemotePath{}, hosterr.TextWithHint(hosterr.ErrInvalid, fmt.Sprintf(format, args...), "remote path (%s) is invalid", remote)
	}
	const maxLength = 1024
	if len(remote) > maxLength {
		return bad("it has %d bytes, want at most %d", len(remote), maxLength)
	}
	rest, ok := strings.CutPrefix(strings.ReplaceAll(remote, "/", `\`), `\\`)
	if !ok || strings.HasPrefix(rest, `\`) {
		return bad(`want \\server\share, with or without directories below`)
	}
	server, share, below := winpath.CutShare(rest)
	if share == "" {
		return bad(`want \\server\share, with or without directories below`)
	}
	if err := checkServer(server); err != nil {
		return bad("%v", err)
	}
	r := RemotePath{names: append([]string{server, share}, strings.FieldsFunc(below, func(r rune) bool { return r == '\\' })...)}
	for _, name := range r.names[1:] {
		if err := winpath.CheckName(name); err != nil {
			return bad("%v", err)
		}
	}
	var err error
	if r.Share, err = winpath.ParseShare(`\\` + server + `\` + share); err != nil {
		return bad("%v", err)
	}
	return r, nil
}

// checkServer accepts DNS names, NetBIOS names and IPv4 addresses. IPv6 addresses have the
// form of a DNS name (2001-db8--1.ipv6-literal.net).
func checkServer(server string) error {
	if len(server) > 255 {
		return fmt.Errorf("server name of %d bytes, want at most 255", len(server))
	}
	for _, r := range server {
		if !(r == '-' || r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r > 0x7F && r != '\uFFFD') {
			return fmt.Errorf("character %q in server name %q", r, server)
		}
	}
	labels := strings.Split(server, ".")
	for _, l := range labels {
		if l == "" {
			return fmt.Errorf("empty part in server name %q", server)
		}
	}
	if _, err := netip.ParseAddr(server); err == nil {
		return nil
	}
	// Windows reads 2130706433, 127.1 and 0x7f.0.0.1 as addresses, too.
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(strings.ToLower(last), "0x") && strings.Trim(strings.ToLower(last[2:]), "0123456789abcdef") == "" {
		return fmt.Errorf("server name %q: want an address as four decimal numbers, or a name that does not end in a number", server)
	}
	return nil
}

// String returns the whole path with a trailing backslash.
func (r RemotePath) String() string { return `\\` + strings.Join(r.names, `\`) + `\` }

// mayBeDFS guesses whether the path is in a DFS namespace, where \\server\share is not a share
// of that server.
func (r RemotePath) mayBeDFS() bool {
	server, share := r.Share.Server(), r.Share.Name()
	if _, err := netip.ParseAddr(server); err == nil {
		return false
	}
	return strings.Contains(share, "dfs") || share == "sysvol" || share == "netlogon" || len(r.names) > 2 && strings.Contains(server, ".")
}

const hintDFS = `if the path is in a DFS namespace, use the server and share of its target: global mappings do not follow DFS`
