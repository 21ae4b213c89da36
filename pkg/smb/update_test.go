package smb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
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

func (f *fixture) get(remote string, paths ...string) smb.GetSMBGlobalMappingResponse {
	f.Helper()
	out, err := f.smb.GetSMBGlobalMapping(f.Context(), &smb.GetSMBGlobalMappingRequest{RemotePath: remote, LocalPaths: paths})
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

// loseMapping lets \\files\data lose its credentials, so that the next call removes it, and lets making it
// again fail, until heal.
func (f *fixture) loseMapping() {
	f.Helper()
	f.ok(f.win.SetSMBMappingStatus(`\\files\data`, "disconnected"))
	hook := func(c *win32.Call) error {
		switch c.Name {
		case "UseAdd":
			return win32.ERROR_UNEXP_NET_ERR
		case "Attributes":
			return win32.ERROR_ACCESS_DENIED
		}
		return c.Do()
	}
	f.hook.Store(&hook)
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
		f.refused(err, hosterr.ErrFailedPrecondition, "it was mapped by another process, and Windows does not say whether it requires encryption")
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
	f.ok(f.win.UseDel(`\\files\data`))
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
	f.ok(f.unmap(`\\files\data`)) // both links may use it
	f.heal()
	f.mappings(`\\files\data ann ok`)
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

// What the links of a share were promised holds also for a mapping that could not be made again, that
// another program removed, or that a process left when it ended. An update that does not know it
// requires encryption, and other requests what they ask for.
func TestProtectionOutlastsTheMapping(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		f.optional()
		v := f.volume("v1")
		again := func(what, want string, update bool) {
			t.Helper()
			if update {
				_, err := f.update(`\\files\data`, "ann", "ann-1")
				f.ok(err)
			} else {
				f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
			}
			if out := f.get(`\\files\data`); out.RequirePrivacy != (want != "") || out.RequirementsUnknown {
				t.Errorf("%s, %s: %+v, want %q", users, what, out, want)
			}
		}
		gone := func() { f.ok(f.win.UseDel(`\\files\data`)) }
		f.ok(f.protect(`\\files\data`, v, "ann", "ann-1", true, false))
		for _, update := range []bool{false, true} {
			f.loseMapping()
			if err := f.mount(`\\files\data`, v, "ann", "ann-1"); err == nil {
				t.Error("it was mapped by a call that fails")
			}
			f.heal()
			f.mappings()
			again("after a failure", "privacy", update)
			gone()
			again("after another program", "privacy", update)
		}
		gone()
		f.optional()
		again("update after the process ended", "privacy", true)
		gone()
		f.optional()
		again("request after the process ended", "", false)
		gone()
		again("update of what required nothing", "", true)
		// A process that knows it from Windows only.
		f.unlink(v)
		f.ok(f.unmap(`\\files\data`))
		f.ok(f.protect(`\\files\data`, v, "ann", "ann-1", false, true))
		f.optional()
		f.loseMapping()
		if _, err := f.update(`\\files\data`, "ann", "ann-1"); err == nil {
			t.Error("it was mapped by a call that fails")
		}
		f.heal()
		f.mappings()
		_, err := f.update(`\\files\data`, "ann", "ann-1")
		f.ok(err)
		f.requires(`\\files\data`, map[string]string{behavior.SMBUsersHidden: "integrity", behavior.SMBUsersShown: "privacy"}[users])
	}
}

// An update can require what a request can. It fails for a mapping in use that is known to have less.
func TestUpdateRequiresProtection(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		f.optional()
		v := f.volume("v1")
		update := func() (bool, error) {
			out, err := f.smb.UpdateSMBGlobalMapping(t.Context(), &smb.UpdateSMBGlobalMappingRequest{RemotePath: `\\files\data`, Username: "ann", Password: "ann-1", RequirePrivacy: true, RequireIntegrity: true})
			return err == nil && out.InEffect, err
		}
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		_, err := update()
		f.refused(err, hosterr.ErrFailedPrecondition, "mapped without required encryption, and links use it")
		f.requires(`\\files\data`, "")
		f.optional()
		inEffect, err := update()
		if users == behavior.SMBUsersHidden {
			f.refused(err, hosterr.ErrFailedPrecondition, "mapped without required encryption, and links use it")
		} else if err != nil || inEffect {
			t.Errorf("what it requires is unknown: in effect %t, %v", inEffect, err)
		}
		f.unlink(v)
		if inEffect, err := update(); err != nil || !inEffect {
			t.Errorf("in effect %t, %v", inEffect, err)
		}
		if out := f.get(`\\files\data`); !out.RequirePrivacy || !out.RequireIntegrity {
			t.Errorf("%s: the mapping has %+v", users, out)
		}
	}
}

