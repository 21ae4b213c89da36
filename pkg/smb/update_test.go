package smb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

func (f *fixture) protect(remote, local, user, password string, privacy, integrity bool) error {
	_, err := f.smb.NewSMBGlobalMapping(f.Context(), &smb.NewSMBGlobalMappingRequest{
		RemotePath: remote, LocalPath: local, Username: user, Password: password, RequirePrivacy: privacy, RequireIntegrity: integrity,
	})
	return err
}

func (f *fixture) update(remote, user, password string) (bool, error) {
	out, err := f.smb.UpdateSMBGlobalMapping(f.Context(), &smb.UpdateSMBGlobalMappingRequest{RemotePath: remote, Username: user, Password: password})
	return out != nil && out.InEffect, err
}

func (f *fixture) get(remote string) smb.GetSMBGlobalMappingResponse {
	f.Helper()
	out, err := f.smb.GetSMBGlobalMapping(f.Context(), &smb.GetSMBGlobalMappingRequest{RemotePath: remote})
	f.ok(err)
	return *out
}

// requires checks what the mapping requires, as "privacy", "integrity", both, "" or "unknown".
func (f *fixture) requires(remote, want string) {
	f.Helper()
	var got []string
	out := f.get(remote)
	for name, is := range map[string]bool{"privacy": out.RequirePrivacy, "integrity": out.RequireIntegrity, "unknown": out.RequirementsUnknown} {
		if is {
			got = append(got, name)
		}
	}
	if strings.Join(got, " ") != want {
		f.Errorf("%s requires %q, want %q", remote, got, want)
	}
}

// optional starts a process on the node that does not require privacy of every mapping.
func (f *fixture) optional() {
	f.Helper()
	f.start()
	var err error
	f.smb, err = smb.New(smbapi.On(f.node).RequirePrivacy(false), f.fs)
	f.ok(err)
}

// lists are the lists of mappings of WMI, which say what a mapping requires, and of NetUseEnum, which does not.
var lists = []string{behavior.SMBUsersHidden, behavior.SMBUsersShown}

// A mapping requires what is asked for, and keeps it when it is made again for a caller that asks
// for nothing, whatever Windows reports.
func TestProtectionIsAddedAndKept(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		f.optional()
		v1 := f.volume("v1")
		f.ok(f.mount(`\\files\data`, "", "ann", "ann-1"))
		f.requires(`\\files\data`, "")
		f.ok(f.protect(`\\files\data`, "", "ann", "ann-1", false, true))
		f.requires(`\\files\data`, "integrity")
		f.calls = map[string]int{}
		f.ok(f.protect(`\\files\data`, v1, "ann", "ann-1", false, true))
		f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
		if f.calls["UseAdd"] != 0 {
			t.Errorf("%s: a mapping that has what is asked for was made again", users)
		}
		f.refused(f.protect(`\\files\data`, "", "ann", "ann-1", true, false), hosterr.ErrFailedPrecondition,
			`map share "\\files\data": it is mapped without required encryption, and links use it, so it was not changed`, "smb list")
		f.requires(`\\files\data`, "integrity")
		f.read(v1)
		// What no longer works is made again, and requires no less.
		f.ok(f.win.SetSMBMappingStatus(`\\files\data`, "disconnected"))
		f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
		f.requires(`\\files\data`, "integrity")
		f.unlink(v1)
		f.ok(f.protect(`\\files\data`, v1, "ann", "ann-1", true, false))
		if out := f.get(`\\files\data`); !out.RequirePrivacy || !out.RequireIntegrity {
			t.Errorf("%s: the mapping has %+v", users, out)
		}
		f.read(v1)
	}
}

// What a mapping of an earlier process requires is only known if Windows says it. Otherwise it
// counts as nothing.
func TestProtectionOfAnEarlierProcess(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		v1, v2 := f.volume("v1"), f.volume("v2")
		f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
		f.requires(`\\files\data`, "privacy")
		f.optional()
		err := f.protect(`\\files\data`, v2, "ann", "ann-1", true, false)
		if users == behavior.SMBUsersHidden {
			f.ok(err)
			f.requires(`\\files\data`, "privacy")
			continue
		}
		f.requires(`\\files\data`, "unknown")
		f.refused(err, hosterr.ErrFailedPrecondition, "it was mapped by an earlier process, and Windows does not say whether it requires encryption")
		f.ok(f.mount(`\\files\data`, v2, "ann", "ann-1"))
		f.unlink(v1)
		f.unlink(v2)
		f.ok(f.protect(`\\files\data`, v2, "ann", "ann-1", true, false))
		f.requires(`\\files\data`, "privacy")
	}
}

// A mapping that cannot be made again with encryption is as it was before.
func TestProtectionThatTheServerLacks(t *testing.T) {
	f := begin(t, nodespec.SMBServer{Name: "old", Shares: []string{"data"}, NoEncryption: true, Accounts: []nodespec.SMBAccount{{User: "ann", Password: "ann-1"}}})
	f.optional()
	v := f.volume("v1")
	f.refused(f.protect(`\\old\data`, v, "ann", "ann-1", true, false), hosterr.ErrPermissionDenied, "encryption", "ask for a mapping without privacy")
	f.mappings()
	f.ok(f.protect(`\\old\data`, "", "ann", "ann-1", false, true))
	f.refused(f.protect(`\\old\data`, v, "ann", "ann-1", true, false), hosterr.ErrPermissionDenied, "encryption", "ask for a mapping without privacy")
	f.mappings(`\\old\data ann ok`)
	f.requires(`\\old\data`, "integrity")
	f.ok(f.mount(`\\old\data`, v, "ann", "ann-1"))
	f.read(v)
	f.refused(f.protect(`\\old\data`, "", "ann", "wrong", true, false), hosterr.ErrFailedPrecondition)
	f.requires(`\\old\data`, "integrity")
}

