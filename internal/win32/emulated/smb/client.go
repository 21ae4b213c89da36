package smb

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// UseAdd implements [win32.SMB]. In addition to the rules above it returns the
// following errors, or ERROR_GEN_FAILURE instead if behavior.Windows.SMBErrors
// says so:
//
//   - ERROR_INVALID_PARAMETER for unknown flags, ERROR_BAD_NET_NAME for a
//     remote that is not \\server\share,
//   - ERROR_BAD_NETPATH for a server that is unknown, and the error of
//     nodespec.Windows.SMBServerGone for one that is down,
//   - ERROR_LOGON_FAILURE for an unknown user, and for no user if the server
//     does not accept the node's account; ERROR_INVALID_PASSWORD;
//     ERROR_NO_SUCH_LOGON_SESSION for an invalid user name
//     (docs/develop/contract/smb.md#errors-of-a-mapping),
//   - ERROR_ACCESS_DENIED for privacy on a server without encryption
//     (docs/develop/contract/smb.md#errors-of-a-mapping).
//
// Source: document, NetUseAdd; code, microsoft/wmi has MSFT_SmbGlobalMapping.Create.
// Source of ERROR_GEN_FAILURE: Windows, Server 2019 printed 0x80041001 without a number; see the
// option smbErrors.
func (n *Network) UseAdd(u win32.NewUse) error {
	return n.client(func(t *kernel.Tx) error {
		err := n.useAdd(t, u)
		if err != nil && n.Windows.SMBErrors == behavior.SMBErrorsBare {
			n.Chosen("smbErrors", "no reason for the error of a mapping: "+err.Error(), u.Remote)
			return win32.ERROR_GEN_FAILURE
		}
		return err
	})
}

// useAdd is UseAdd with the reason of an error.
func (n *Network) useAdd(t *kernel.Tx, u win32.NewUse) error {
	ref, err := winpath.ParseShare(u.Remote)
	switch {
	case u.Flags&^(win32.REQUIRE_CONNECTION_INTEGRITY|win32.REQUIRE_CONNECTION_PRIVACY) != 0:
		return win32.ERROR_INVALID_PARAMETER // Source: inference, of flags that NetUseAdd does not know
	case err != nil:
		// Source: inference, Windows printed 87 for a backslash at the end
		// (docs/develop/contract/smb.md).
		return win32.ERROR_BAD_NET_NAME
	case strings.ContainsAny(u.User+u.Domain, "\"/[]:;|=,+*?<>\\\x00"):
		// Source: Windows, System Error 1312, as docs/develop/contract/smb.md says; for which names is
		// inference.
		return win32.ERROR_NO_SUCH_LOGON_SESSION
	}
	server, known := n.smb.servers[ref.Server()]
	if !known || server.Down {
		return n.gone(ref.Server()).errno
	}
	m := smbMapping{Remote: u.Remote, User: u.User, Domain: u.Domain, Flags: u.Flags}
	for share, other := range n.smb.mappings {
		if share.Server() != ref.Server() {
			continue
		}
		same := strings.EqualFold(other.User, u.User) && strings.EqualFold(other.Domain, u.Domain)
		if !same || share == ref && other.Status != win32.USE_OK {
			// Source: Windows, System Error 1219 (csi-driver-smb issue 219).
			return win32.ERROR_SESSION_CREDENTIAL_CONFLICT
		}
		if share == ref {
			m.Flags = other.Flags // no call is known that changes what a mapping requires
		}
	}
	if u.Flags&win32.REQUIRE_CONNECTION_PRIVACY != 0 && server.NoEncryption {
		// Source: inference, Windows printed 65 (csi-proxy issue 311, csi-driver-smb issue 655).
		return win32.ERROR_ACCESS_DENIED
	}
	key, err := server.logon(win32.Credentials{User: u.User, Domain: u.Domain, Password: u.Password})
	if err != nil {
		return err
	}
	if key != "" {
		m.Account, m.Changes = key, server.Accounts[key].Changes
	}
	if _, ok := server.Shares[ref.Name()]; !ok {
		// Source: document, WNetAddConnection2W, ERROR_BAD_NET_NAME; that NetUseAdd and WMI have
		// it is inference.
		return win32.ERROR_BAD_NET_NAME
	}
	n.setMapping(t, m)
	return nil
}

// UseEnum implements [win32.SMB]. Mappings are sorted by name.
//
// Source: code, microsoft/wmi: MSFT_SmbGlobalMapping has no user, but RequireIntegrity and
// RequirePrivacy; document, USE_INFO_2 has a user and no flags; see the option smbUsers.
func (n *Network) UseEnum() (uses []win32.Use, err error) {
	err = n.client(func(t *kernel.Tx) error {
		for _, m := range n.smb.mappings {
			use := win32.Use{Remote: m.Remote, User: m.User, Domain: m.Domain, Status: m.Status, Flags: m.Flags}
			if m.Behind > 0 {
				use.Status = m.Shown
				m.Behind--
				n.setMapping(t, m)
			}
			if m.Hidden || n.Windows.SMBUsers == behavior.SMBUsersHidden {
				use.User, use.Domain = "", ""
			}
			if n.Windows.SMBUsers == behavior.SMBUsersShown {
				use.Flags, use.FlagsUnknown = 0, true
			}
			uses = append(uses, use)
		}
		return nil
	})
	slices.SortFunc(uses, func(a, b win32.Use) int { return strings.Compare(foldSMB(a.Remote), foldSMB(b.Remote)) })
	return uses, err
}

