package nodespec

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ISCSI is the storage that a node can reach by iSCSI.
type ISCSI struct {
	// Portals answer although they have no target. Those of Targets need not be
	// listed.
	Portals []ISCSIPortal `json:"portals,omitempty"`
	Targets []ISCSITarget `json:"targets,omitempty"`
}

// ISCSIPortal is an address at which something listens. In JSON, YAML and flags
// it is a text such as "10.0.0.1", "10.0.0.1:3260" or "[fd00::1]:3260"; JSON and
// YAML may also have an object with the fields address and port.
type ISCSIPortal struct {
	Address string // IP address or host name
	Port    uint16 // 0 means 3260
}

// ISCSIPort is the port of portals that have none of their own.
const ISCSIPort = 3260

// ParseISCSIPortal reads ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
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

// String is the portal with its port, as "10.0.0.1:3260".
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

// UnmarshalJSON implements [json.Unmarshaler].
func (p *ISCSIPortal) UnmarshalJSON(b []byte) error {
	if strings.HasPrefix(string(b), "{") {
		o, err := Decode[struct {
			Address string `json:"address"`
			Port    uint16 `json:"port"`
		}](b)
		if err == nil {
			*p = ISCSIPortal(o)
		}
		return err
	}
	text, err := Decode[string](b)
	if err != nil {
		return err
	}
	*p, err = ParseISCSIPortal(text)
	return err
}

// ISCSITarget is an iSCSI target. A login brings its LUNs as disks of the node,
// which keep their content from one login to the next.
type ISCSITarget struct {
	IQN     string        `json:"iqn"`
	Portals []ISCSIPortal `json:"portals"` // at least one
	LUNs    []LUN         `json:"luns,omitempty"`
	// CHAP is the account that logins need; nil means none.
	CHAP *CHAP `json:"chap,omitempty"`

	// ArrivalDelay passes between a login and the appearance of the first disk,
	// and as long again before each further one.
	ArrivalDelay Duration `json:"arrivalDelay,omitempty"`
	// Refuses makes it refuse every login, as one that does not list the node.
	Refuses bool `json:"refuses,omitempty"`
	// Unreachable makes its portals not answer, unless another target is there.
	Unreachable bool `json:"unreachable,omitempty"`
	// Busy makes Windows refuse a logout, as if a disk were in use.
	Busy bool `json:"busy,omitempty"`
	// Persistent makes Windows log in whenever MSiSCSI starts, through the first
	// portal.
	Persistent bool `json:"persistent,omitempty"`
}

// LUN is a logical unit. The number of its disk cannot be chosen.
type LUN struct {
	LUN  *uint8 `json:"lun,omitempty"` // nil means its position in the list
	Disk `json:"disk,omitzero"`
}

// CHAP is an account of a target. It prints without its secrets.
type CHAP struct {
	User   string `json:"user"`
	Secret string `json:"secret"` // 12 to 16 bytes
	// MutualSecret is the secret that the target proves to know, where the node
	// wants mutual CHAP.
	MutualSecret string `json:"mutualSecret,omitempty"`
}

// Format implements [fmt.Formatter].
func (c CHAP) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", c.User) }

// SMBServer describes an SMB server that the node can reach.
type SMBServer struct {
	Name string `json:"name"` // as in \\name\share
	// Shares are the names of its shares, which are empty at first.
	Shares   []string     `json:"shares,omitempty"`
	Accounts []SMBAccount `json:"accounts,omitempty"`
	// NodeAccount lets the node in without a user name.
	NodeAccount bool `json:"nodeAccount,omitempty"`
	// NoEncryption is a server without SMB 3's encryption.
	NoEncryption bool `json:"noEncryption,omitempty"`
}

// SMBAccount is an account of an SMB server. It prints without its password.
type SMBAccount struct {
	User     string `json:"user"` // "name" or `DOMAIN\name`
	Password string `json:"password"`
}

// Format implements [fmt.Formatter].
func (a SMBAccount) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", a.User) }
