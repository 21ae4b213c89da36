package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	smb "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
)

// The share is on the server of the default node.
const (
	smbShare   = `\\files.example.com\data`
	smbUser    = "csi"
	smbStaging = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\smb-demo`
	smbLink    = smbStaging + `\globalmount`
)

// smbStory is the life of an SMB volume.
type smbStory struct {
	*demo
	*clients
}

func (s *smbStory) run(ctx context.Context) error {
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"An SMB volume: NodeStage", s.stage},
		{"An SMB volume: the node restarts", s.reboot},
		{"An SMB volume: another user of the same server", s.secondUser},
		{"An SMB volume: NodeUnstage", s.unstage},
	} {
		s.title(step.title)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

func (s *smbStory) mapShare(ctx context.Context, user, link string) error {
	_, err := call(ctx, s.demo, smb.GroupName, smb.Version, s.clients.smb.NewSmbGlobalMapping, "NewSmbGlobalMapping",
		&smbv1.NewSmbGlobalMappingRequest{RemotePath: smbShare, LocalPath: link, Username: user, Password: "csi"})
	return err
}

// mapping checks that the share is mapped with a status, or with "" that it is not mapped.
func (s *smbStory) mapping(ctx context.Context, want string) error {
	state, err := s.clients.node.Show(ctx)
	if err != nil {
		return err
	}
	got := ""
	for _, m := range state.SMBMappings {
		got = m.Status
	}
	if want == "" {
		return s.check(got == "", "no share is mapped")
	}
	return s.check(got == want, "%s is mapped, and %s", smbShare, want)
}

func (s *smbStory) stage(ctx context.Context) error {
	if _, err := call(ctx, s.demo, filesystem.GroupName, filesystem.Version, s.clients.filesystem.Mkdir, "Mkdir", &filesystemv1.MkdirRequest{Path: smbStaging}); err != nil {
		return err
	}
	if err := s.mapShare(ctx, smbUser, smbLink); err != nil {
		return err
	}
	link, err := call(ctx, s.demo, filesystem.GroupName, filesystem.Version, s.clients.filesystem.IsSymlink, "IsSymlink", &filesystemv1.IsSymlinkRequest{Path: smbLink})
	if err != nil {
		return err
	}
	if err := s.check(link.IsSymlink, "the staging directory is a link to the share"); err != nil {
		return err
	}
	return s.mapping(ctx, "ok")
}

func (s *smbStory) reboot(ctx context.Context) error {
	if err := onNode(ctx, s.demo, "Reboot", "", s.clients.node.Reboot); err != nil {
		return err
	}
	if err := s.mapping(ctx, "disconnected"); err != nil {
		return err
	}
	if err := s.mapShare(ctx, smbUser, smbLink); err != nil {
		return err
	}
	return s.mapping(ctx, "ok")
}

func (s *smbStory) secondUser(ctx context.Context) error {
	err := s.mapShare(ctx, "another-user", "")
	return s.check(status.Code(err) == codes.FailedPrecondition, "the call fails, and the mapping of the first user stays")
}

func (s *smbStory) unstage(ctx context.Context) error {
	if _, err := call(ctx, s.demo, filesystem.GroupName, filesystem.Version, s.clients.filesystem.Rmdir, "Rmdir", &filesystemv1.RmdirRequest{Path: smbLink}); err != nil {
		return err
	}
	if _, err := call(ctx, s.demo, smb.GroupName, smb.Version, s.clients.smb.RemoveSmbGlobalMapping, "RemoveSmbGlobalMapping", &smbv1.RemoveSmbGlobalMappingRequest{RemotePath: smbShare}); err != nil {
		return err
	}
	return s.mapping(ctx, "")
}