// After a restart of CSI Proxy it is unknown what a mapping was made with, so new credentials are
// not in effect while a link uses it. They are when the session has ended.
func TestUpdateOfAMappingOfAnEarlierProcess(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.start()
		f.ok(f.win.SetSMBPassword("files", "ann", "ann-2"))
		for range 2 {
			if inEffect, err := f.update(`\\files\data`, "ann", "ann-2"); err != nil || inEffect {
				t.Errorf("%s: in effect %t, %v", users, inEffect, err)
			}
			f.read(v)
		}
		f.ok(f.win.SetSMBServerDown("files", true))
		f.ok(f.win.SetSMBServerDown("files", false))
		if f.reads(v) {
			t.Fatal("the session began again with the old password")
		}
		if inEffect, err := f.update(`\\files\data`, "ann", "ann-2"); err != nil || !inEffect {
			t.Errorf("%s: in effect %t, %v", users, inEffect, err)
		}
		f.read(v)
		f.mappings(`\\files\data ann ok`)
	}
}

// An update makes no mapping for no link, and keeps none that is to be removed with its last link.
func TestUpdateKeepsAPendingRemoval(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.ok(f.unmap(`\\files\data`))
	f.ok(f.win.SetSMBPassword("files", "ann", "ann-2"))
	f.ok(f.win.SetSMBMappingStatus(`\\files\data`, "disconnected"))
	if inEffect, err := f.update(`\\files\data`, "ann", "ann-2"); err != nil || !inEffect {
		t.Errorf("in effect %t, %v", inEffect, err)
	}
	f.read(v)
	f.unlink(v)
	f.mappings()
	// A process that ended while it made the mapping again has left a link without one.
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-2"))
	f.ok(f.win.UseDel(`\\files\data`, win32.USE_LOTS_OF_FORCE))
	f.start()
	if inEffect, err := f.update(`\\files\data`, "ann", "ann-2"); err != nil || !inEffect {
		t.Errorf("in effect %t, %v", inEffect, err)
	}
	f.read(v)
	f.unlink(v)
	f.ok(f.unmap(`\\files\data`))
	_, err := f.update(`\\files\data`, "ann", "ann-2")
	f.refused(err, hosterr.ErrNotFound, `update mapping of share "\\files\data": it is not mapped`)
	f.mappings()
}

// A link that cannot be read is counted, and named to no one; then there may be more.
func TestCountOfLinksThatCannotBeRead(t *testing.T) {
	f := begin(t)
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-1"))
	f.fail("DeviceIoControl", win32.ERROR_IO_DEVICE)
	out, err := f.smb.GetSMBGlobalMapping(t.Context(), &smb.GetSMBGlobalMappingRequest{RemotePath: `\\files\data`, LocalPaths: []string{v1}})
	f.ok(err)
	f.heal()
	if out.Links != 2 || !out.LinksIncomplete || len(out.LocalPaths) != 0 {
		t.Errorf("links that cannot be read: %+v", out)
	}
	if out := f.get(`\\files\data`); out.Links != 2 || out.LinksIncomplete {
		t.Errorf("links that can be read: %+v", out)
	}
}

func TestStatusOfAMapping(t *testing.T) {
	f := begin(t)
	f.ok(f.mount(`\\files\data`, "", "ann", "ann-1"))
	for i, status := range append([]smbapi.Status{smbapi.StatusOK}, statuses...) {
		f.ok(f.win.SetSMBMappingStatus(`\\files\data`, status.String()))
		if got := f.get(`\\files\data`).Status; got != smb.MAPPING_STATUS_OK+smb.MappingStatus(i) {
			t.Errorf("status %s is %d", status, got)
		}
	}
}

// A HostAPI with the published methods only can neither list mappings nor protect them.
func TestNewMethodsOfOtherHostAPIs(t *testing.T) {
	host := &simple{map[string]bool{}, map[string]string{}}
	s, err := smb.New(host, simpleFS{simple: host})
	if err != nil {
		t.Fatal(err)
	}
	_, get := s.GetSMBGlobalMapping(t.Context(), &smb.GetSMBGlobalMappingRequest{RemotePath: `\\files\data`})
	_, update := s.UpdateSMBGlobalMapping(t.Context(), &smb.UpdateSMBGlobalMappingRequest{RemotePath: `\\files\data`, Username: "u", Password: "p"})
	_, privacy := s.NewSMBGlobalMapping(t.Context(), &smb.NewSMBGlobalMappingRequest{RemotePath: `\\files\data`, Username: "u", Password: "p", RequirePrivacy: true})
	for what, err := range map[string]error{"get": get, "update": update, "privacy": privacy} {
		if !errors.Is(err, hosterr.ErrUnimplemented) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(host.mapped) != 0 {
		t.Errorf("mapped %v", host.mapped)
	}
}
