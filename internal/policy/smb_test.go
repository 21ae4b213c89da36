package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

func TestSMBRules(t *testing.T) {
	dirs, err := ParseDirs([]string{`C:\var\lib\kubelet`})
	if err != nil {
		t.Fatal(err)
	}
	both := SMBRules{AllowLoopback: true, AllowAdminShares: true}
	node := SMBRules{ThisNode: func() ([]string, error) { return []string{"win-node-1", "10.0.0.5", "fd00::5"}, nil }}
	for _, c := range []struct {
		name          string
		remote, local string
		rules         SMBRules
		want          error
		text          string
	}{
		{"a share", `\\files.example.com\data\a`, "", SMBRules{}, nil, ""},
		{"a link in a working directory", `\\files\data`, `C:\var\lib\kubelet\a`, SMBRules{}, nil, ""},
		{"a link elsewhere", `\\files\data`, `C:\Windows\a`, SMBRules{}, hosterr.ErrPermissionDenied, "working directories"},
		{"no remote path", "", `C:\Windows\a`, SMBRules{}, hosterr.ErrInvalid, "remote path is empty"},
		{"localhost", `\\LocalHost\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"loopback address", `\\127.8.9.1\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"loopback address of IPv6", `\\--1.ipv6-literal.net\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"with zeroes", `\\0-0-0-0-0-0-0-1.ipv6-literal.net\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"the unspecified address", `\\0.0.0.0\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"another spelling of loopback", `\\2130706433\data`, "", SMBRules{}, hosterr.ErrInvalid, "is invalid"},
		{"and another", `\\0x7f000001\data`, "", SMBRules{}, hosterr.ErrInvalid, "is invalid"},
		{"and a short one", `\\127.1\data`, "", SMBRules{}, hosterr.ErrInvalid, "is invalid"},
		{"localhost in wide letters", `\\ｌocalhost\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "xn--"},
		{"loopback with ideographic stops", `\\127。0。0。1\data`, "", SMBRules{}, hosterr.ErrPermissionDenied, "xn--"},
		{"a foreign name where loopback is allowed", `\\büro\data`, "", both, nil, ""},
		{"the node's name", `\\WIN-NODE-1\data`, "", node, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"the node's name with a domain", `\\win-node-1.corp.example.com\data`, "", node, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"a longer name", `\\win-node-10\data`, "", node, nil, ""},
		{"the node's address", `\\10.0.0.5\data`, "", node, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"the node's address of IPv6", `\\fd00--5.ipv6-literal.net\data`, "", node, hosterr.ErrPermissionDenied, "-smb-allow-loopback"},
		{"another address", `\\10.0.0.6\data`, "", node, nil, ""},
		{"loopback that is allowed", `\\localhost\data`, "", both, nil, ""},
		{"C$", `\\files\c$\Windows`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-admin-shares"},
		{"ADMIN$", `//files/Admin$`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-admin-shares"},
		{"IPC$", `\\files\IPC$`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-admin-shares"},
		{"pipe", `\\files\Pipe\lsass`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-admin-shares"},
		{"mailslot", `\\files\mailslot`, "", SMBRules{}, hosterr.ErrPermissionDenied, "-smb-allow-admin-shares"},
		{"a hidden share", `\\files\data$`, "", SMBRules{}, nil, ""},
		{"C$ that is allowed", `\\files\c$`, "", both, nil, ""},
		{"a path of this node", `\\?\C:\Windows`, "", both, hosterr.ErrInvalid, "is invalid"},
		{"a device", `\\.\PhysicalDrive0`, "", both, hosterr.ErrInvalid, "is invalid"},
	} {
		r := Rules{Dirs: dirs, SMB: c.rules}
		err := r.Check(&smb.NewSMBGlobalMappingRequest{RemotePath: c.remote, LocalPath: c.local})
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: mapping %q = %v, want %v with %q", c.name, c.remote, err, c.want, c.text)
		}
		if c.local != "" {
			continue
		}
		if err := r.Check(&smb.RemoveSMBGlobalMappingRequest{RemotePath: c.remote}); !errors.Is(err, c.want) {
			t.Errorf("%s: removing the mapping of %q = %v, want %v", c.name, c.remote, err, c.want)
		}
	}
}
