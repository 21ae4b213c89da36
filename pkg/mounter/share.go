package mounter

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// Share is a directory of an SMB server.
type Share struct {
	// Remote is \\server\share, or a directory below it.
	Remote string
	// User is a name, or DOMAIN\name. Empty means the node's own account.
	User     string
	Password Secret
	// Privacy asks for a mapping that requires encryption (SMB 3), and Integrity for one that
	// requires signing, where the node does not require it of every mapping. They need
	// [Abilities.ManagesShares].
	Privacy, Integrity bool
}

// StageShare maps a share and makes a link from path to it. An empty directory at path is
// replaced.
//
// Without [Abilities.ChecksLinks] a link that exists, and that the driver itself cannot read, is taken
// as it is, and logged.
func (m *Mounter) StageShare(ctx context.Context, s Share, path string) error {
	return hosterr.Wrap("stage share", hosterr.Quote(s.Remote)+" at "+hosterr.Quote(path), m.stageShare(ctx, s, path))
}

func (m *Mounter) stageShare(ctx context.Context, s Share, path string) error {
	path, unlock, err := m.lockShare(ctx, s.Remote, path)
	if err != nil {
		return err
	}
	defer unlock()
	if s.Privacy || s.Integrity { // which an Interface may not know
		if _, err := m.shareService(); err != nil {
			return err
		}
	}
	relying, can, err := m.guaranteed(ctx)
	if err != nil {
		return err
	}
	newMapping := func(local string) error {
		_, err := m.node.SMB.NewSMBGlobalMapping(relying, &smb.NewSMBGlobalMappingRequest{RemotePath: s.Remote, LocalPath: local, Username: s.User, Password: string(s.Password), RequirePrivacy: s.Privacy, RequireIntegrity: s.Integrity})
		return err
	}
	if !can.ChecksLinks {
		if target, err := m.options.Local.Readlink(path); err == nil && target != "" && !leadsTo(target, s.Remote) {
			return hosterr.Text(hosterr.ErrAlreadyExists, "there is a link to %q", target)
		}
		// It cannot be repeated with a link that exists.
		if err := newMapping(""); err != nil {
			return err
		}
	}
	// An error may be that of a link whose mapping has lost its credentials with a restart of
	// Windows.
	switch state, err := m.state(ctx, path); {
	case err != nil && !can.ChecksLinks:
		return err
	case err == nil && state == Plain:
		if err := m.remove(ctx, path); err != nil {
			return err
		}
	case state == Linked && !can.ChecksLinks:
		m.options.Log.Warn("Taking a link as it is, which the proxy cannot compare", "link", path, "want", s.Remote)
		return nil
	}
	return newMapping(path)
}

