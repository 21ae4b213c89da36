// Package smb maps shares of SMB servers on a Windows node.
//
// A global mapping gives every account of the node access to a share, with the
// credentials of the mapping. Containers need such mappings. They should be removed when
// they are no longer used. A mapping belongs to \\server\share; paths below the share use
// the mapping of the share.
//
// # States of a mapping
//
// A share has no mapping, a mapping that works, or a mapping that does not work because
// it is paused, disconnected, connecting or reconnecting. Requests for one server wait
// for each other. NewSMBGlobalMapping handles each case:
//
//   - No mapping: it makes one.
//   - A mapping that does not work, for example after a restart of Windows, which keeps
//     mappings but not their credentials: if the server accepts the credentials of the
//     request in a separate logon, it replaces the mapping with one that has them, even if
//     links use it. Links keep working. While Windows reports that the mapping works, errors
//     that may be temporary do not take it from another user whose links use it. If the
//     server does not respond, or refuses the credentials, it changes nothing and the
//     request fails.
//   - A mapping that works, with the same credentials: it does nothing.
//   - A mapping that works, with other credentials, and no other link uses it: it
//     replaces the mapping if the server accepts the credentials in a separate logon, and
//     otherwise fails and changes nothing. If the share then refuses the user whom the server
//     has accepted, the old mapping is gone.
//   - A mapping that works, with another user, and another link uses it: it fails with
//     hosterr.ErrFailedPrecondition and names both users.
//   - A mapping that works, with another password of the same user, and another link uses
//     it: it verifies the password with a separate logon to the server. If the server
//     accepts the password, the mapping stays, and the new password is the one that later
//     requests are compared with. If the server refuses the password or does not respond,
//     the request fails.
//
// Windows allows one user at a time for each server (error 1219). Mappings of other
// shares that conflict with this are removed if no link uses them and they either do not
// work or were made by this process. Otherwise the request fails with the same error.
//
// Credentials are compared by an HMAC under a random key in memory. The credentials of
// mappings that were made before the process started are unknown, and Windows may not
// report their user. If the link of a request already exists, the request adopts such a
// mapping, because replacing it would close the files that are open on it. Any other
// request for a mapping in use must have credentials that the server accepts.
//
// If Windows does not report the user, the service infers it from the links that are older
// than the process: once each of them was requested again, and the server accepted the same
// user for all, that is the user of the mapping, and others are refused. Until then, links
// of several users may come to use the mapping, so one user does not shut out another. A
// request that succeeded in that time succeeds again.
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
// restarted does not know which removals are pending: at its start it logs how many
// mappings have no links, and removes none of them. A program that uses a share by its
// UNC path is not known to the service: a driver that needs to keep its mapping when there
// are requests with other credentials must give a local path.
//
// # Cost of a request
//
// The number of Windows calls does not depend on the number of mappings.
// NewSMBGlobalMapping makes at most two calls that list mappings, one that checks the
// share, one that logs on to the server, one that removes a mapping and one that adds it. RemoveSMBGlobalMapping makes one
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
}

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
}

// shown returns the request without the password.
func (r NewSMBGlobalMappingRequest) shown() map[string]string {
	return map[string]string{"RemotePath": r.RemotePath, "LocalPath": r.LocalPath, "Username": r.Username, "Password": "***"}
}

// Format implements [fmt.Formatter]: no verb prints the password.
func (r NewSMBGlobalMappingRequest) Format(f fmt.State, _ rune) { fmt.Fprint(f, r.shown()) }

// MarshalJSON implements [json.Marshaler] without the password.
func (r NewSMBGlobalMappingRequest) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

// NewSMBGlobalMappingResponse is empty.
type NewSMBGlobalMappingResponse struct{}

// RemoveSMBGlobalMappingRequest is the request of RemoveSMBGlobalMapping.
type RemoveSMBGlobalMappingRequest struct {
	// RemotePath is \\server\share, or a directory below it.
	RemotePath string
}

// RemoveSMBGlobalMappingResponse is empty.
type RemoveSMBGlobalMappingResponse struct{}
