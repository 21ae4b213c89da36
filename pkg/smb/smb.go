package smb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// SMB implements [Service] with a HostAPI. The package comment describes its rules.
type SMB struct {
	base service.Base[smbapi.HostAPI]
	fs   filesystem.Interface
	*records
}

var _ Service = (*SMB)(nil)

// New returns a service that uses hostAPI. It uses fsClient to check whether a share can be
// reached. With the HostAPI of this project, all services of a node share their locks and
// what they know about mappings. With any other HostAPI the service does not know which
// links use a mapping, so RemoveSMBGlobalMapping always removes the mapping.
func New(hostAPI smbapi.HostAPI, fsClient filesystem.Interface) (*SMB, error) {
	if fsClient == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "smb service: the filesystem service is nil")
	}
	base, err := service.New("smb", hostAPI)
	if err != nil {
		return nil, err
	}
	s := &SMB{base, fsClient, node.Shared(base.Node, "smb", newRecords)}
	base.Node.OnRemoved("smb", s.sweepSoon)
	return s, nil
}

// host is the node for one call.
type host struct {
	api smbapi.HostAPI
	more
}

// more is what the service needs in addition to the published HostAPI.
type more interface {
	Mappings() ([]smbapi.Mapping, error)
	CheckLink(remotePath, localPath string) (there bool, err error)
	LinkAt(path string) (l smbapi.Link, ok bool, err error)
	Links() ([]smbapi.Link, error)
	Ask(server, username, password string) (smbapi.Answer, error)
	MapShare(remotePath, username, password string, p smbapi.Protection) (smbapi.Protection, error)
}

// on returns the host for a call about a share.
func (s *SMB) on(ctx context.Context, share winpath.Share) host {
	api := s.base.On(ctx)
	if m, ok := api.(more); ok {
		return host{api, m}
	}
	return host{api, published{api, share}}
}

// published is a HostAPI that is not of this project. It can list only one share, and no links.
type published struct {
	api   smbapi.HostAPI
	share winpath.Share
}

func (p published) Mappings() ([]smbapi.Mapping, error) {
	ok, err := p.api.IsSMBMapped(p.share.String())
	if err != nil || !ok {
		return nil, err
	}
	return []smbapi.Mapping{{Share: p.share, RequiresUnknown: true}}, nil
}

func (published) CheckLink(string, string) (bool, error)    { return false, nil }
func (published) LinkAt(string) (smbapi.Link, bool, error)  { return smbapi.Link{}, false, nil }
func (published) Links() ([]smbapi.Link, error)             { return nil, nil }
func (published) Ask(_, _, _ string) (smbapi.Answer, error) { return smbapi.CannotAsk, nil }

func (p published) MapShare(remotePath, username, password string, needs smbapi.Protection) (smbapi.Protection, error) {
	if needs != (smbapi.Protection{}) {
		_, err := service.Optional[more](p.api, "MapShare")
		return needs, err
	}
	return needs, p.api.NewSMBGlobalMapping(remotePath, username, password)
}

// call is a running request. It holds the lock of the server.
type call struct {
	s        *SMB
	ctx      context.Context
	host     host
	share    winpath.Share
	remote   RemotePath
	local    string
	as       credentials
	password string
	needs    smbapi.Protection
	update   bool // of a mapping, which must exist
	// listed are the mappings of the node, as they were listed last.
	listed []smbapi.Mapping
	// answer is the server's answer to the credentials, and answerErr its reason.
	answer    smbapi.Answer
	answerErr error
}

// about returns a call about a share.
func (s *SMB) about(ctx context.Context, remotePath string) (*call, error) {
	remote, err := ParseRemotePath(remotePath)
	if err != nil {
		return nil, err
	}
	return &call{s: s, ctx: ctx, host: s.on(ctx, remote.Share), remote: remote, share: remote.Share}, nil
}