// leadsTo reports whether a link with a target leads to a share or directory. The existing proxy makes
// targets that begin with \\?\\\.
func leadsTo(target, remote string) bool {
	for _, prefix := range []string{`\\?\`, `\??\`} {
		if rest, ok := strings.CutPrefix(target, prefix+`\\`); ok {
			target = `\\` + rest
		}
	}
	is, err := smb.ParseRemotePath(target)
	want, wrong := smb.ParseRemotePath(remote)
	return err == nil && wrong == nil && winpath.Fold(is.String()) == winpath.Fold(want.String())
}

// UpdateShare gives the mapping of a share new credentials, such as a key that was rotated. If it has
// to be made again, it requires what s asks for. It fails with hosterr.ErrNotFound if the share is
// not mapped and no link leads to it. inEffect is false while a mapping that works for a link keeps
// its session with the old ones: call UpdateShare again, with each NodePublishVolume, so that the
// share works again when that session has ended. It needs [Abilities.ManagesShares].
func (m *Mounter) UpdateShare(ctx context.Context, s Share) (inEffect bool, err error) {
	service, err := m.shareService()
	if err == nil {
		var out *smb.UpdateSMBGlobalMappingResponse
		out, err = service.UpdateSMBGlobalMapping(ctx, &smb.UpdateSMBGlobalMappingRequest{RemotePath: s.Remote, Username: s.User, Password: string(s.Password), RequirePrivacy: s.Privacy, RequireIntegrity: s.Integrity})
		inEffect = err == nil && out.InEffect
	}
	return inEffect, hosterr.Wrap("update share", hosterr.Quote(s.Remote), err)
}

// ShareUse returns the state of the mapping of a share: its status, what it requires, how many
// links use it, and which of paths do. It asks no server, and needs [Abilities.ManagesShares].
func (m *Mounter) ShareUse(ctx context.Context, remote string, paths ...string) (*smb.GetSMBGlobalMappingResponse, error) {
	service, err := m.shareService()
	var out *smb.GetSMBGlobalMappingResponse
	if err == nil {
		out, err = service.GetSMBGlobalMapping(ctx, &smb.GetSMBGlobalMappingRequest{RemotePath: remote, LocalPaths: paths})
	}
	return out, hosterr.Wrap("look at share", hosterr.Quote(remote), err)
}

func (m *Mounter) shareService() (smb.Service, error) {
	if err := m.needs("smb"); err != nil {
		return nil, err
	}
	service, ok := m.node.SMB.(smb.Service)
	if !ok {
		return nil, hosterr.Text(hosterr.ErrUnimplemented, "the node's SMB service has only the published methods")
	}
	return service, nil
}

// UnstageShare removes the link at path, and the mapping of the share when no other link below
// Node.KubeletDir uses it. It succeeds if there is nothing to remove. If remote is empty, the
// driver reads the link at path itself.
//
// Without [Abilities.CountsLinks] the driver itself reads the links below Node.KubeletDir. If it
// cannot, the mapping stays, and this is logged.
func (m *Mounter) UnstageShare(ctx context.Context, path, remote string) error {
	return hosterr.Wrap("unstage share", hosterr.Quote(remote)+" at "+hosterr.Quote(path), m.unstageShare(ctx, path, remote))
}

func (m *Mounter) unstageShare(ctx context.Context, path, remote string) error {
	at, err := clean(path)
	if err != nil {
		return err
	}
	if remote == "" {
		remote, err = m.options.Local.Readlink(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && remote == "" {
			err = hosterr.Text(hosterr.ErrFailedPrecondition, "it is not a link")
		}
		if err != nil {
			return hosterr.WithHint("read the link", "", err, "give the share by its name")
		}
	}
	path, unlock, err := m.lockShare(ctx, remote, path)
	if err != nil {
		return err
	}
	defer unlock()
	relying, can, err := m.guaranteed(ctx)
	if err != nil {
		return err
	}
	unmap := func() error {
		_, err := m.node.SMB.RemoveSMBGlobalMapping(relying, &smb.RemoveSMBGlobalMappingRequest{RemotePath: remote})
		return err
	}
	if can.CountsLinks {
		// From here on the mapping goes with its last link, also if this driver ends: without the link
		// it does not know the share any more.
		if err := unmap(); err != nil {
			return err
		}
	}
	if err := m.remove(relying, path); err != nil {
		return err
	}
	if !can.CountsLinks {
		if by, err := m.usedBy(remote); err != nil || by != "" {
			m.options.Log.Warn("Keeping an SMB mapping that may be in use", "share", remote, "link", by, "err", err)
			return nil
		}
	}
	return unmap()
}

// lockShare returns the clean path, and locks the share: between the last look at the links and the
// removal of a mapping no link must come.
func (m *Mounter) lockShare(ctx context.Context, remote, path string) (string, func(), error) {
	if err := m.needs("smb", "filesystem"); err != nil {
		return "", nil, err
	}
	path, err := clean(path)
	if err != nil {
		return "", nil, err
	}
	r, err := smb.ParseRemotePath(remote)
	if err != nil {
		return "", nil, err
	}
	unlock, err := m.shares.Lock(ctx, r.Share.String())
	return path, unlock, err
}

// usedBy returns a link below the kubelet's directory to the share, or "".
func (m *Mounter) usedBy(remote string) (string, error) {
	r, err := smb.ParseRemotePath(remote)
	if err != nil {
		return "", err
	}
	for _, below := range []string{`pods\*\volumes\kubernetes.io~csi\*\mount`, `plugins\kubernetes.io\csi\*\*\globalmount`} {
		first, rest, _ := strings.Cut(below, `\`)
		dir := m.node.KubeletDir + `\` + first
		if _, err := m.options.Local.Dirs(dir); err != nil {
			return "", err // also if the pod does not mount it
		}
		if path, err := m.options.Local.find(dir, strings.Split(rest, `\`), r.Share); err != nil || path != "" {
			return path, err
		}
	}
	return "", nil
}

// find returns a link to the share below dir. The element * stands for each directory.
func (l *Local) find(dir string, below []string, share winpath.Share) (string, error) {
	for i, name := range below {
		if name != "*" {
			dir += `\` + name
			continue
		}
		names, err := l.Dirs(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		for _, name := range names {
			if path, err := l.find(dir+`\`+name, below[i+1:], share); err != nil || path != "" {
				return path, err
			}
		}
		return "", err
	}
	target, err := l.Readlink(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if to, err := smb.ParseRemotePath(target); err == nil && to.Share == share {
		return dir, nil
	}
	return "", nil
}
