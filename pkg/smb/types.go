// Package smb maps shares of SMB servers on a Windows node.
//
// A global mapping gives every account of the node access to a share, with the
// credentials of the mapping. Containers need such mappings. They should be removed when
// they are no longer used. A mapping belongs to \\server\share; paths below the share use
// the mapping of the share.
//
// # States of a mapping
//
// NewSMBGlobalMapping looks at the mapping, uses the share, and waits while Windows connects.
// Then it knows the state, whose credentials the mapping has, and which links use it:
//
//	absent    there is no mapping
//	works     the share can be used
//	doubtful  the share can be used, but Windows says that the mapping does not work
//	silent    the share cannot be used, but Windows says that the mapping works
//	broken    the share cannot be used, and Windows says that the mapping does not work
//	lost      the server refuses the mapping's user, or Windows has lost the credentials,
//	          as after a restart of Windows
//	missing   the server does not have the share
//
// All but absent and missing lead to works, through the question whether the server accepts
// the credentials of the request in a separate logon. A mapping has enough if it requires the
// encryption or signing that the request asks for:
//
//	absent ─────────────────────── make ────────────────────────┐
//	                                                            ▼
//	works, same, enough ────────── keep ─────────────────────▶ works
//	works, maybe same user ─┐                                   ▲
//	  and a link uses it    ├─ ask ── accepted ── adopt ────────┤
//	                        ┘                                   │
//	works, otherwise ───────┐                                   │
//	doubtful, silent        ├─ ask ── accepted ── replace ──────┘
//	broken, lost ───────────┘
//	                           ask ── refused, no answer ─▶ fail: nothing is changed
//	works, doubtful or silent, and
//	  another link uses it, for another user ─▶ fail: the mapping is another user's
//	  a link uses it, and it has not enough  ─▶ fail: it requires too little
//	missing ─▶ fail
//
// A silent or broken mapping is looked at again when the server has accepted the credentials: the server
// may have come back. So a mapping is replaced only after the server has accepted the new credentials, and not
// while another user's works, or may work, for a link. Windows may say for a while that one
// that works does not. Adopt keeps the mapping and its session: a new password of
// the same user is the one that later requests are compared with. Links keep working when
// a mapping is replaced; files that are open on it are closed.
//
// Windows may refuse a separate logon while the node has a session with the server (error
// 1219), so that the server cannot be asked. Then a mapping that works is kept, and the
// request uses it unless it is for another user; one that is lost, or that works and is not
// used, is replaced; any other request fails. -smb-accept-unverified-passwords does the
// same for a server that does not answer.
//
// # Users
//
// The credentials of a mapping are known if this process made one of the server's mappings:
// Windows allows one user at a time for each server (error 1219). They are compared by an HMAC
// under a random key in memory. Nothing is known of mappings that were made before the process
// started, and Windows may not report their user. Then the server decides about each request:
// all users that it accepts may use the mapping, so one does not shut out another.
//
// Two spellings of a name (CORP\csi, OTHER\csi, csi) are maybe the same user if they have the
// same password; the server decides. With another password they are two users.
//
// Mappings of other shares of the server that have another user are removed if no link uses
// them and they either do not work or were made or used by this process. Otherwise the
// request fails.
//
// UpdateSMBGlobalMapping takes the same ways for a share that is mapped, except that to it a doubtful
// mapping works. It reports whether the mapping was made with the credentials: Windows has no call
// that changes those of a mapping, so after adopt its session goes on with the old ones. When it has
// ended and the server refuses them, the mapping is lost, and the next call with the new ones makes
// it again.
//
// # Privacy and integrity
//
// A request can ask for more than the node does, not for less. A mapping of which it is unknown what
// it requires does not have enough, except for an update. If one that is replaced cannot be made
// with more, it is made as it was. What it required is kept, also for its links after it was
// removed. If that is unknown, an update of a mapping that links use makes it with encryption.
//
// # Use of a mapping
//
// A mapping is used by the links to its share: the links that this service made, and
// those that it found at its first request in the kubelet's directories for CSI drivers
// (pods\*\volumes\kubernetes.io~csi\*\mount and plugins\**\globalmount). Before it relies
// on a link, the service checks that the link still exists. RemoveSMBGlobalMapping does
// not remove a mapping that a link uses. The mapping is removed when the filesystem service
// removes the last link with Rmdir or RmdirContents, or within a minute after another
// program removed it. A removal that fails is repeated every 30 seconds, whatever happens to
// other shares. A new request for the share cancels the removal. A process that was
// restarted does not know which removals are pending, and removes no mapping that was not asked
// for: csi-proxyctl doctor shows those without links. A program that uses a share by its
// UNC path is not known to the service: a driver that needs to keep its mapping when there
// are requests with other credentials must give a local path.
//
// # Cost of a request
//
// The number of Windows calls does not depend on the number of mappings.
// NewSMBGlobalMapping makes at most two calls that list mappings, and more only while
// Windows connects the mapping; three that use the share, one that logs on to the server, one
// that removes a mapping and one that adds it. It looks twice at a silent or broken mapping. RemoveSMBGlobalMapping makes one
// call that removes a mapping. Calls that read or make links are not included. (On Windows,
// adding a mapping lists mappings twice, to find the new one.) If mappings of other users
// conflict, there are two more calls, and one removal for each of these mappings.
//
// # No version
//
// The requests and responses here have no version. The daemon translates every published
// version of the API to them; a driver in a HostProcess container calls the same
// [Interface] in process.
package smb