// with sets the credentials of the call, and what the mapping has to require.
func (c *call) with(user, password string, privacy, integrity bool) error {
	c.as, c.password, c.needs = c.s.credentialsOf(user, password), password, smbapi.Protection{Privacy: privacy, Integrity: integrity}
	return checkCredentials(user, password)
}

// Format prints a call without its password.
func (c *call) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "call about %s", c.share) }

// locked runs work while no other request uses the server, or local if that is not nil.
func (s *SMB) locked(ctx context.Context, server string, local *winpath.Path, work func() error) error {
	if local != nil {
		unlock, err := service.Path(s.base.Node, *local)(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	unlock, err := s.base.Node.Locks.Shares.Lock(ctx, server)
	if err != nil {
		return hosterr.Wrap("wait for SMB server", hosterr.Quote(server), err)
	}
	defer unlock()
	return work()
}

// run runs the work of a call under its lock, after a search for links of earlier processes.
func (s *SMB) run(c *call, local *winpath.Path, work func() error) error {
	return service.Do(c.ctx, s.base, nil, func(smbapi.HostAPI) error {
		if err := s.find(c.ctx, c.host, time.Time{}); err != nil {
			return err
		}
		return s.locked(c.ctx, c.share.Server(), local, work)
	})
}

// NewSMBGlobalMapping implements [Interface]. It checks the whole request before it changes
// anything, and undoes its changes if it fails.
func (s *SMB) NewSMBGlobalMapping(ctx context.Context, in *NewSMBGlobalMappingRequest) (*NewSMBGlobalMappingResponse, error) {
	if in == nil {
		return nil, service.NoRequest("NewSMBGlobalMapping")
	}
	c, err := s.about(ctx, in.RemotePath)
	if err != nil {
		return nil, err
	}
	var local *winpath.Path
	if in.LocalPath != "" {
		p, err := winpath.Validate(in.LocalPath)
		if err != nil {
			return nil, err
		}
		c.local, local = in.LocalPath, &p
	}
	if err := c.with(in.Username, in.Password, in.RequirePrivacy, in.RequireIntegrity); err != nil {
		return nil, err
	}
	err = s.run(c, local, c.newMapping)
	return service.Response(&NewSMBGlobalMappingResponse{}, err)
}

// checkCredentials returns an error if Windows cannot use the credentials. The error does not contain the password.
func checkCredentials(user, password string) error {
	if strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		return hosterr.Text(hosterr.ErrInvalid, "user name %q contains a control character", user)
	}
	if len(user) > 512 || strings.Count(user, `\`) > 1 || strings.HasSuffix(user, `\`) {
		return hosterr.Text(hosterr.ErrInvalid, `user name %q: want a name of at most 512 bytes, or DOMAIN\name`, user)
	}
	if strings.ContainsRune(password, 0) {
		return hosterr.Text(hosterr.ErrInvalid, "the password contains a NUL")
	}
	return nil
}

// newMapping makes the mapping and, if requested, the link.
func (c *call) newMapping() error {
	there := false
	if c.local != "" {
		var err error
		if there, err = c.host.CheckLink(c.remote.String(), c.local); err != nil {
			return c.linkError(err)
		}
	}
	fresh, err := c.ensure(there)
	if err != nil {
		return err
	}
	c.s.change(c.share, func(r *record) { r.made = true })
	if c.local != "" && !there {
		if err := c.host.api.NewSMBLink(c.remote.String(), c.local); err != nil {
			if fresh {
				c.undo()
			}
			return c.linkError(err)
		}
	}
	if c.local != "" {
		c.s.addLink(c.share, c.local)
	}
	c.s.change(c.share, func(r *record) { r.unwanted = false })
	return nil
}

// linkError returns the error with the published text.
func (c *call) linkError(err error) error {
	return fmt.Errorf("creating link %s to %s failed with error: %w", c.local, c.remote, err)
}

// undo removes the mapping that the call has made, unless it is already in use.
func (c *call) undo() {
	if user, err := c.usedBy(c.share, ""); err != nil || user != "" {
		return
	}
	if err := c.remove(c.share); err != nil {
		c.s.base.Node.Log.Warn("Failed to remove an SMB mapping after an error", "share", c.share, "err", err)
	}
}

// UpdateSMBGlobalMapping implements [Service].
func (s *SMB) UpdateSMBGlobalMapping(ctx context.Context, in *UpdateSMBGlobalMappingRequest) (*UpdateSMBGlobalMappingResponse, error) {
	if in == nil {
		return nil, service.NoRequest("UpdateSMBGlobalMapping")
	}
	c, err := s.about(ctx, in.RemotePath)
	if err != nil {
		return nil, err
	}
	c.update = true
	if err := c.with(in.Username, in.Password, in.RequirePrivacy, in.RequireIntegrity); err != nil {
		return nil, err
	}
	out := &UpdateSMBGlobalMappingResponse{}
	err = s.run(c, nil, func() error {
		if _, err := service.Optional[more](c.host.api, "MapShare"); err != nil {
			return err
		}
		if _, err := c.ensure(false); err != nil {
			return err
		}
		out.InEffect = c.inEffect(c.share)
		return nil
	})
	return service.Response(out, err)
}

// GetSMBGlobalMapping implements [Service].
func (s *SMB) GetSMBGlobalMapping(ctx context.Context, in *GetSMBGlobalMappingRequest) (*GetSMBGlobalMappingResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetSMBGlobalMapping")
	}
	c, err := s.about(ctx, in.RemotePath)
	if err != nil {
		return nil, err
	}
	for _, path := range in.LocalPaths {
		if _, err := winpath.Validate(path); err != nil {
			return nil, err
		}
	}
	out := &GetSMBGlobalMappingResponse{Status: MAPPING_STATUS_UNMAPPED}
	err = service.Do(ctx, s.base, nil, func(smbapi.HostAPI) error {
		if _, err := service.Optional[more](c.host.api, "Mappings"); err != nil {
			return err
		}
		began := s.base.Node.Clock.Now()
		if err := s.find(ctx, c.host, time.Time{}); err != nil {
			return err
		}
		m, err := c.mapping()
		if err != nil {
			return err
		}
		if m != nil {
			out.Status = statusOf(m.Status)
			has, known := c.requires()
			out.RequirePrivacy, out.RequireIntegrity, out.RequirementsUnknown = has.Privacy, has.Integrity, !known
		}
		return c.count(began, in.LocalPaths, out)
	})
	return service.Response(out, err)
}

// statusOf returns the status of a mapping in the numbers of the API.
func statusOf(s smbapi.Status) MappingStatus {
	if s > smbapi.StatusReconnecting {
		return MAPPING_STATUS_UNKNOWN
	}
	return MAPPING_STATUS_OK + MappingStatus(s) // both have the order of Windows
}

// RemoveSMBGlobalMapping implements [Interface].
func (s *SMB) RemoveSMBGlobalMapping(ctx context.Context, in *RemoveSMBGlobalMappingRequest) (*RemoveSMBGlobalMappingResponse, error) {
	if in == nil {
		return nil, service.NoRequest("RemoveSMBGlobalMapping")
	}
	c, err := s.about(ctx, in.RemotePath)
	if err != nil {
		return nil, err
	}
	err = s.run(c, nil, c.removeUnused)
	return service.Response(&RemoveSMBGlobalMappingResponse{}, err)
}

// removeUnused removes the mapping unless a link uses it.
func (c *call) removeUnused() error {
	by, err := c.usedBy(c.share, "")
	if err != nil {
		return err
	}
	if by != "" {
		c.s.change(c.share, func(r *record) { r.unwanted = true })
		c.s.sweepLater()
		c.s.base.Node.Log.Info("Keeping SMB mapping until its links are removed", "share", c.share, "link", by)
		return nil
	}
	return c.remove(c.share)
}