// UseDel implements [win32.SMB].
//
// Source: document, NetUseDel, USE_LOTS_OF_FORCE.
func (n *Network) UseDel(remote string) error {
	return n.client(func(t *kernel.Tx) error {
		share, err := winpath.ParseShare(remote)
		m, ok := n.smb.mappings[share]
		if err != nil || !ok {
			return win32.ERROR_NOT_CONNECTED // Source: inference, by the text of the code in winerror.h
		}
		n.deleteMapping(t, m)
		n.closeShare(t, share)
		return nil
	})
}

// closeShare closes the files on a share: their handles can only be closed.
func (n *Network) closeShare(t *kernel.Tx, share winpath.Share) {
	for fsid, v := range n.smb.volumes {
		if v.Share != share {
			continue
		}
		v.Leave(t)
		t.OnCommit(func() { delete(n.smb.volumes, fsid) })
	}
}

// client runs a call of the SMB client that makes, lists or removes mappings.
func (n *Network) client(call func(t *kernel.Tx) error) error {
	if n.Windows.SMBCalls == behavior.SMBCallsSerial {
		n.smb.turn <- struct{}{}
		defer func() { <-n.smb.turn }()
	}
	return n.Do(call)
}

// serverGone is the answer to a call about a server that is down or does not exist.
type serverGone struct {
	errno  win32.Errno
	status win32.NTStatus
}

// gone returns the answer to a call about a server that is down or does not exist, and
// makes the call wait.
func (n *Network) gone(server string) serverGone {
	n.Wait = cmp.Or(time.Duration(n.Config.SMBTimeout), kernel.ArrivalDelay)
	if _, known := n.smb.servers[foldSMB(server)]; known {
		switch n.Windows.SMBServerGone {
		case nodespec.SMBGoneTimeout:
			n.Chosen("smbServerGone", "no response from an SMB server", server)
			// Source: Windows, reports of csi-driver-smb and Azure File; see the option
			// smbServerGone.
			return serverGone{win32.ERROR_SEM_TIMEOUT, win32.STATUS_IO_TIMEOUT}
		case nodespec.SMBGoneDropped:
			n.Chosen("smbServerGone", "no response from an SMB server", server)
			// Source: Windows, reports of csi-driver-smb and Azure File; see the option
			// smbServerGone.
			return serverGone{win32.ERROR_NETNAME_DELETED, win32.STATUS_NETWORK_NAME_DELETED}
		}
	}
	// Source: Windows, System Error 53 (csi-driver-smb issue 294); of NtCreateFile it is
	// inference.
	return serverGone{win32.ERROR_BAD_NETPATH, win32.STATUS_BAD_NETWORK_PATH}
}

// Reach returns the share if the node can use it now. Otherwise it returns the
// error of opening a file on it (ntstatus.h; when Windows returns which error is
// general knowledge).
func (n *Network) Reach(ref winpath.Share) (smbShare, error) {
	server, ok := n.smb.servers[ref.Server()]
	if !ok || server.Down {
		return smbShare{}, n.gone(ref.Server()).status
	}
	share, ok := server.Shares[ref.Name()]
	if !ok {
		return smbShare{}, win32.STATUS_BAD_NETWORK_NAME // Source: inference, by the text of the code in ntstatus.h
	}
	m, mapped := n.smb.mappings[ref]
	switch {
	case mapped && m.Status == win32.USE_OK:
		return share, nil
	case mapped && m.Status == win32.USE_DISCONN && m.Idle:
		m.Status, m.Idle = win32.USE_OK, false
		n.setMapping(&n.Tx, m)
		return share, nil
	case server.NodeAccount:
		return share, nil // with the node's own account, which leaves the mapping as it is
	case !mapped:
		return smbShare{}, win32.STATUS_ACCESS_DENIED // Source: inference, of a share without a mapping
	case m.Status == win32.USE_DISCONN:
		return smbShare{}, win32.STATUS_LOGON_FAILURE // Source: inference, of a mapping without its credentials
	}
	return smbShare{}, win32.STATUS_UNEXPECTED_NETWORK_ERROR // Source: inference, of a mapping in another state
}

// OpenShare returns the share at the front of rest, the part of a
// name after `\??\UNC\`, and the rest of the name.
//
// The file tree of a share accepts no reparse points.
func (n *Network) OpenShare(rest string) (*volume.Volume, string, error) {
	server, rest, _ := strings.Cut(rest, `\`)
	share, rest, _ := strings.Cut(rest, `\`)
	remote := `\\` + server + `\` + share
	ref, err := winpath.ParseShare(remote)
	if err != nil {
		// Source: inference, of a name without a server or a share.
		return nil, "", win32.STATUS_OBJECT_PATH_SYNTAX_BAD
	}
	s, err := n.Reach(ref)
	if err != nil {
		return nil, "", err
	}
	v := n.smb.volumes[s.FSID]
	if v == nil {
		v = n.volumes.OfShare(ref, remote, s.FSID)
		n.smb.volumes[s.FSID] = v
	}
	return v, rest, nil
}