// An update closes no files while Windows says that a mapping does not work, and the share can be used.
func TestUpdateOfADoubtfulMapping(t *testing.T) {
	f := begin(t, nodespec.SMBServer{Name: "guests", Shares: []string{"data"}, NodeAccount: true, Accounts: files.Accounts})
	v := f.volume("v1")
	f.ok(f.mount(`\\guests\data`, v, "ann", "ann-1"))
	f.ok(f.win.SetSMBMappingStatus(`\\guests\data`, "disconnected"))
	f.calls = map[string]int{}
	if inEffect, err := f.update(`\\guests\data`, "ann", "ann-1"); err != nil || !inEffect {
		t.Errorf("its own credentials: in effect %t, %v", inEffect, err)
	}
	f.ok(f.win.SetSMBPassword("guests", "ann", "ann-2"))
	if inEffect, err := f.update(`\\guests\data`, "ann", "ann-2"); err != nil || inEffect {
		t.Errorf("new credentials: in effect %t, %v", inEffect, err)
	}
	if f.calls["UseDel"] > 0 {
		t.Error("the mapping was removed")
	}
	f.ok(f.mount(`\\guests\data`, v, "ann", "ann-2"))
	if inEffect, err := f.update(`\\guests\data`, "ann", "ann-2"); err != nil || !inEffect {
		t.Errorf("after a request: in effect %t, %v", inEffect, err)
	}
}

// Credentials are in effect with their domain.
func TestUpdateWithAnotherDomain(t *testing.T) {
	f := begin(t, nodespec.SMBServer{Name: "nas", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: `CORP\csi`, Password: "p"}, {User: `OTHER\csi`, Password: "p"}}})
	v := f.volume("v1")
	f.ok(f.mount(`\\nas\data`, v, `CORP\csi`, "p"))
	for user, want := range map[string]bool{`CORP\csi`: true, `OTHER\csi`: false} {
		if inEffect, err := f.update(`\\nas\data`, user, "p"); err != nil || inEffect != want {
			t.Errorf("%s: in effect %t, %v", user, inEffect, err)
		}
	}
}

// A removal waits on for the last link, also if a call could not make the mapping again.
func TestCallThatFailsKeepsAPendingRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, update := range []bool{false, true} {
			f := begin(t)
			v := f.volume("v1")
			f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
			f.ok(f.unmap(`\\files\data`))
			f.loseMapping()
			err := f.mount(`\\files\data`, f.volume("v2"), "ann", "ann-1")
			if update {
				_, err = f.update(`\\files\data`, "ann", "ann-1")
			}
			if err == nil {
				t.Error("it was mapped by a call that fails")
			}
			f.heal()
			f.mappings()
			if inEffect, err := f.update(`\\files\data`, "ann", "ann-1"); err != nil || !inEffect {
				t.Errorf("in effect %t, %v", inEffect, err)
			}
			f.mappings(`\\files\data ann ok`)
			time.Sleep(time.Hour) // the timer goes on
			f.mappings(`\\files\data ann ok`)
			f.ok(winfs.Remove(t.Context(), f.node, v)) // as another program
			time.Sleep(time.Minute)
			f.mappings()
		}
	})
}