import (
	"context"
	"encoding/json"
	"fmt"
)

// Interface is the published API of the SMB mappings of one node.
//
// The methods may be called concurrently; calls for one share wait for each other. No
// error and no log message contains a password.
type Interface interface {
	// NewSMBGlobalMapping makes sure that the share of a remote path is mapped and, if a
	// local path is given, that there is a directory link from the local path to the
	// remote path. It may be repeated: it succeeds if the same link already exists.
	NewSMBGlobalMapping(context.Context, *NewSMBGlobalMappingRequest) (*NewSMBGlobalMappingResponse, error)

	// RemoveSMBGlobalMapping removes the mapping of a remote path's share unless a link
	// uses it. It succeeds if the share is not mapped.
	RemoveSMBGlobalMapping(context.Context, *RemoveSMBGlobalMappingRequest) (*RemoveSMBGlobalMappingResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface

	// UpdateSMBGlobalMapping gives the mapping of a remote path's share new credentials, and
	// reports whether they are in effect. It fails with hosterr.ErrNotFound if the share is
	// not mapped and no link leads to it.
	UpdateSMBGlobalMapping(context.Context, *UpdateSMBGlobalMappingRequest) (*UpdateSMBGlobalMappingResponse, error)

	// GetSMBGlobalMapping returns the state of the mapping of a remote path's share, and how
	// many links use it. It does not ask the server, and does not wait for calls that change
	// mappings.
	GetSMBGlobalMapping(context.Context, *GetSMBGlobalMappingRequest) (*GetSMBGlobalMappingResponse, error)
}

// MappingStatus is the status of a mapping, as Windows reports it. It can be behind what happens.
type MappingStatus uint32

// The statuses of a mapping.
const (
	// MAPPING_STATUS_UNKNOWN is any other.
	MAPPING_STATUS_UNKNOWN MappingStatus = 0
	// MAPPING_STATUS_UNMAPPED means that there is no mapping.
	MAPPING_STATUS_UNMAPPED      MappingStatus = 1
	MAPPING_STATUS_OK            MappingStatus = 2
	MAPPING_STATUS_PAUSED        MappingStatus = 3
	MAPPING_STATUS_DISCONNECTED  MappingStatus = 4
	MAPPING_STATUS_NETWORK_ERROR MappingStatus = 5
	MAPPING_STATUS_CONNECTING    MappingStatus = 6
	MAPPING_STATUS_RECONNECTING  MappingStatus = 7
)

// NewSMBGlobalMappingRequest is the request of NewSMBGlobalMapping.
type NewSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
	// LocalPath is the path of the link. Empty means no link.
	LocalPath string
	// Username is a name, or a name with its domain: DOMAIN\name. Empty means the node's
	// own account, for which Password is not used.
	Username string
	Password string
	// RequirePrivacy asks for a mapping that requires encryption (SMB 3), also if the node does
	// not require it of every mapping.
	RequirePrivacy bool
	// RequireIntegrity asks for a mapping that requires signing. One that requires encryption
	// has that, too.
	RequireIntegrity bool
}

