// Package smb maps shares of SMB servers on a Windows node.
//
// A global mapping gives every account of the node access to a share with the
// credentials of the mapping. That is what containers need, and a reason
// to remove a mapping when its last user is gone. A mapping belongs to
// \\server\share; paths below the share use the mapping of the share.
//
// # States of a mapping
//
// A share has no mapping, or one that works, or one that does not: paused,
// disconnected, connecting, reconnecting. Requests for one server wait for each
// other. What NewSMBGlobalMapping does depends on what it finds:
//
//   - no mapping: it is made;
//   - one that does not work, as after a restart of Windows, which keeps mappings
//     and forgets their credentials: it is made anew with the credentials of the
//     request, whoever uses it. Links survive. If the server does not answer at
//     all, nothing is touched and the error is unavailable;
//   - one that works and has the same credentials: nothing;
//   - one that works and has others: it is made anew if no other link uses it. Else
//     another user is refused (failed-precondition; the error names both). Another
//     password of the same user is verified: the server is asked in a logon of its
//     own. If it accepts, the mapping stays as it is and the new password counts from
//     then on. If it refuses or cannot be asked, so does the request.
//
// Windows lets one user at a time use a server (error 1219). Mappings of other
// shares that stand in the way are removed if nobody uses them and they do not
// work, or were made here; else the error is the same.
//
// Credentials are compared by a mark under a random key in memory. What mappings
// were made with before the process was started is unknown, and Windows may not
// report their user. A request whose link is there already adopts such a mapping: made
// anew, it would close what its users have open. Any other request for a mapping in
// use must have credentials that the server accepts.
//
// # Who uses a mapping
//
// Links that lead to the share: those that this service made, and those that it
// found at its first request where the kubelet lets CSI drivers make them
// (pods\*\volumes\kubernetes.io~csi\*\mount and plugins\**\globalmount). Whether
// a link is still there is asked of the node when it matters, one read for each
// link until one is there. RemoveSMBGlobalMapping leaves a mapping alone that a
// link uses. The mapping goes when the filesystem service removes the last link, by
// Rmdir or RmdirContents, or within a minute of its removal by another program. A new
// request for the share revokes the removal. (A process that was restarted does not
// know which removals are still due; it logs at its start how many mappings have no
// links, and removes none of them.) A user that reaches a share by
// its path alone is not seen: a driver that wants its mapping kept apart from
// requests with other credentials gives a local path.
//
// # What a request costs
//
// However many mappings there are: NewSMBGlobalMapping makes at most two calls
// that list mappings, one that asks for the share, one that removes and one that
// adds; RemoveSMBGlobalMapping one that removes. To that come those that read or
// make links. (Natively, adding lists twice, to see what was made.) Only where
// other users' mappings of the server are in the way, it is two more, and a
// removal for each of them.
//
// # No version
//
// The requests and responses here have no version. The gRPC daemon translates
// every published API version to them; a driver that runs as a HostProcess
// container calls the same [Interface] in process.
package smb

import (
	"context"
	"encoding/json"
	"fmt"
)

// Interface is what can be asked of the SMB mappings of one node.
//
// Every method may be called from several goroutines at once; calls for one
// share wait for each other. No error text and no log line holds a password.
type Interface interface {
	// NewSMBGlobalMapping makes sure that the share of a remote path is mapped
	// and, if a local path is given, that a directory link leads from there to
	// the remote path. It may be repeated: the same link there is success.
	NewSMBGlobalMapping(context.Context, *NewSMBGlobalMappingRequest) (*NewSMBGlobalMappingResponse, error)

	// RemoveSMBGlobalMapping removes the mapping of a remote path's share, unless
	// a link still uses it. A share that is not mapped is success.
	RemoveSMBGlobalMapping(context.Context, *RemoveSMBGlobalMappingRequest) (*RemoveSMBGlobalMappingResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// NewSMBGlobalMappingRequest says what to map, as whom, and to where.
type NewSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
	// LocalPath is the link to be made; empty for none.
	LocalPath string
	// Username is a name, or a name with its domain: DOMAIN\name. Empty for
	// the node's own account; Password is not used then.
	Username string
	Password string
}

// shown is a request as it may be seen.
func (r NewSMBGlobalMappingRequest) shown() map[string]string {
	return map[string]string{"RemotePath": r.RemotePath, "LocalPath": r.LocalPath, "Username": r.Username, "Password": "***"}
}

// Format implements [fmt.Formatter]: no verb prints the password.
func (r NewSMBGlobalMappingRequest) Format(f fmt.State, _ rune) { fmt.Fprint(f, r.shown()) }

// MarshalJSON implements [json.Marshaler] without the password.
func (r NewSMBGlobalMappingRequest) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

// NewSMBGlobalMappingResponse is empty.
type NewSMBGlobalMappingResponse struct{}

// RemoveSMBGlobalMappingRequest names the mapping to be removed.
type RemoveSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
}

// RemoveSMBGlobalMappingResponse is empty.
type RemoveSMBGlobalMappingResponse struct{}