// A look holds no lock, so a link that it did not find may be there when it ends.
func TestLookForgetsNoLink(t *testing.T) {
	f := begin(t)
	f.volume("v1")
	const v = `C:\var\lib\other` // which no search finds
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.ok(winfs.Remove(t.Context(), f.node, v))
	made := false
	hook := func(c *win32.Call) error {
		err := c.Do()
		if c.Name == "NtCreateFile" && err != nil && !made {
			made = true
			f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		}
		return err
	}
	f.hook.Store(&hook)
	f.get(`\\files\data`)
	f.heal()
	if !made {
		t.Fatal("the look did not look for the link")
	}
	f.ok(f.unmap(`\\files\data`))
	f.mappings(`\\files\data ann ok`)
	f.read(v)
}

// A look sees links that this process did not make: those that the caller names, in each spelling,
// and before it says that there are none those of the kubelet. One that cannot be read is not "none".
func TestLookAtLinksOfOthers(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	const other = `C:\var\lib\other`
	f.ok(f.mount(`\\files\data`, "", "ann", "ann-1"))
	if out := f.get(`\\files\data`, v, other); out.Links != 0 || out.LinksIncomplete || len(out.LocalPaths) != 0 {
		t.Errorf("no links: %+v", out)
	}
	f.ok(winfs.LinkToShare(t.Context(), f.node, `\\?\UNC\files\data\`, other))
	if out := f.get(`\\files\data`); out.Links != 0 {
		t.Errorf("a link elsewhere that is not named: %+v", out)
	}
	f.fail("DeviceIoControl", win32.ERROR_IO_DEVICE)
	out := f.get(`\\files\data`, other)
	f.heal()
	if !out.LinksIncomplete || len(out.LocalPaths) != 0 {
		t.Errorf("a named link that cannot be read: %+v", out)
	}
	spellings := []string{other, `c:/VAR/lib/other/`, f.volume("v2"), other}
	if out := f.get(`\\files\data`, spellings...); out.Links != 1 || out.LinksIncomplete || !slices.Equal(out.LocalPaths, []string{spellings[0], spellings[1], other}) {
		t.Errorf("named links: %+v", out)
	}
	f.ok(f.unmap(`\\files\data`)) // it waits for the link
	f.mappings(`\\files\data ann ok`)
	f.unlink(other)
	f.mappings()
	f.ok(winfs.LinkToShare(t.Context(), f.node, `\\files\logs`, v))
	if out := f.get(`\\files\logs`); out.Links != 1 || out.LinksIncomplete {
		t.Errorf("a link of the kubelet that another program made: %+v", out)
	}
}

// A link that a caller names by another path counts twice, and keeps the mapping no longer for it.
func TestLinkWithTwoPaths(t *testing.T) {
	for _, removed := range []string{"own", "other"} {
		f := begin(t)
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		above := strings.TrimSuffix(v, `\globalmount`)
		f.ok(winfs.Symlink(t.Context(), f.node, above, above+"-2"))
		other := above + `-2\globalmount`
		if out := f.get(`\\files\data`, other); out.Links != 2 || !slices.Equal(out.LocalPaths, []string{other}) {
			t.Errorf("a link with two paths: %+v", out)
		}
		f.ok(f.unmap(`\\files\data`))
		f.mappings(`\\files\data ann ok`)
		f.unlink(map[string]string{"own": v, "other": other}[removed])
		f.mappings()
	}
}

// lettered is a Windows that has a mapping with the letter of a drive, which requires nothing.
type lettered struct{ win32.API }

func (l lettered) UseEnum() ([]win32.Use, error) {
	all, err := l.API.UseEnum()
	return append([]win32.Use{{Remote: `\\files\data`, Local: "G:"}}, all...), err
}

// A mapping with the letter of a drive is not the mapping of its share.
func TestMappingWithALetter(t *testing.T) {
	f := begin(t)
	f.api = lettered{f.win}
	f.start()
	if out := f.get(`\\files\data`); out.Status != smb.MAPPING_STATUS_UNMAPPED {
		t.Errorf("only with a letter: %+v", out)
	}
	f.ok(f.mount(`\\files\data`, "", "ann", "ann-1"))
	f.mappings(`\\files\data ann ok`)
	f.requires(`\\files\data`, "privacy")
}

// What another program made again, for another user, is not known to require what it did.
func TestProtectionOfAMappingOfAnotherProgram(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		f.optional()
		f.ok(f.protect(`\\files\data`, f.volume("v1"), "ann", "ann-1", true, false))
		f.ok(f.win.UseDel(`\\files\data`))
		f.ok(f.win.UseAdd(win32.NewUse{Remote: `\\files\data`, User: "bob", Password: win32.NewSecret("bob-1")}))
		f.requires(`\\files\data`, map[string]string{behavior.SMBUsersHidden: "", behavior.SMBUsersShown: "unknown"}[users])
		f.refused(f.protect(`\\files\data`, f.volume("v2"), "bob", "bob-1", true, false), hosterr.ErrFailedPrecondition)
		if users == behavior.SMBUsersShown { // who this process made it for does not count any more
			f.refused(f.mount(`\\files\data`, f.volume("v3"), "ann", "ann-1"), hosterr.ErrFailedPrecondition, `"bob"`, `"ann"`)
		}
	}
}

// A request that cannot make its link leaves a pending removal.
func TestLinkThatFailsKeepsAPendingRemoval(t *testing.T) {
	f := begin(t)
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.ok(f.unmap(`\\files\data`))
	f.fail("DeviceIoControl", win32.ERROR_DISK_FULL)
	if err := f.mount(`\\files\data`, v2, "ann", "ann-1"); !win32.IsCode(err, win32.ERROR_DISK_FULL) {
		t.Errorf("got %v", err)
	}
	f.heal()
	f.mappings(`\\files\data ann ok`)
	f.unlink(strings.TrimPrefix(v1, "C:"))
	f.mappings()
}

// A search that did not see every link keeps a mapping that a link of an earlier process may use, also
// after a request used it, gave it new credentials, or made it again.
func TestIncompleteSearchKeepsMapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, change := range []string{"", "password", "status"} {
			f := begin(t)
			v1, v2 := f.volume("v1"), f.volume("v2")
			f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
			f.start()
			hook := func(c *win32.Call) error {
				if c.Name == "NtCreateFile" && strings.HasSuffix(c.Path, `v1\globalmount`) {
					return win32.ERROR_IO_DEVICE
				}
				return c.Do()
			}
			f.hook.Store(&hook)
			password := "ann-1"
			switch change {
			case "password":
				password = "ann-2"
				f.ok(f.win.SetSMBPassword("files", "ann", password))
			case "status":
				f.ok(f.win.SetSMBMappingStatus(`\\files\data`, "disconnected"))
			}
			f.ok(f.mount(`\\files\data`, v2, "ann", password))
			f.heal()
			f.unlink(v2)
			f.ok(f.unmap(`\\files\data`))
			f.mappings(`\\files\data ann ok`)
			f.read(v1)
			f.ok(winfs.Remove(t.Context(), f.node, v1)) // as another program
			time.Sleep(11 * time.Minute)                // the search is repeated
			f.mappings()
		}
	})
}

// A user that may use only the directory of the request keeps a mapping after a restart of the process.
func TestOwnLinkWithoutRightsToTheRoot(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		v := f.volume("v1")
		f.ok(f.win.MakeShareDirectory("files", "data", "team"))
		f.ok(f.mount(`\\files\data\team`, v, "ann", "ann-1"))
		f.start()
		f.failAt("Attributes", `\\files\data`, win32.ERROR_ACCESS_DENIED)
		f.calls = map[string]int{}
		f.ok(f.mount(`\\files\data\team`, v, "ann", "ann-1"))
		if f.calls["UseDel"] > 0 {
			t.Errorf("%s: the mapping was made again, which closes the files of the link", users)
		}
	}
}

// A directory that the user may not use does not hide that other links work.
func TestOneOfSeveralLinksWorks(t *testing.T) {
	for _, denied := range []string{"a", "b"} {
		for _, asked := range []string{"a", "b", "new"} {
			f := begin(t)
			v := map[string]string{}
			for _, dir := range []string{"a", "b", "new"} {
				v[dir] = f.volume(dir)
				f.ok(f.win.MakeShareDirectory("files", "data", dir))
			}
			f.ok(f.mount(`\\files\data\a`, v["a"], "ann", "ann-1"))
			f.ok(f.mount(`\\files\data\b`, v["b"], "ann", "ann-1"))
			f.start()
			hook := func(c *win32.Call) error {
				if c.Name == "Attributes" && slices.Contains([]string{`\\files\data`, `\\files\data\` + denied}, c.Path) {
					return win32.ERROR_ACCESS_DENIED
				}
				return c.Do()
			}
			f.hook.Store(&hook)
			f.calls = map[string]int{}
			f.ok(f.mount(`\\files\data\`+asked, v[asked], "ann", "ann-1"))
			if f.calls["UseDel"] > 0 {
				t.Errorf("%s is denied, %s: the mapping was made again, which closes the files of the other link", denied, asked)
			}
		}
	}
}

// A server that comes back while a call looks at its mapping keeps it, and the files that are open.
func TestServerThatComesBack(t *testing.T) {
	for _, status := range []string{"ok", "disconnected"} {
		for _, update := range []bool{false, true} {
			f := begin(t)
			v := f.volume("v1")
			f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
			f.ok(f.win.ShowSMBMappingStatus(`\\files\data`, status, 1))
			asked := false
			hook := func(c *win32.Call) error {
				asked = asked || c.Name == "LogonToServer"
				if c.Name == "Attributes" && !asked {
					return win32.ERROR_NETNAME_DELETED
				}
				return c.Do()
			}
			f.hook.Store(&hook)
			f.calls = map[string]int{}
			var err error
			if update {
				_, err = f.update(`\\files\data`, "ann", "ann-1")
			} else {
				err = f.mount(`\\files\data`, v, "ann", "ann-1")
			}
			f.ok(err)
			if f.calls["UseDel"] > 0 || !asked {
				t.Errorf("%s, update %t: asked %t, %v", status, update, asked, f.calls)
			}
		}
	}
}

// A list of mappings that Windows gave before a change is not taken for what is there after it.
func TestSharesAreListedDuringAChange(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(winfs.LinkToShare(t.Context(), f.node, `\\files\data`, v))
	api := smbapi.On(f.node)
	for _, c := range []struct {
		change func() error
		want   winfs.Kind
	}{
		{func() error { return api.NewSMBGlobalMapping(`\\files\data`, "ann", "ann-1") }, winfs.Linked},
		{func() error { return api.RemoveSMBGlobalMapping(`\\files\data`) }, winfs.Broken},
	} {
		changed := false
		hook := func(call *win32.Call) error {
			err := call.Do()
			if call.Name == "UseEnum" && !changed {
				changed = true
				f.ok(c.change())
			}
			return err
		}
		f.hook.Store(&hook)
		if kind, _, err := winfs.Look(t.Context(), f.node, v); err != nil || kind != c.want || !changed {
			t.Errorf("kind %d, %v, changed %t, want kind %d", kind, err, changed, c.want)
		}
		f.start() // which knows no shares
		api = smbapi.On(f.node)
	}
}
