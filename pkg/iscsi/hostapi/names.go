package api

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// defaultPort is the IANA port of iSCSI.
const defaultPort = 3260

// The maximum lengths: of names in RFC 3720, and of addresses in Windows' structures.
const (
	maxIQN     = 223
	maxAddress = 253
)

// hostName matches well-formed DNS names.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?$`)

// String formats the portal, such as "10.0.0.1:3260" or "[fd00::1]:3260".
func (p TargetPortal) String() string {
	host := p.Address
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.FormatUint(uint64(p.Port), 10)
}

// Check returns the portal in the form that Windows gets: with the default port instead of
// 0, and an IPv6 address without brackets in its canonical spelling. It fails with
// hosterr.ErrInvalid if the portal is malformed.
func (p *TargetPortal) Check() (TargetPortal, error) {
	if p == nil {
		return TargetPortal{}, hosterr.Text(hosterr.ErrInvalid, "the target portal is missing")
	}
	if p.Port > 65535 {
		return TargetPortal{}, hosterr.Text(hosterr.ErrInvalid, "target portal port %d: want 1 to 65535, or 0 for %d", p.Port, defaultPort)
	}
	out := TargetPortal{Address: p.Address, Port: p.Port}
	if out.Port == 0 {
		out.Port = defaultPort
	}
	if a, ok := ipAddress(p.Address); ok {
		if a.IsUnspecified() || a.IsMulticast() {
			return TargetPortal{}, hosterr.Text(hosterr.ErrInvalid, "target portal address %s: want the address of one machine", hosterr.Quote(p.Address))
		}
		out.Address = a.Unmap().String()
		return out, nil
	}
	switch {
	case p.Address == "":
		return TargetPortal{}, hosterr.Text(hosterr.ErrInvalid, "the target portal has no address")
	case len(p.Address) > maxAddress || !hostName.MatchString(p.Address) || allDigits(p.Address):
		return TargetPortal{}, hosterr.Text(hosterr.ErrInvalid, "target portal address %s: want an IPv4 or IPv6 address, or a host name", hosterr.Quote(shortened(p.Address)))
	}
	return out, nil
}

// allDigits reports whether s looks like an IPv4 address. An invalid one is 300.0.0.1.
func allDigits(s string) bool { return strings.Trim(s, "0123456789.") == "" }

// shortened limits the length of a request's text in an error.
func shortened(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// ipAddress parses an IP address; IPv6 with or without brackets.
func ipAddress(s string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return netip.Addr{}, false
		}
		s = inner
	}
	a, err := netip.ParseAddr(s)
	if err != nil || len(a.Zone()) > 32 || a.Zone() != "" && !hostName.MatchString(a.Zone()) {
		return netip.Addr{}, false
	}
	return a, true
}

// sameAddress compares an address that Windows reports with a checked one.
func sameAddress(a, b string) bool {
	x, okX := ipAddress(a)
	y, okY := ipAddress(b)
	if okX || okY {
		return okX && okY && x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

func (p TargetPortal) is(address string, socket uint16) bool {
	return p.Port == uint32(socket) && sameAddress(p.Address, address)
}

func (p TargetPortal) win32() win32.ISCSIPortal {
	return win32.ISCSIPortal{Address: p.Address, Socket: uint16(p.Port)}
}

// iscsiName matches the three kinds of names (RFC 3720, 3.2.6; RFC 3980 for naa): letters,
// digits and the characters that the stringprep profile allows. An iqn may contain letters
// beyond ASCII.
var iscsiName = regexp.MustCompile(`^(?i:iqn\.[0-9]{4}-[0-9]{2}\.[\pL\pN.:_-]+|eui\.[0-9a-f]{16}|naa\.(?:[0-9a-f]{16}|[0-9a-f]{32}))$`)

// CheckIQN returns an error of the kind hosterr.ErrInvalid if iqn is not a well-formed name of an iSCSI target.
func CheckIQN(iqn string) error {
	if iqn == "" {
		return hosterr.Text(hosterr.ErrInvalid, "the target's IQN is empty")
	}
	if len(iqn) > maxIQN || !iscsiName.MatchString(iqn) {
		return hosterr.Text(hosterr.ErrInvalid, "target %s: want an iSCSI name of at most %d bytes, such as iqn.2003-01.org.example:disk1", hosterr.Quote(shortened(iqn)), maxIQN)
	}
	return nil
}

// The limits of the Windows initiator for a CHAP secret in bytes, without IPsec.
const minSecret, maxSecret = 12, 16

// checkSecret returns an error of the kind hosterr.ErrInvalid if Windows would refuse a CHAP
// secret because of its length. The error does not contain the secret.
func checkSecret(what, secret string) error {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return hosterr.Text(hosterr.ErrInvalid, "the %s has the wrong length: want %d to %d bytes", what, minSecret, maxSecret)
	}
	return nil
}

// maxUser is the maximum length of a CHAP user name in bytes (RFC 3720, 5.1: text values).
const maxUser = 255

func checkUser(user string) error {
	if len(user) > maxUser || strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return hosterr.Text(hosterr.ErrInvalid, "CHAP user name of %d bytes: want at most %d, without control characters", len(user), maxUser)
	}
	return nil
}
