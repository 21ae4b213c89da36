package simnode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// A driver's test of an SMB volume, with failures of the network and the server.
func TestSMBVolume(t *testing.T) {
	n, err := simnode.Open(simnode.Config{SMBServers: []simnode.SMBServer{{
		Name: "nas", Shares: []string{"data"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "one"}},
	}}})
	must(t, err)
	defer n.Close()
	ok := func(err error) {
		t.Helper()
		must(t, err)
	}
	const dir = `C:\var\lib\kubelet\plugins\smb\v1`
	_, err = n.Filesystem().Mkdir(t.Context(), &filesystem.MkdirRequest{Path: dir})
	ok(err)
	stage := func(server, share, password string) error {
		_, err := n.SMB().NewSMBGlobalMapping(t.Context(), &smb.NewSMBGlobalMappingRequest{
			RemotePath: `\\` + server + `\` + share, LocalPath: dir + `\globalmount`, Username: "ann", Password: password,
		})
		return err
	}
	valid := func(path string) bool {
		out, _ := n.Filesystem().PathValid(t.Context(), &filesystem.PathValidRequest{Path: path})
		return out.Valid
	}
	status := func(want string) {
		t.Helper()
		state, err := n.Show()
		ok(err)
		var got []string
		for _, m := range state.SMBMappings {
			got = append(got, fmt.Sprintf("%s %s %s %s", m.Remote, m.User, m.Status, m.UsedBy))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("mappings %q, want %q", got, want)
		}
	}

	ok(stage("nas", "data", "one"))
	ok(n.AddShareDirectory("nas", "data", `a\b`))
	if !valid(dir+`\globalmount\a\b`) || valid(dir+`\globalmount\c`) {
		t.Error("the link does not show the content of the share")
	}
	status(`\\nas\data ann ok [C:\var\lib\kubelet\plugins\smb\v1\globalmount]`)

	ok(n.Reboot())
	status(`\\nas\data ann disconnected [C:\var\lib\kubelet\plugins\smb\v1\globalmount]`)
	ok(stage("nas", "data", "one"))

	ok(n.SetSMBServerDown("nas", true))
	if err := stage("nas", "data", "one"); !errors.Is(err, hosterr.ErrUnavailable) {
		t.Errorf("with the server down: %v", err)
	}
	ok(n.SetSMBServerDown("nas", false))
	ok(n.SetSMBMappingStatus(`\\nas\data`, "paused"))
	ok(n.SetSMBPassword("nas", "ann", "two"))
	ok(stage("nas", "data", "two"))
	status(`\\nas\data ann ok [C:\var\lib\kubelet\plugins\smb\v1\globalmount]`)

	ok(n.AddSMBServer(simnode.SMBServer{Name: "second"}))
	ok(n.AddSMBShare("second", "data"))
	ok(n.SetSMBEncryption("second", false))
	for what, err := range map[string]error{
		"no server": n.SetSMBServerDown("none", true), "no status": n.SetSMBMappingStatus(`\\nas\data`, "fine"),
		"a server twice": n.AddSMBServer(simnode.SMBServer{Name: "NAS"}), "a share twice": n.AddSMBShare("nas", "Data"),
		"no share to remove": n.RemoveSMBShare("nas", "x"),
	} {
		if !errors.Is(err, hosterr.ErrInvalid) {
			t.Errorf("%s: %v, want an invalid argument", what, err)
		}
	}
	if text := fmt.Sprintf("%+v %#v", simnode.SMBAccount{User: "ann", Password: "secret"}, &simnode.SMBServer{Accounts: []simnode.SMBAccount{{User: "ann", Password: "secret"}}}); strings.Contains(text, "secret") {
		t.Errorf("the output contains a password: %s", text)
	}
}

// What a restart of Windows does to mappings is not certain, so all answers can be tested.
func TestSMBAfterReboot(t *testing.T) {
	for what, want := range map[string]string{
		"":             "disconnected by ann",
		"disconnected": "disconnected by ann",
		"absent":       "",
		"working":      "ok by ann",
	} {
		n := simnode.New(t, func(c *simnode.Config) {
			c.World = behavior.In("", behavior.Windows{SMBAfterReboot: what})
			c.SMBServers = []simnode.SMBServer{{Name: "nas", Shares: []string{"data"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "one"}}}}
		})
		must(t, ignore(n.SMB().NewSMBGlobalMapping(t.Context(), &smb.NewSMBGlobalMappingRequest{RemotePath: `\\nas\data`, Username: "ann", Password: "one"})))
		must(t, n.Reboot())
		state, err := n.Show()
		must(t, err)
		got := ""
		for _, m := range state.SMBMappings {
			got += m.Status + " by " + m.User
		}
		if got != want {
			t.Errorf("mappings after a reboot, %q: %q, want %q", what, got, want)
		}
	}
}