// shown returns the request without the password.
func (r NewSMBGlobalMappingRequest) shown() map[string]any {
	return map[string]any{
		"RemotePath": r.RemotePath, "LocalPath": r.LocalPath, "Username": r.Username, "Password": "***",
		"RequirePrivacy": r.RequirePrivacy, "RequireIntegrity": r.RequireIntegrity,
	}
}

// Format implements [fmt.Formatter]: no verb prints the password.
func (r NewSMBGlobalMappingRequest) Format(f fmt.State, _ rune) { fmt.Fprint(f, r.shown()) }

// MarshalJSON implements [json.Marshaler] without the password.
func (r NewSMBGlobalMappingRequest) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

// NewSMBGlobalMappingResponse is empty.
type NewSMBGlobalMappingResponse struct{}

// UpdateSMBGlobalMappingRequest is the request of UpdateSMBGlobalMapping.
type UpdateSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
	// Username and Password are as in [NewSMBGlobalMappingRequest].
	Username string
	Password string
	// RequirePrivacy and RequireIntegrity are as in [NewSMBGlobalMappingRequest], except that a
	// mapping in use of which it is unknown what it requires is kept.
	RequirePrivacy   bool
	RequireIntegrity bool
}

// shown returns the request without the password.
func (r UpdateSMBGlobalMappingRequest) shown() map[string]any {
	return map[string]any{
		"RemotePath": r.RemotePath, "Username": r.Username, "Password": "***",
		"RequirePrivacy": r.RequirePrivacy, "RequireIntegrity": r.RequireIntegrity,
	}
}

// Format implements [fmt.Formatter]: no verb prints the password.
func (r UpdateSMBGlobalMappingRequest) Format(f fmt.State, _ rune) { fmt.Fprint(f, r.shown()) }

// MarshalJSON implements [json.Marshaler] without the password.
func (r UpdateSMBGlobalMappingRequest) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

// UpdateSMBGlobalMappingResponse says what became of the credentials.
type UpdateSMBGlobalMappingResponse struct {
	// InEffect means that the mapping was made with the credentials. Otherwise it is in use and
	// was made with others, or before the process started: call again later.
	InEffect bool
}

// GetSMBGlobalMappingRequest is the request of GetSMBGlobalMapping.
type GetSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
	// LocalPaths are paths of the caller's own links.
	LocalPaths []string
}

// GetSMBGlobalMappingResponse is the state of a mapping and its use.
type GetSMBGlobalMappingResponse struct {
	Status MappingStatus
	// RequirePrivacy and RequireIntegrity are what the mapping requires, unless
	// RequirementsUnknown is set: Windows does not say, and the process did not make the
	// mapping.
	RequirePrivacy      bool
	RequireIntegrity    bool
	RequirementsUnknown bool
	// Links is how many links to the share exist that are known. Before it is 0, they are searched
	// for. There may be more if LinksIncomplete is set. One that callers name by several paths, as
	// through a link above it, counts for each.
	Links           uint32
	LinksIncomplete bool
	// LocalPaths are those of the request that are links to the share.
	LocalPaths []string
}

// RemoveSMBGlobalMappingRequest is the request of RemoveSMBGlobalMapping.
type RemoveSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
}

// RemoveSMBGlobalMappingResponse is empty.
type RemoveSMBGlobalMappingResponse struct{}
