package nodespec

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ISCSI is the iSCSI storage that a node can reach.
type ISCSI struct {
	// Portals are portals without a target. The portals of Targets need not be listed.
	Portals []ISCSIPortal `json:"portals,omitempty"`
	Targets []ISCSITarget `json:"targets,omitempty"`
}

// ISCSIPortal is the address and port of a portal. In JSON, YAML and flags it is a string
// such as "10.0.0.1", "10.0.0.1:3260" or "[fd00::1]:3260".
type ISCSIPortal struct {
	Address string // IP address or host name
	Port    uint16 // 0 means 3260
}

// ISCSIPort is the default port of portals.
const ISCSIPort = 3260

// ParseISCSIPortal parses ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func ParseISCSIPortal(text string) (ISCSIPortal, error) {
	host, port := text, ""
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	p := ISCSIPortal{Address: strings.Trim(host, "[]")}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return ISCSIPortal{}, fmt.Errorf("portal %q: port %q, want 1 to 65535", text, port)
		}
		p.Port = uint16(n)
	}
	return p, nil
}

// String returns the portal with its port, such as "10.0.0.1:3260".
func (p ISCSIPortal) String() string {
	port := p.Port
	if port == 0 {
		port = ISCSIPort
	}
	return net.JoinHostPort(p.Address, strconv.FormatUint(uint64(port), 10))
}

// MarshalText implements [encoding.TextMarshaler].
func (p ISCSIPortal) MarshalText() ([]byte, error) {
	switch {
	case p.Port != 0:
		return []byte(p.String()), nil
	case strings.Contains(p.Address, ":"):
		return []byte("[" + p.Address + "]"), nil
	}
	return []byte(p.Address), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *ISCSIPortal) UnmarshalText(text []byte) (err error) {
	*p, err = ParseISCSIPortal(string(text))
	return err
}

// ISCSITarget is an iSCSI target. After a login its LUNs are disks of the node, which keep
// their content between logins.
type ISCSITarget struct {
	IQN     string        `json:"iqn"`
	Portals []ISCSIPortal `json:"portals"` // at least one
	LUNs    []LUN         `json:"luns,omitempty"`
	// CHAP is the account that a login needs. nil means none.
	CHAP *CHAP `json:"chap,omitempty"`

	// ArrivalDelay is the time from a login until the first disk appears, and again until
	// each further disk appears.
	ArrivalDelay Duration `json:"arrivalDelay,omitempty"`
	// Refuses makes the target refuse every login, as if the node had no access.
	Refuses bool `json:"refuses,omitempty"`
	// Unreachable makes its portals unreachable, unless another target uses them.
	Unreachable bool `json:"unreachable,omitempty"`
	// Busy makes Windows refuse a logout, as if a disk was in use.
	Busy bool `json:"busy,omitempty"`
	// Persistent makes Windows log in through the first portal whenever MSiSCSI starts.
	Persistent bool `json:"persistent,omitempty"`
}

// LUN is a logical unit. The number of its disk cannot be chosen.
type LUN struct {
	LUN  *uint8 `json:"lun,omitempty"` // nil means its position in the list
	Disk `json:"disk,omitzero"`
}

// CHAP is an account of a target. Package fmt prints it without its secrets.
type CHAP struct {
	User   string `json:"user"`
	Secret string `json:"secret"` // 12 to 16 bytes
	// MutualSecret is the secret with which the target authenticates for mutual CHAP.
	MutualSecret string `json:"mutualSecret,omitempty"`
}

// Format implements [fmt.Formatter].
func (c CHAP) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", c.User) }

// SMBServer describes an SMB server that the node can reach.
type SMBServer struct {
	Name string `json:"name"` // as in \\name\share
	// Shares are the names of its shares, which are initially empty.
	Shares   []string     `json:"shares,omitempty"`
	Accounts []SMBAccount `json:"accounts,omitempty"`
	// NodeAccount allows the node to connect without a user name.
	NodeAccount bool `json:"nodeAccount,omitempty"`
	// NoEncryption means that the server does not support SMB 3 encryption.
	NoEncryption bool `json:"noEncryption,omitempty"`
}

// SMBAccount is an account of an SMB server. Package fmt prints it without its password.
type SMBAccount struct {
	User     string `json:"user"` // "name" or `DOMAIN\name`
	Password string `json:"password"`
}

// Format implements [fmt.Formatter].
func (a SMBAccount) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", a.User) }
