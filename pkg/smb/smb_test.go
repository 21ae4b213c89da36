package smb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// fixture is the smb service over an emulated node, with a server "files" that
// has the shares data and logs, and the accounts ann and bob.
type fixture struct {
	*testing.T
	win *emulated.Node
	api win32.API // win, or what is over it from the next start on
	log *logged
	// The services of the current process. start makes new ones.
	node *node.Node
	smb  *smb.SMB
	fs   *filesystem.Filesystem

	hook  atomic.Pointer[func(*win32.Call) error]
	calls map[string]int // by name, since count
	mu    sync.Mutex
}

var files = nodespec.SMBServer{
	Name: "files", Shares: []string{"data", "logs"},
	Accounts: []nodespec.SMBAccount{{User: "ann", Password: "ann-1"}, {User: "bob", Password: "bob-1"}, {User: `CORP\eve`, Password: "eve-1"}},
}

func begin(t *testing.T, servers ...nodespec.SMBServer) *fixture {
	t.Helper()
	return beginOn(t, nodespec.Config{SMBServers: servers})
}

// beginOn is begin on a node with the given options.
func beginOn(t *testing.T, c nodespec.Config) *fixture {
	t.Helper()
	f := &fixture{T: t, log: &logged{}, calls: map[string]int{}}
	c.StateDir, c.Log, c.SMBServers = t.TempDir(), slog.New(slog.DiscardHandler), append(c.SMBServers, files)
	f.win = nodetest.Open(t, c, emulated.Machine{})
	f.api = f.win
	f.start()
	return f
}

// logged is the log of all processes of a fixture: the work of one that ended may still go on.
type logged struct {
	mu   sync.Mutex
	text []byte
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// start starts a new process of CSI Proxy on the same node.
func (f *fixture) start() {
	f.Helper()
	f.node = node.New(win32.Observe(f.api, func(c *win32.Call) error {
		f.mu.Lock()
		f.calls[c.Name]++
		f.mu.Unlock()
		if hook := f.hook.Load(); hook != nil {
			return (*hook)(c)
		}
		return c.Do()
	}))
	f.node.Log = slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))
	var err error
	if f.fs, err = filesystem.New(filesystemapi.On(f.node)); err != nil {
		f.Fatal(err)
	}
	if f.smb, err = smb.New(smbapi.On(f.node), f.fs); err != nil {
		f.Fatal(err)
	}
}

// fail makes every call with this name fail until heal.
func (f *fixture) fail(name string, err error) {
	hook := func(c *win32.Call) error {
		if c.Name == name {
			return err
		}
		return c.Do()
	}
	f.hook.Store(&hook)
}

// failAt is fail for calls with a path.
func (f *fixture) failAt(name, path string, err error) {
	hook := func(c *win32.Call) error {
		if c.Name == name && c.Path == path {
			return err
		}
		return c.Do()
	}
	f.hook.Store(&hook)
}

func (f *fixture) heal() { f.hook.Store(nil) }

// drivers is the directory of a driver's volumes.
const drivers = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\smb.csi.k8s.io`

// volume returns the kubelet's staging path of a volume, and creates its parent
// directory.
func (f *fixture) volume(name string) string {
	f.Helper()
	dir := drivers + `\` + name
	f.ok(winfs.MkdirAll(f.Context(), f.node, dir))
	return dir + `\globalmount`
}

func (f *fixture) mount(remote, local, user, password string) error {
	_, err := f.smb.NewSMBGlobalMapping(f.Context(), &smb.NewSMBGlobalMappingRequest{RemotePath: remote, LocalPath: local, Username: user, Password: password})
	return err
}

func (f *fixture) unmap(remote string) error {
	_, err := f.smb.RemoveSMBGlobalMapping(f.Context(), &smb.RemoveSMBGlobalMappingRequest{RemotePath: remote})
	return err
}

func (f *fixture) unlink(path string) {
	f.Helper()
	_, err := f.fs.Rmdir(f.Context(), &filesystem.RmdirRequest{Path: path})
	f.ok(err)
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// refused fails the test unless err has the kind, and its text or hint contains all texts.
func (f *fixture) refused(err, kind error, texts ...string) {
	f.Helper()
	if !errors.Is(err, kind) {
		f.Fatalf("got %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error()+"\n"+hosterr.HintOf(err), text) {
			f.Errorf("got %v (hint %q), want %q in it", err, hosterr.HintOf(err), text)
		}
	}
}

// mappings checks the mappings of the node, each as "\\server\share user status".
func (f *fixture) mappings(want ...string) {
	f.Helper()
	state, err := f.win.Show() // Windows may not tell the users
	f.ok(err)
	var got []string
	for _, m := range state.SMBMappings {
		got = append(got, fmt.Sprintf("%s %s %s", m.Remote, m.User, m.Status))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		f.Errorf("mappings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// reads reports whether a pod can read through a link.
func (f *fixture) reads(link string) bool {
	f.Helper()
	_, err := winfs.ReadDir(f.Context(), f.node, link)
	return err == nil
}

func (f *fixture) read(link string) {
	f.Helper()
	if !f.reads(link) {
		f.Errorf("%s cannot be read", link)
	}
}

func TestLinkIsAPlainPath(t *testing.T) {
	f := begin(t)
	f.ok(f.win.MakeShareDirectory("files", "data", "team"))
	v := f.volume("v1")
	f.ok(f.mount(`\\Files\data/team/`, v, "ann", "ann-1"))
	link, ok, err := winfs.Readlink(t.Context(), f.node, v)
	if err != nil || !ok || link.Substitute != `\??\UNC\Files\data\team\` || link.Print != `\\Files\data\team\` {
		t.Errorf("the link is %+v, %t, %v, want the plain UNC path with a backslash at the end", link, ok, err)
	}
	if info, err := winfs.Lstat(t.Context(), f.node, v); err != nil || !info.IsDir() {
		t.Errorf("the link is %+v, %v, want a link to a directory", info, err)
	}
}

// A new password is verified once, and no mapping is changed for it.
func TestPasswordChangedOnServer(t *testing.T) {
	f := begin(t)
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.ok(f.win.SetSMBPassword("files", "ann", "ann-2"))
	f.calls = map[string]int{}
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-2"))
	if f.calls["UseAdd"]+f.calls["UseDel"] > 0 || f.calls["LogonToServer"] != 1 {
		t.Errorf("calls %v, want one logon and no change of a mapping", f.calls)
	}
	f.read(v1)
	f.read(v2)
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-2"))
	if f.calls["LogonToServer"] != 1 {
		t.Error("the accepted password was verified again")
	}
	f.refused(f.mount(`\\files\data`, f.volume("v3"), "ann", "ann-1"), hosterr.ErrFailedPrecondition, "the server refuses it", "The specified network password is not correct.")
}

// If the server cannot verify a password that differs from the mapping's, the request is
// refused, unless the administrator accepts unverified passwords.
func TestPasswordThatCannotBeVerified(t *testing.T) {
	f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: behavior.SMBUsersShown})})
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.ok(f.win.SetSMBPassword("files", "ann", "ann-2"))
	for _, code := range []error{win32.ERROR_NOT_SUPPORTED, win32.ERROR_GEN_FAILURE} {
		f.fail("LogonToServer", code)
		f.refused(f.mount(`\\files\data`, v2, "ann", "ann-2"), hosterr.ErrFailedPrecondition, "it cannot be verified", "-smb-accept-unverified-passwords")
	}
	f.fail("LogonToServer", win32.ERROR_BAD_NETPATH)
	f.refused(f.mount(`\\files\data`, v2, "ann", "ann-2"), hosterr.ErrUnavailable, "445")
	f.mappings(`\\files\data ann ok`)
	any, err := smb.New(smbapi.On(f.node).AcceptUnverifiedPasswords(true), f.fs)
	f.ok(err)
	f.smb = any
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-2"))
	f.read(v2)
	// A password that the server refuses is never accepted.
	for _, code := range []error{win32.ERROR_LOGON_FAILURE, win32.ERROR_INVALID_PASSWORD, win32.ERROR_ACCOUNT_LOCKED_OUT, win32.ERROR_PASSWORD_EXPIRED, win32.ERROR_ACCOUNT_DISABLED} {
		f.fail("LogonToServer", code)
		f.refused(f.mount(`\\files\data`, f.volume("v3"), "ann", "ann-3"), hosterr.ErrFailedPrecondition, "the server refuses it")
	}
	f.heal()
	f.refused(f.mount(`\\files\data`, f.volume("v3"), "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
}

// Only the log names the link of another driver that is in the way.
func TestTwoUsersOnOneServer(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	err := f.mount(`\\files\logs`, f.volume("v2"), "bob", "bob-1")
	f.refused(err, hosterr.ErrFailedPrecondition, "in use by 1 link;", "with one user only")
	if strings.Contains(err.Error(), "globalmount") || !strings.Contains(f.log.String(), "link="+v) {
		t.Errorf("%v; log:\n%s", err, f.log)
	}
}

// A check of the share that fails once does not give the mapping that a link uses to another
// user, whether or not the user is known. The mapping is replaced if the error says that its
// user is refused, and for its own user.
func TestFailedCheckKeepsMappingForItsUser(t *testing.T) {
	for _, failure := range []win32.Errno{win32.ERROR_IO_DEVICE, win32.ERROR_NETNAME_DELETED, win32.ERROR_ACCESS_DENIED, win32.ERROR_NO_SUCH_DEVICE,
		win32.ERROR_FILE_NOT_FOUND, win32.ERROR_NOT_CONNECTED} {
		f := begin(t)
		v1, v2 := f.volume("v1"), f.volume("v2")
		f.ok(f.win.MakeShareDirectory("files", "data", "team"))
		f.ok(f.mount(`\\files\data\team`, v1, "ann", "ann-1"))
		f.failAt("Attributes", `\\files\data`, failure)
		f.refused(f.mount(`\\files\data`, v2, "bob", "bob-1"), hosterr.ErrFailedPrecondition, `server "files"`, `"ann"`, `"bob"`, "1 link")
		f.mappings(`\\files\data ann ok`)
		f.read(v1)

		// One that was idle is shown as disconnected until it is used.
		f.ok(f.win.SetSMBServerDown("files", true))
		f.ok(f.win.SetSMBServerDown("files", false))
		f.refused(f.mount(`\\files\data`, v2, "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
		f.mappings(`\\files\data ann ok`)

		f.fail("Attributes", failure)
		switch failure { // errors that say why
		case win32.ERROR_ACCESS_DENIED, win32.ERROR_NOT_CONNECTED:
			f.ok(f.mount(`\\files\data`, v2, "bob", "bob-1"))
			f.mappings(`\\files\data bob ok`)
			continue
		}
		f.refused(f.mount(`\\files\data`, v2, "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
		f.mappings(`\\files\data ann ok`)
		f.calls = map[string]int{}
		f.ok(f.mount(`\\files\data\team`, v1, "ann", "ann-1"))
		if f.calls["UseDel"] != 1 {
			t.Errorf("after %v, the mapping was replaced %d times for its own user, want once", failure, f.calls["UseDel"])
		}
	}
	// One error that may be temporary is enough, whatever the other one says.
	for _, failures := range [][2]error{{win32.ERROR_NETNAME_DELETED, win32.ERROR_ACCESS_DENIED}, {win32.ERROR_ACCESS_DENIED, win32.ERROR_NETNAME_DELETED}} {
		f := begin(t)
		f.ok(f.win.MakeShareDirectory("files", "data", "team"))
		f.ok(f.mount(`\\files\data\team`, f.volume("v1"), "ann", "ann-1"))
		hook := func(c *win32.Call) error {
			switch {
			case c.Name == "Attributes" && c.Path == `\\files\data`:
				return failures[0]
			case c.Name == "Attributes" && c.Path == `\\files\data\team`:
				return failures[1]
			}
			return c.Do()
		}
		f.hook.Store(&hook)
		f.refused(f.mount(`\\files\data`, f.volume("v2"), "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
		f.mappings(`\\files\data ann ok`)
	}
	f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: behavior.SMBUsersHidden})})
	v1 := f.volume("v1")
	f.ok(f.win.MakeShareDirectory("files", "data", "team"))
	f.ok(f.mount(`\\files\data\team`, v1, "ann", "ann-1"))
	f.start()
	f.failAt("Attributes", `\\files\data`, win32.ERROR_IO_DEVICE)
	f.calls = map[string]int{}
	if err := f.mount(`\\files\data`, f.volume("v2"), "bob", "bob-1"); f.calls["UseDel"] > 0 {
		t.Errorf("the mapping of an unknown user was removed; the request returned %v", err)
	}
	f.read(v1)
}

// An account that has lost its rights to the share gives its mapping to another one, although
// several links use it.
func TestAccountWithoutRightsIsReplaced(t *testing.T) {
	f := begin(t)
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-1"))
	f.fail("Attributes", win32.ERROR_ACCESS_DENIED)
	f.ok(f.mount(`\\files\data`, v1, "bob", "bob-1"))
	f.heal()
	f.ok(f.mount(`\\files\data`, v2, "bob", "bob-1"))
	f.mappings(`\\files\data bob ok`)
}

// netbios is a Windows that reports the user of a mapping with the NetBIOS name of the domain,
// which is not the first part of its DNS name.
type netbios struct{ win32.API }

func (n netbios) UseEnum() ([]win32.Use, error) {
	all, err := n.API.UseEnum()
	for i := range all {
		if all[i].Status == 0 {
			all[i].Domain, all[i].User = "CORPNET", "ann"
		}
	}
	return all, err
}

// Two forms of the name of one user are not two users: after a restart of the node, both shares
// of a server are mapped again.
func TestOneUserWithTwoNames(t *testing.T) {
	const user = "ann@corp.example.com"
	f := begin(t, nodespec.SMBServer{Name: "nas", Shares: []string{"data", "logs"}, Accounts: []nodespec.SMBAccount{{User: user, Password: "p"}}})
	f.api = netbios{f.win}
	f.start()
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\nas\data`, v1, user, "p"))
	f.ok(f.mount(`\\nas\logs`, v2, user, "p"))
	f.ok(f.win.Reboot())
	f.start()
	f.ok(f.mount(`\\nas\data`, v1, user, "p"))
	f.ok(f.mount(`\\nas\logs`, v2, user, "p"))
}

func TestMappingIsRemovedAfterOtherProgramRemovedLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t)
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.ok(f.unmap(`\\files\data`))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		f.mappings(`\\files\data ann ok`)
		f.ok(winfs.Remove(t.Context(), f.node, v))
		time.Sleep(time.Minute)
		synctest.Wait()
		f.mappings()
	})
}

// A removal that fails is repeated, and one that waits does not keep those of other shares
// from being repeated.
func TestFailedSweepIsRepeated(t *testing.T) {
	other := nodespec.SMBServer{Name: "other", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "bob", Password: "bob-1"}}}
	// pending makes two mappings whose removal is pending. The link of the first is gone.
	pending := func(t *testing.T) (f *fixture, removeSecond func()) {
		f = begin(t, other)
		v1, v2 := f.volume("v1"), f.volume("v2")
		f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
		f.ok(f.mount(`\\other\data`, v2, "bob", "bob-1"))
		f.ok(f.unmap(`\\files\data`))
		f.ok(f.unmap(`\\other\data`))
		f.ok(winfs.Remove(t.Context(), f.node, v1))
		return f, func() { f.ok(winfs.Remove(t.Context(), f.node, v2)) }
	}
	after := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	t.Run("failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, removeSecond := pending(t)
			var failed atomic.Int64
			hook := func(c *win32.Call) error {
				if c.Name == "UseDel" && failed.Add(1) == 1 {
					return win32.ERROR_GEN_FAILURE
				}
				return c.Do()
			}
			f.hook.Store(&hook)
			after(40 * time.Second)
			f.mappings(`\\files\data ann ok`, `\\other\data bob ok`)
			removeSecond()
			after(time.Minute)
			f.mappings()
			if n := failed.Load(); n != 3 {
				t.Errorf("%d calls of UseDel, want one that failed and two", n)
			}
		})
	})
	t.Run("server that does not respond", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, removeSecond := pending(t)
			answer := make(chan struct{})
			hook := func(c *win32.Call) error {
				if c.Name == "UseAdd" {
					<-answer
				}
				return c.Do()
			}
			f.hook.Store(&hook)
			done := make(chan error)
			go func() { done <- f.mount(`\\files\logs`, "", "ann", "ann-1") }() // holds the server's lock
			after(90 * time.Second)
			f.mappings(`\\files\data ann ok`, `\\other\data bob ok`)
			removeSecond()
			after(time.Minute)
			f.mappings(`\\files\data ann ok`)
			close(answer)
			f.ok(<-done)
			after(time.Minute)
			f.mappings(`\\files\logs ann ok`)
		})
	})
}

func TestRmdirDoesNotWaitForAMappingThatCannotBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t)
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.ok(f.unmap(`\\files\data`))
		answered := make(chan struct{})
		hook := func(c *win32.Call) error {
			if c.Name == "UseDel" {
				<-answered
			}
			return c.Do()
		}
		f.hook.Store(&hook)
		begun := time.Now()
		f.unlink(v)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("Rmdir took %v while Windows removed the mapping", took)
		}
		close(answered)
		synctest.Wait()
		f.mappings()
	})
}

// A start lists no mappings, which would load WMI into a process that may never need it.
func TestSurveyListsNoMappings(t *testing.T) {
	f := begin(t)
	f.ok(f.smb.Survey(t.Context()))
	if n := f.calls["UseEnum"]; n != 0 {
		t.Errorf("the start lists the mappings %d times", n)
	}
}

// A mapping whose server is away is kept, whatever Windows says about the server: it could
// not be made again.
func TestMappingIsKeptWhileServerIsAway(t *testing.T) {
	for _, code := range []win32.Errno{
		win32.ERROR_REM_NOT_LIST, win32.ERROR_BAD_NETPATH, win32.ERROR_UNEXP_NET_ERR, win32.ERROR_NETNAME_DELETED, win32.ERROR_BAD_NET_NAME, win32.ERROR_SEM_TIMEOUT,
		win32.ERROR_CONNECTION_REFUSED, win32.ERROR_NETWORK_UNREACHABLE, win32.ERROR_HOST_UNREACHABLE, win32.ERROR_NO_LOGON_SERVERS, win32.ERROR_TIMEOUT,
	} {
		f := begin(t)
		v1, v2 := f.volume("v1"), f.volume("v2")
		f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
		f.ok(f.win.SetSMBServerDown("files", true))
		f.fail("Attributes", code)
		f.calls = map[string]int{}
		if err := f.mount(`\\files\data`, v2, "ann", "ann-1"); !errors.Is(err, code) || !strings.Contains(hosterr.HintOf(err), "kept") {
			t.Errorf("%v: got %v (hint %q), want this error and that the mapping is kept", code, err, hosterr.HintOf(err))
		}
		if f.calls["UseDel"] > 0 {
			t.Errorf("%v: the mapping was removed", code)
		}
		f.heal()
		f.ok(f.win.SetSMBServerDown("files", false))
		f.read(v1)
	}
}

// A mapping that Windows calls connected, but through which nothing works although the
// server accepts the credentials, is made again.
func TestMappingThatOnlyLooksConnected(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.fail("Attributes", win32.ERROR_NETNAME_DELETED)
	f.calls = map[string]int{}
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	if f.calls["UseDel"] != 1 || f.calls["UseAdd"] != 1 {
		t.Errorf("calls %v, want that the mapping is made again", f.calls)
	}
}

// The server goes away just after it refused the mapping: the answer is that it is away.
func TestServerGoesAwayWhileItIsAsked(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.ok(f.win.SetSMBMappingStatus(`\\files\data`, "disconnected"))
	f.fail("LogonToServer", win32.ERROR_SEM_TIMEOUT)
	f.refused(f.mount(`\\files\data`, v, "ann", "ann-1"), hosterr.ErrUnavailable, "kept")
	f.heal()
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
}

// A user without rights to the root directory of a share may use directories below it. The
// mapping is not made again by each request, which would close all files.
func TestShareWithClosedRoot(t *testing.T) {
	f := begin(t)
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data\team`, v1, "ann", "ann-1"))
	f.fail("Attributes", win32.ERROR_ACCESS_DENIED)
	f.calls = map[string]int{}
	f.ok(f.mount(`\\files\data\team`, v1, "ann", "ann-1"))
	f.ok(f.mount(`\\files\data\team`, v2, "ann", "ann-1"))
	if f.calls["UseDel"]+f.calls["UseAdd"] > 0 {
		t.Errorf("calls %v, want none that changes the mapping", f.calls)
	}
	f.refused(f.mount(`\\files\data`, f.volume("v3"), "ann", "wrong"), hosterr.ErrPermissionDenied, "secret")
	if f.calls["UseDel"] > 0 {
		t.Error("a wrong password removed the mapping of another volume")
	}
}

// While Windows waits for a server that is down, drivers still look at their links to other
// shares. The list of mappings waits with it.
func TestLinksCanBeReadWhileAServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := beginOn(t, nodespec.Config{SMBTimeout: nodespec.Duration(23 * time.Second), World: behavior.In("", behavior.Windows{SMBCalls: behavior.SMBCallsSerial})})
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.node.WorkingDirs = []string{`C:\var\lib\kubelet`}
		exists := func() time.Duration {
			t.Helper()
			begun := time.Now()
			if out, err := f.fs.IsSymlink(t.Context(), &filesystem.IsSymlinkRequest{Path: v}); err != nil || !out.IsSymlink {
				t.Errorf("IsSymlink = %+v, %v", out, err)
			}
			return time.Since(begun)
		}
		hang := func() {
			go f.mount(`\\gone\data`, "", "ann", "ann-1")
			synctest.Wait()
		}
		hang()
		if took := exists(); took != 0 {
			t.Errorf("a link to a share that this process mapped took %v", took)
		}
		time.Sleep(time.Minute)

		f.start() // a new process knows the share from Windows
		f.node.WorkingDirs = []string{`C:\var\lib\kubelet`}
		exists()
		time.Sleep(time.Minute)
		hang()
		if took := exists(); took > time.Second {
			t.Errorf("a link to a share of an earlier process took %v", took)
		}
		time.Sleep(time.Minute)
	})
}

// While Windows waits for a server that is down, shares of other servers are mapped, used and
// removed, unless Windows itself makes the calls take turns.
func TestOtherServersDoNotWaitForOneThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := beginOn(t, nodespec.Config{SMBTimeout: nodespec.Duration(23 * time.Second), World: behavior.In("", behavior.Windows{SMBCalls: behavior.SMBCallsParallel})})
		for i := range 20 {
			go f.mount(fmt.Sprintf(`\\gone%d\data`, i), "", "ann", "ann-1")
		}
		synctest.Wait()
		begun := time.Now()
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.read(v)
		f.unlink(v)
		f.ok(f.unmap(`\\files\data`))
		if took := time.Since(begun); took != 0 {
			t.Errorf("a volume's life took %v", took)
		}
		time.Sleep(2 * time.Minute)
	})
}

// A mapping that another program removed is missed at once: drivers map the share again if
// its link is no link to a mapped share.
func TestRemovedMappingIsMissedAtOnce(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.node.WorkingDirs = []string{`C:\var\lib\kubelet`}
	for _, want := range []bool{true, false} {
		if out, err := f.fs.IsSymlink(t.Context(), &filesystem.IsSymlinkRequest{Path: v}); err != nil || out.IsSymlink != want {
			t.Errorf("IsSymlink = %+v, %v, want %t", out, err, want)
		}
		if want {
			f.ok(f.win.UseDel(`\\files\data`))
		}
	}
}

// statuses are those of a mapping that does not work, or not yet.
var statuses = []smbapi.Status{smbapi.StatusPaused, smbapi.StatusDisconnected, smbapi.StatusNetworkError, smbapi.StatusConnecting, smbapi.StatusReconnecting}

// A mapping that does not work is replaced, for each status that Windows reports.
func TestBrokenMappingsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range statuses {
			f := begin(t)
			v1, v2 := f.volume("v1"), f.volume("v2")
			f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
			f.ok(f.win.SetSMBMappingStatus(`\\files\data`, status.String()))
			f.refused(f.mount(`\\files\data`, v2, "bob", "wrong"), hosterr.ErrPermissionDenied)
			f.mappings(`\\files\data ann ` + status.String())
			f.ok(f.mount(`\\files\data`, v2, "bob", "bob-1"))
			f.mappings(`\\files\data bob ok`)
			f.read(v1)
		}
	})
}

// Windows may report a status that a mapping does not have: pods use it. A wrong password in
// the secret of a second volume does not cost them the mapping, whatever the status. While
// Windows connects, the use of the share counts, and no mapping is replaced.
func TestStatusThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range statuses {
			for _, lists := range []int{1, 3, 1000} {
				f := begin(t)
				v1, v2 := f.volume("v1"), f.volume("v2")
				f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
				behind := func() { f.ok(f.win.ShowSMBMappingStatus(`\\files\data`, status.String(), lists)) }
				f.calls = map[string]int{}
				for _, c := range [][2]string{{"ann", "wrong"}, {"bob", "wrong"}, {"bob", "bob-1"}, {"carl", "x"}} {
					behind()
					if err := f.mount(`\\files\data`, v2, c[0], c[1]); err == nil {
						t.Errorf("%v for %d lists: %s has a link", status, lists, c[0])
					}
				}
				if f.calls["UseDel"] > 0 {
					t.Errorf("%v for %d lists: a wrong password or another user removed the mapping of another volume", status, lists)
				}
				f.mappings(`\\files\data ann ok`)
				f.read(v1)
				behind()
				f.ok(f.mount(`\\files\data`, v2, "ann", "ann-1"))
				connects := status == smbapi.StatusConnecting || status == smbapi.StatusReconnecting
				if n := f.calls["UseDel"]; n > 0 && (connects || lists == 1) {
					t.Errorf("%v for %d lists: a mapping that works was replaced", status, lists)
				}
				f.read(v1)
				f.read(v2)
			}
		}
	})
}

// The node's own account can use a share whose mapping is dead, because the server is in its
// domain or lets guests in. Pods cannot. The mapping is replaced when the server has accepted
// the credentials, and only then. Another user does not get it while a link uses it, because
// Windows may say the same of one that works.
func TestDeadMappingOfAShareThatTheNodeCanUse(t *testing.T) {
	f := begin(t, nodespec.SMBServer{Name: "guests", Shares: []string{"data"}, NodeAccount: true, Accounts: files.Accounts})
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\guests\data`, v1, "ann", "ann-1"))
	f.ok(f.win.SetSMBMappingStatus(`\\guests\data`, "disconnected"))
	f.read(v1) // with the node's own account
	f.calls = map[string]int{}
	f.refused(f.mount(`\\guests\data`, v2, "ann", "wrong"), hosterr.ErrPermissionDenied, "secret")
	f.fail("LogonToServer", win32.ERROR_SEM_TIMEOUT)
	f.refused(f.mount(`\\guests\data`, v2, "ann", "ann-1"), hosterr.ErrUnavailable)
	f.heal()
	if f.calls["UseDel"] > 0 {
		t.Error("a mapping was removed for credentials that the server did not accept")
	}
	f.mappings(`\\guests\data ann disconnected`)
	f.refused(f.mount(`\\guests\data`, v2, "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`, "1 link")
	f.mappings(`\\guests\data ann disconnected`)
	f.ok(f.mount(`\\guests\data`, v2, "ann", "ann-1"))
	f.mappings(`\\guests\data ann ok`)
}

// Where Windows cannot ask the server, because it has a session with it, no request is refused
// for ever: a mapping whose credentials are lost is made again, a new password and unknown
// credentials use the one that works, and none that works is taken from pods.
func TestServerThatCannotBeAsked(t *testing.T) {
	f := begin(t)
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.fail("LogonToServer", win32.ERROR_SESSION_CREDENTIAL_CONFLICT)
	f.ok(f.win.SetSMBPassword("files", "ann", "ann-2"))
	f.calls = map[string]int{}
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-2"))
	f.refused(f.mount(`\\files\data`, f.volume("v3"), "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
	f.start()
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-2"))
	f.ok(f.mount(`\\files\data`, f.volume("v3"), "ann", "ann-2"))
	f.refused(f.mount(`\\files\data`, f.volume("v4"), "", ""), hosterr.ErrFailedPrecondition, "an unknown user")
	if f.calls["UseDel"] > 0 {
		t.Error("a mapping that works was replaced")
	}
	if !strings.Contains(f.log.String(), "Could not verify SMB credentials") {
		t.Errorf("the log does not say that nothing was verified:\n%s", f.log)
	}
	f.ok(f.win.SetSMBServerDown("files", true))
	if err := f.mount(`\\files\data`, v1, "ann", "ann-2"); !errors.Is(err, hosterr.ErrUnavailable) || f.calls["UseDel"] > 0 {
		t.Errorf("while the server is down: %v, calls %v", err, f.calls)
	}
	f.ok(f.win.SetSMBServerDown("files", false))
	f.mappings(`\\files\data ann disconnected`) // the password was changed
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-2"))
	f.mappings(`\\files\data ann ok`)
	f.read(v2)
	for _, v := range []string{v1, v2, f.volume("v3")} {
		f.unlink(v)
	}
	f.ok(f.mount(`\\files\data`, v1, "bob", "bob-1"))
	f.mappings(`\\files\data bob ok`)
}

// Two spellings of a name are one user only with the same password, and if the server accepts
// the new spelling. If the server is away, the mapping stays.
func TestTwoSpellingsOfAUser(t *testing.T) {
	const known, unknown = `csi`, `CORP\csi`
	for _, c := range []struct{ first, second string }{{known, unknown}, {unknown, known}, {`OTHER\csi`, unknown}, {"csi@corp.example.com", unknown}} {
		t.Run(c.first+" "+c.second, func(t *testing.T) {
			// A server that takes any domain for its own, and one that has two users of that name.
			one := nodespec.SMBServer{Name: "one", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "csi", Password: "p"}, {User: "csi@corp.example.com", Password: "p"}}}
			two := nodespec.SMBServer{Name: "two", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: c.first, Password: "p"}, {User: c.second, Password: "other"}}}
			f := begin(t, one, two)
			v1, v2, w1, w2 := f.volume("v1"), f.volume("v2"), f.volume("w1"), f.volume("w2")
			f.ok(f.mount(`\\one\data`, v1, c.first, "p"))
			f.fail("LogonToServer", win32.ERROR_SEM_TIMEOUT)
			f.refused(f.mount(`\\one\data`, v2, c.second, "p"), hosterr.ErrUnavailable)
			f.heal()
			for range 2 { // each time the server decides
				f.calls = map[string]int{}
				f.ok(f.mount(`\\one\data`, v2, c.second, "p"))
				if f.calls["LogonToServer"] != 1 || f.calls["UseDel"] > 0 {
					t.Errorf("calls %v, want one logon and no change of the mapping", f.calls)
				}
			}
			f.refused(f.mount(`\\one\data`, f.volume("v3"), c.second, "wrong"), hosterr.ErrFailedPrecondition, fmt.Sprintf("%q", c.first), fmt.Sprintf("%q", c.second))
			f.ok(f.mount(`\\one\data`, f.volume("v3"), c.first, "p"))

			f.ok(f.mount(`\\two\data`, w1, c.first, "p"))
			f.calls = map[string]int{}
			f.refused(f.mount(`\\two\data`, w2, c.second, "other"), hosterr.ErrFailedPrecondition, fmt.Sprintf("%q", c.first), fmt.Sprintf("%q", c.second))
			f.refused(f.mount(`\\two\data`, w2, c.second, "p"), hosterr.ErrFailedPrecondition, fmt.Sprintf("%q", c.first), fmt.Sprintf("%q", c.second), "the server refuses it")
			if f.calls["UseDel"] > 0 {
				t.Error("the mapping was removed")
			}
			f.read(w1)
		})
	}
}

func TestInvalidRequestsChangeNothing(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	for _, c := range []struct{ name, remote, user, password, text string }{
		{"a NUL", "\\\\files\\data\x00", "ann", "x", "is invalid"},
		{"a user that is none", `\\files\data`, `CORP\`, "x", "user name"},
		{"a password with a NUL", `\\files\data`, "ann", "a\x00b", "password"},
	} {
		before := len(f.log.String())
		f.calls = map[string]int{}
		f.refused(f.mount(c.remote, v, c.user, c.password), hosterr.ErrInvalid, c.text)
		if f.calls["UseAdd"]+f.calls["UseDel"] > 0 || len(f.log.String()) != before {
			t.Errorf("%s: calls %v, log %s", c.name, f.calls, f.log.String()[before:])
		}
	}
	f.mappings()
}

func TestServerRefusals(t *testing.T) {
	for _, value := range []string{behavior.SMBErrorsBare, behavior.SMBErrorsNumbered} {
		t.Run(value, func(t *testing.T) { serverRefusals(t, behavior.Windows{SMBErrors: value}) })
	}
}

func serverRefusals(t *testing.T, w behavior.Windows) {
	f := beginOn(t, nodespec.Config{World: behavior.In("", w)})
	v := f.volume("v1")
	for _, c := range []struct {
		remote, user, password string
		kind                   error
		text                   string
	}{
		{`\\nowhere\data`, "ann", "ann-1", hosterr.ErrUnavailable, "network path"},
		{`\\files\none`, "ann", "ann-1", hosterr.ErrNotFound, "network name"},
		{`\\files\dfs-root\x`, "ann", "ann-1", hosterr.ErrNotFound, "DFS"},
		{`\\files\data`, "ann", "wrong", hosterr.ErrPermissionDenied, "password"},
		{`\\files\data`, "nobody", "x", hosterr.ErrPermissionDenied, "user name"},
		{`\\files\data`, "a/b", "x", hosterr.ErrPermissionDenied, `DOMAIN\name`},
		{`\\files\data`, "", "", hosterr.ErrPermissionDenied, "user name"},
	} {
		f.refused(f.mount(c.remote, v, c.user, c.password), c.kind, c.text)
	}
	f.mappings()
	f.ok(f.mount(`\\files\data`, v, `corp\eve`, "eve-1"))
	f.mappings(`\\files\data corp\eve ok`)
}

// Links are searched for after a restart. What cannot be read may be a link, so the search was incomplete,
// and no mapping of the earlier process is removed; what is missing or passes is none. The search waits once
// for a disk that is missing, not for each link on it.
func TestSearchForLinks(t *testing.T) {
	const always = 1 << 30
	fails := func(call, at string, code error, times int) func(*fixture) {
		return func(f *fixture) {
			hook := func(c *win32.Call) error {
				if c.Name == call && strings.HasSuffix(c.Path, at) && times > 0 {
					times--
					return code
				}
				return c.Do()
			}
			f.hook.Store(&hook)
		}
	}
	forbidden := func(path string) func(*fixture) { // by an access control list
		return func(f *fixture) { f.ok(f.win.SetRights(drivers+path, win32.DELETE|win32.SYNCHRONIZE)) }
	}
	for name, c := range map[string]struct {
		disturb  func(*fixture)
		complete bool
		waits    time.Duration
	}{
		"nothing":                          {func(*fixture) {}, true, 0},
		"a link fails once":                {fails("DeviceIoControl", "", win32.ERROR_GEN_FAILURE, 1), true, 0},
		"a link cannot be read":            {fails("DeviceIoControl", "", win32.ERROR_IO_DEVICE, always), false, 0},
		"a link is forbidden":              {forbidden(`\v1\globalmount`), false, 0},
		"a link is being removed":          {fails("NtCreateFile", `\v3\globalmount`, win32.STATUS_DELETE_PENDING, always), true, 2 * time.Second},
		"the disk of links is missing":     {fails("NtCreateFile", `\globalmount`, win32.ERROR_NO_SUCH_DEVICE, always), false, 5 * time.Second},
		"a directory fails once":           {fails("NtCreateFile", "", win32.ERROR_NOT_READY, 1), true, 0},
		"a list fails once":                {fails("QueryDirectory", "", win32.ERROR_GEN_FAILURE, 1), true, 0},
		"lists fail":                       {fails("QueryDirectory", "", win32.STATUS_IO_DEVICE_ERROR, always), false, 0},
		"a directory cannot be opened":     {fails("NtCreateFile", `\plugins`, win32.STATUS_IO_DEVICE_ERROR, always), false, 0},
		"a directory is forbidden":         {forbidden(`\v1`), false, 0},
		"a directory is being removed":     {fails("NtCreateFile", `\v3`, win32.STATUS_DELETE_PENDING, always), true, 2 * time.Second},
		"a directory is in use":            {fails("NtCreateFile", `\v3`, win32.STATUS_SHARING_VIOLATION, always), false, 2 * time.Second},
		"a directory is in use for a time": {fails("NtCreateFile", `\v3`, win32.STATUS_SHARING_VIOLATION, 3), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t)
				v2 := f.volume("v2")
				for _, v := range []string{"v1", "v3", "v4"} {
					f.ok(f.mount(`\\files\data`, f.volume(v), "ann", "ann-1"))
				}
				f.ok(f.mount(`\\files\logs`, v2, "ann", "ann-1"))
				f.start()
				f.ok(winfs.Remove(t.Context(), f.node, v2)) // as another program
				c.disturb(f)
				begun := time.Now()
				f.ok(f.unmap(`\\files\logs`))
				f.ok(f.unmap(`\\files\data`))
				if took := time.Since(begun); took < c.waits || took > c.waits+2*time.Second {
					t.Errorf("took %v, want about %v", took, c.waits)
				}
				want := []string{`\\files\data ann ok`}
				if !c.complete {
					want = append(want, `\\files\logs ann ok`)
				}
				f.mappings(want...)
				if said := strings.Contains(f.log.String(), "was incomplete"); said == c.complete {
					t.Errorf("the log says that the search was incomplete: %t:\n%s", said, f.log)
				}
			})
		})
	}
}

// A link that leads to itself among the kubelet's directories: all shares can be mapped and removed, and the links around it are found.
func TestSearchGoesOnAfterABadDirectory(t *testing.T) {
	f := begin(t)
	const pods = `C:\var\lib\kubelet\pods`
	f.ok(winfs.MkdirAll(t.Context(), f.node, pods+`\z\volumes\kubernetes.io~csi\v`))
	f.ok(winfs.MkdirAll(t.Context(), f.node, pods+`\loop\volumes`))
	v := pods + `\z\volumes\kubernetes.io~csi\v\mount`
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	loop := pods + `\loop\volumes\kubernetes.io~csi`
	f.ok(winfs.Symlink(t.Context(), f.node, loop, loop))

	f.start()
	f.ok(f.unmap(`\\files\data`))
	f.mappings(`\\files\data ann ok`)
	f.ok(f.mount(`\\files\logs`, "", "ann", "ann-1"))
	f.ok(f.unmap(`\\files\logs`))
	f.mappings(`\\files\data ann ok`)
	f.start()
	f.unlink(v)
	f.ok(f.unmap(`\\files\data`))
	f.mappings()
}

// Links that somebody planted among the kubelet's directories, before CSI Proxy started
// again: to themselves, to a share whose server is down, to a volume without a file system.
// SMB works as before, without waiting, and the search was complete.
func TestPlantedLinksDoNotHarmAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := nodespec.SMBServer{Name: "away", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "ann", Password: "ann-1"}}}
		f := beginOn(t, nodespec.Config{SMBTimeout: nodespec.Duration(23 * time.Second), SMBServers: []nodespec.SMBServer{away}})
		f.node.WorkingDirs = []string{`C:\var\lib\kubelet`}
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.ok(f.mount(`\\away\data`, "", "ann", "ann-1"))
		const kubelet = `C:\var\lib\kubelet`
		places := []string{kubelet + `\pods\%s`, kubelet + `\pods\a%s\volumes`, kubelet + `\pods\b%s\volumes\kubernetes.io~csi`, kubelet + `\pods\c%s\volumes\kubernetes.io~csi\v`,
			kubelet + `\pods\d%s\volumes\kubernetes.io~csi\v\mount`, kubelet + `\plugins\%s`, kubelet + `\plugins\e%s\globalmount`}
		planted := 0
		for i, place := range places {
			for name, target := range map[string]string{"self": "", "away": `\\away\data`, "other": kubelet + `\pods\elsewhere`, "up": kubelet} {
				link := fmt.Sprintf(place, name)
				f.ok(winfs.MkdirAll(t.Context(), f.node, link[:strings.LastIndex(link, `\`)]))
				if target == "" {
					target = link
				}
				if err := winfs.Symlink(t.Context(), f.node, target, link); err != nil {
					t.Fatalf("place %d, %s: %v", i, name, err)
				}
				planted++
			}
		}
		f.ok(f.win.SetSMBServerDown("away", true))
		time.Sleep(time.Minute)

		f.start()
		f.node.WorkingDirs = []string{kubelet}
		begun := time.Now()
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.ok(f.mount(`\\files\logs`, f.volume("v2"), "ann", "ann-1"))
		f.ok(f.unmap(`\\files\data`))
		f.mappings(`\\away\data ann disconnected`, `\\files\data ann ok`, `\\files\logs ann ok`) // v uses it
		f.unlink(v)
		f.mappings(`\\away\data ann disconnected`, `\\files\logs ann ok`)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("took %v with %d links", took, planted)
		}
		if planted != 28 || strings.Contains(f.log.String(), "was incomplete") {
			t.Errorf("%d links; log:\n%s", planted, f.log)
		}
		t.Attr("measured", fmt.Sprintf("%d planted links, a restart, then SMB works: mapped, removed and used in %v", planted, time.Since(begun)))
	})
}

// An incomplete search is not repeated by every request, and is repeated some time later, also for a
// removal that waits for it.
func TestIncompleteSearchIsRepeatedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t)
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.start()
		f.fail("QueryDirectory", win32.STATUS_IO_DEVICE_ERROR)
		f.ok(f.mount(`\\files\logs`, "", "ann", "ann-1"))
		f.calls = map[string]int{}
		f.ok(f.unmap(`\\files\logs`))
		if f.calls["QueryDirectory"] > 0 {
			t.Error("the next request searched again")
		}
		f.heal()
		f.unlink(v)
		f.ok(f.unmap(`\\files\data`))
		f.mappings(`\\files\data ann ok`)
		time.Sleep(11 * time.Minute) // without another request
		f.mappings()
	})
}

// WMI does not report the user of a mapping. After a restart, the server decides about each
// request for a mapping in use, and one user does not shut out another.
func TestUnknownUserAfterRestart(t *testing.T) {
	f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: behavior.SMBUsersHidden})})
	v1, v2 := f.volume("v1"), f.volume("v2")
	f.ok(f.mount(`\\files\data`, v1, "ann", "ann-1"))
	f.start()
	for _, c := range []struct{ user, password string }{{"mallory", "x"}, {"ann", "wrong"}, {"", ""}} {
		f.refused(f.mount(`\\files\data`, v2, c.user, c.password), hosterr.ErrFailedPrecondition, "an unknown user")
	}
	f.ok(f.mount(`\\files\data`, f.volume("v3"), "bob", "bob-1")) // cannot be told from ann
	f.ok(f.mount(`\\files\data`, v2, "ann", "ann-1"))
	f.read(v2)
	f.refused(f.mount(`\\files\data`, f.volume("v4"), "ann", "wrong"), hosterr.ErrFailedPrecondition, "an unknown user")
	f.mappings(`\\files\data ann ok`)

	// A mapping that this process makes says who the user of the server is.
	f.ok(f.mount(`\\files\logs`, "", "ann", "ann-1"))
	f.refused(f.mount(`\\files\data`, f.volume("v4"), "bob", "bob-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
	f.calls = map[string]int{}
	f.ok(f.mount(`\\files\data`, f.volume("v4"), "ann", "ann-1"))
	if f.calls["LogonToServer"] != 0 {
		t.Error("known credentials were verified again")
	}
	// So does one that no link uses.
	for _, v := range []string{v1, v2, f.volume("v3"), f.volume("v4")} {
		f.unlink(v)
	}
	f.start()
	f.ok(f.unmap(`\\files\logs`))
	f.ok(f.mount(`\\files\data`, v1, "bob", "bob-1"))
	f.mappings(`\\files\data bob ok`)
	f.refused(f.mount(`\\files\data`, v2, "ann", "ann-1"), hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
}

// After a restart, while a share is in use: no wrong password gets a link, and every right one
// does, no matter which other driver came first with a valid account of the server.
func TestRestartWhileAShareIsInUse(t *testing.T) {
	for _, users := range lists {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: users})})
		hidden := users == behavior.SMBUsersHidden
		old1, old2, bobs := f.volume("old1"), f.volume("old2"), f.volume("bobs")
		f.ok(f.mount(`\\files\data`, old1, "ann", "ann-1"))
		f.ok(f.mount(`\\files\data`, old2, "ann", "ann-1"))
		number := 0
		fresh := func() string { number++; return f.volume(fmt.Sprint("new", number)) }
		strangers := func() {
			t.Helper()
			for _, c := range [][2]string{{"mallory", "x"}, {"ann", "wrong"}, {"bob", "wrong"}, {"", ""}} {
				v := fresh()
				f.refused(f.mount(`\\files\data`, v, c[0], c[1]), hosterr.ErrFailedPrecondition)
				if exists, _ := winfs.Exists(t.Context(), f.node, v); exists {
					t.Errorf("user %q with password %q has a new link", c[0], c[1])
				}
			}
		}
		refused := func(user, other string) {
			t.Helper()
			f.refused(f.mount(`\\files\data`, fresh(), user, user+"-1"), hosterr.ErrFailedPrecondition, `"`+user+`"`, `"`+other+`"`)
		}

		f.start()
		strangers()
		if !hidden {
			refused("bob", "ann")
			f.ok(f.mount(`\\files\data`, old1, "ann", "ann-1"))
			refused("bob", "ann")
			f.calls = map[string]int{}
			f.ok(f.mount(`\\files\data`, fresh(), "ann", "ann-1"))
			if f.calls["UseDel"] != 0 {
				t.Error("a mapping in use that works was replaced")
			}
			strangers()
			continue
		}
		for range 2 { // bob's links are old, too, after another restart
			f.ok(f.mount(`\\files\data`, bobs, "bob", "bob-1"))
			f.ok(f.mount(`\\files\data`, bobs, "bob", "bob-1"))
			strangers()
			f.ok(f.mount(`\\files\data`, fresh(), "ann", "ann-1"))
			f.refused(f.mount(`\\files\data`, old1, "mallory", "x"), hosterr.ErrFailedPrecondition)
			f.refused(f.mount(`\\files\data`, old1, "ann", "wrong"), hosterr.ErrFailedPrecondition)
			f.read(old1)
			for _, v := range []string{old1, old2} {
				f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
				f.ok(f.mount(`\\files\data`, fresh(), "bob", "bob-1"))
			}
			strangers()
			f.start()
		}
		f.mappings(`\\files\data ann ok`)
		f.read(bobs)
		f.read(old1)
	}
}

// A request that the server accepts for a mapping of an unknown user does not remove the mapping
// of another share, whose user is known, and with it the user of the server.
func TestAcceptedUserKeepsOtherMappings(t *testing.T) {
	f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: behavior.SMBUsersHidden})})
	old, v := f.volume("old"), f.volume("v")
	f.ok(f.mount(`\\files\data`, old, "ann", "ann-1"))
	f.start()
	f.ok(f.mount(`\\files\data`, old, "bob", "bob-1")) // the server accepts it, so it may be bob's
	f.ok(f.mount(`\\files\logs`, v, "ann", "ann-1"))
	f.refused(f.mount(`\\files\logs`, v, "bob", "bob-1"), hosterr.ErrFailedPrecondition, `server "files"`, "1 link", `"bob"`)
	f.read(v)
}

// While a share of a server is in use by an unknown user, an error that may pass does not give
// the mapping of another share in use to a user who may be another one.
func TestUnknownUserOfAServerKeepsMappings(t *testing.T) {
	for _, failure := range []error{nil, win32.ERROR_IO_DEVICE} {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBUsers: behavior.SMBUsersHidden})})
		d, l := f.volume("d"), f.volume("l")
		if failure == nil {
			d = ""
		}
		f.ok(f.mount(`\\files\data`, d, "bob", "bob-1"))
		f.ok(f.mount(`\\files\logs`, l, "bob", "bob-1"))
		f.start()
		f.ok(f.mount(`\\files\logs`, l, "bob", "bob-1"))
		if failure != nil {
			f.fail("Attributes", failure)
		}
		f.refused(f.mount(`\\files\data`, f.volume("v"), "ann", "ann-1"), hosterr.ErrFailedPrecondition, "an unknown user", `"ann"`)
		f.heal()
		f.read(l)
		if d != "" {
			f.read(d)
		}
	}
}

// Windows may not say why a mapping fails, and another user's unused mapping may be the
// reason. It is removed, as if Windows had said so, but not for a wrong password.
func TestUnusedMappingOfAnotherUserIsRemoved(t *testing.T) {
	for _, value := range []string{behavior.SMBErrorsBare, behavior.SMBErrorsNumbered} {
		f := beginOn(t, nodespec.Config{World: behavior.In("", behavior.Windows{SMBErrors: value})})
		f.ok(f.mount(`\\files\logs`, "", "bob", "bob-1"))
		f.refused(f.mount(`\\files\data`, f.volume("v1"), "ann", "wrong"), hosterr.ErrPermissionDenied, "password is not correct")
		f.mappings(`\\files\logs bob ok`)
		f.ok(f.mount(`\\files\data`, f.volume("v1"), "ann", "ann-1"))
		f.mappings(`\\files\data ann ok`)
	}
}

func TestShareNamesKeepAlphabet(t *testing.T) {
	for remote, want := range map[string]string{`\\FILES\DATA\x`: `\\files\data`, `\\BÜRO\Ärger`: `\\büro\ärger`, "\\\\files\\\u212Aey": "\\\\files\\\u212Aey", "\\\\files\\\u0130": "\\\\files\\\u0130"} {
		p, err := smb.ParseRemotePath(remote)
		if err != nil || p.Share.String() != want {
			t.Errorf("the share of %s = %s, %v; want %s", remote, p.Share, err, want)
		}
	}
}

// A driver in process counts links below the kubelet's directory that it names.
func TestLinksBelowAnotherDirectoryAreFound(t *testing.T) {
	f := begin(t)
	dir := `C:\k\plugins\kubernetes.io\csi\smb.csi.k8s.io\v`
	f.ok(winfs.MkdirAll(t.Context(), f.node, dir))
	f.ok(f.mount(`\\files\data`, dir+`\globalmount`, "ann", "ann-1"))
	for _, kubelet := range []string{"", `C:\k`} {
		links, err := smbapi.On(f.node).Below(kubelet).Links()
		if found := len(links) == 1; err != nil || found != (kubelet != "") {
			t.Errorf("links below %q: %v, %v", kubelet, links, err)
		}
	}
}

// Concurrent requests for one server run one after another, and each succeeds.
func TestConcurrentRequests(t *testing.T) {
	f := begin(t)
	var volumes []string
	for i := range 16 {
		volumes = append(volumes, f.volume(fmt.Sprint("v", i)))
	}
	var wg sync.WaitGroup
	for _, v := range volumes {
		wg.Go(func() {
			for range 3 {
				if err := f.mount(`\\files\data`, v, "ann", "ann-1"); err != nil {
					t.Error(err)
				}
				if _, err := f.fs.Rmdir(t.Context(), &filesystem.RmdirRequest{Path: v}); err != nil {
					t.Error(err)
				}
				if err := f.unmap(`\\files\data`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.mappings()
}

// A caller cancels its request while the mapping is replaced. The replacement is still
// completed.
func TestCallerLeavesDuringReplacement(t *testing.T) {
	f := begin(t)
	v := f.volume("v1")
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.ok(f.win.Reboot())
	ctx, cancel := context.WithCancel(t.Context())
	left, added := make(chan struct{}), make(chan struct{})
	hook := func(c *win32.Call) error {
		switch c.Name {
		case "UseDel":
			defer cancel()
		case "UseAdd":
			<-left
			defer close(added)
		}
		return c.Do()
	}
	f.hook.Store(&hook)
	_, err := f.smb.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: `\\files\data`, LocalPath: v, Username: "ann", Password: "ann-1"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	close(left)
	<-added
	f.heal()
	f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
	f.mappings(`\\files\data ann ok`)
}

// simple is a HostAPI with the published methods only.
type simple struct {
	mapped map[string]bool
	links  map[string]string
}

func (s *simple) IsSMBMapped(r string) (bool, error)       { return s.mapped[r], nil }
func (s *simple) NewSMBLink(r, l string) error             { s.links[l] = r; return nil }
func (s *simple) NewSMBGlobalMapping(r, _, _ string) error { s.mapped[r] = true; return nil }
func (s *simple) RemoveSMBGlobalMapping(r string) error    { delete(s.mapped, r); return nil }
func (s *simple) PathValid(context.Context, *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	return &filesystem.PathValidResponse{Valid: true}, nil
}

type simpleFS struct {
	filesystem.Interface
	*simple
}

func (s simpleFS) PathValid(ctx context.Context, in *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	return s.simple.PathValid(ctx, in)
}

func TestOtherHostAPI(t *testing.T) {
	host := &simple{map[string]bool{}, map[string]string{}}
	s, err := smb.New(host, simpleFS{simple: host})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewSMBGlobalMapping(t.Context(), &smb.NewSMBGlobalMappingRequest{RemotePath: `\\Files\data\a`, LocalPath: `C:\a`, Username: "u", Password: "p"}); err != nil {
		t.Fatal(err)
	}
	if !host.mapped[`\\files\data`] || host.links[`C:\a`] != `\\Files\data\a\` {
		t.Errorf("mapped %v, links %v", host.mapped, host.links)
	}
	if _, err := s.RemoveSMBGlobalMapping(t.Context(), &smb.RemoveSMBGlobalMappingRequest{RemotePath: `\\Files\data\a`}); err != nil || len(host.mapped) != 0 {
		t.Errorf("after the removal (%v) mapped %v", err, host.mapped)
	}
	if _, err := smb.New(nil, nil); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("New(nil, nil) = %v", err)
	}
}

// No password appears in printed values: a driver in process prints them. TestSecretsAreNotWritten of
// the daemon has logs, errors, responses and state files.
func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "MARKED-one"
	f := begin(t, nodespec.SMBServer{Name: "vault", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "ann", Password: secret}}})
	f.ok(f.mount(`\\vault\data`, f.volume("v1"), "ann", secret))
	in := smb.NewSMBGlobalMappingRequest{RemotePath: `\\vault\data`, Username: "ann", Password: secret}
	account := nodespec.SMBAccount{User: "ann", Password: secret}
	info, err := f.win.Show()
	f.ok(err)
	var seen bytes.Buffer
	for _, v := range []any{in, &in, []*smb.NewSMBGlobalMappingRequest{&in}, struct {
		In *smb.NewSMBGlobalMappingRequest
	}{&in}, f.smb, f.node, info, account, []nodespec.SMBAccount{account}} {
		fmt.Fprintf(&seen, "%v %+v %#v %s %q\n", v, v, v, v, v)
		f.node.Log.Info("value", "v", v)
	}
	for _, v := range []any{in, &in, info} {
		text, err := json.Marshal(v)
		f.ok(err)
		seen.Write(text)
	}
	seen.WriteString(f.log.String())
	text := seen.String()
	if len(text) < 5_000 || !strings.Contains(text, "ann") {
		t.Errorf("checked only %d bytes", len(text))
	}
	for _, secret := range []string{"MARKED", fmt.Sprintf("%x", secret), fmt.Sprintf("%x", win32.UTF16("MARK"))} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("the output contains a secret: …%q…", text[max(0, i-200):min(len(text), i+50)])
		}
	}
}

// The service keeps no record of shares without a mapping, as callers can name any number.
func TestUnmappedSharesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t)
		for i := range 50 {
			remote := fmt.Sprintf(`\\server-%d\data`, i)
			f.refused(f.mount(remote, "", "ann", "x"), hosterr.ErrUnavailable)
			f.ok(f.unmap(remote))
		}
		v := f.volume("v1")
		f.ok(f.mount(`\\files\data`, v, "ann", "ann-1"))
		f.unlink(v)
		f.ok(f.unmap(`\\files\data`))
		if n := f.smb.Remembered(); n != 0 {
			t.Errorf("%d shares are remembered", n)
		}
	})
}

func TestSameUser(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"ann", "ANN", true}, {"ann", `NAS\ann`, true}, {`CORP\ann`, `corp\Ann`, true}, {"ann@corp.example.com", `CORP\ann`, true},
		{"ann", "bob", false}, {`CORP\ann`, `OTHER\ann`, false}, {"", "ann", false}, {"", "", true},
	} {
		if got := smb.MaybeSame(c.a, c.b); got != c.want {
			t.Errorf("MaybeSame(%q, %q) = %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

// While a mapping is replaced, each Win32 call fails in turn, either before it has an effect or after
// it. The driver's retry succeeds, and after the removal no mapping is left. Mappings of other
// programs are kept. Other situations are in test/operations.
func TestRetryAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		setups := []struct {
			name string
			prep func(f *fixture, v string) // makes the state before the request
		}{
			{"another password", func(f *fixture, v string) {
				f.ok(f.win.SetSMBPassword("files", "ann", "ann-0"))
				f.ok(f.mount(`\\files\data`, v, "ann", "ann-0"))
				f.ok(f.win.SetSMBPassword("files", "ann", "ann-1"))
			}},
			{"another user on the server", func(f *fixture, v string) {
				f.ok(f.mount(`\\files\logs`, "", "bob", "bob-1"))
			}},
		}
		for _, setup := range setups {
			for _, lost := range []bool{false, true} {
				failed := true
				for at := 1; failed; at++ {
					if at > 200 {
						t.Fatalf("%s: more than 200 calls", setup.name)
					}
					f := begin(t, nodespec.SMBServer{Name: "other", Shares: []string{"data"}, NodeAccount: true})
					f.ok(f.win.UseAdd(win32.NewUse{Remote: `\\other\data`}))
					v := f.volume("v1")
					setup.prep(f, v)
					f.ok(f.win.SetSMBMappingStatus(`\\other\data`, "ok"))
					calls := 0
					failed = false
					hook := func(c *win32.Call) error {
						if c.Name == "CloseHandle" {
							return c.Do() // does not fail
						}
						if calls++; calls != at {
							return c.Do()
						}
						failed = true
						if lost && strings.HasPrefix(c.Name, "Use") {
							if err := c.Do(); err != nil {
								return err
							}
						}
						return win32.ERROR_UNEXP_NET_ERR
					}
					f.hook.Store(&hook)
					first := f.mount(`\\files\data`, v, "ann", "ann-1")
					f.heal()
					if err := f.mount(`\\files\data`, v, "ann", "ann-1"); err != nil {
						t.Fatalf("%s: call %d failed (after its effect: %t) with %v; the retry returned %v", setup.name, at, lost, first, err)
					}
					f.read(v)
					f.mappings(`\\files\data ann ok`, `\\other\data  ok`)
					f.unlink(v)
					f.ok(f.unmap(`\\files\data`))
					f.mappings(`\\other\data  ok`)
				}
			}
		}
	})
}

// A request that waits for the search for links of another request ends with its deadline,
// and leaves nothing behind.
func TestSearchForLinksThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t)
		hang := make(chan struct{})
		hook := func(c *win32.Call) error {
			if c.Name == "QueryDirectory" {
				<-hang
			}
			return c.Do()
		}
		f.hook.Store(&hook)
		go f.smb.Survey(t.Context())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.smb.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: `\\files\data`})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the deadline", err)
		}
		synctest.Wait() // its goroutine does not wait in a mutex
		if n := f.node.Locks.Shares.Len(); n != 1 {
			t.Errorf("%d locks, want that of the search", n)
		}
		close(hang)
		synctest.Wait()
		f.ok(f.unmap(`\\files\data`))
	})
}

// Each error of a mapping has a kind, and a hint that says what to do.
func TestErrorsOfMappingsHaveHints(t *testing.T) {
	for _, c := range []struct {
		code           win32.Errno
		user, password string
		kind           error
		hint           string
	}{
		{win32.ERROR_ALREADY_ASSIGNED, "ann", "ann-1", hosterr.ErrAlreadyExists, "net use"},
		{win32.ERROR_NOT_ENOUGH_SERVER_MEMORY, "ann", "ann-1", hosterr.ErrUnavailable, "the server has no resources"},
		{win32.ERROR_NO_SYSTEM_RESOURCES, "ann", "ann-1", hosterr.ErrUnavailable, "the node has no resources"},
		{win32.ERROR_NOT_ENOUGH_MEMORY, "ann", "ann-1", hosterr.ErrUnavailable, "too many SMB mappings"},
		{win32.ERROR_ACCOUNT_LOCKED_OUT, "ann", "ann-1", hosterr.ErrPermissionDenied, "unlocks the account"},
		{win32.ERROR_PASSWORD_EXPIRED, "ann", "ann-1", hosterr.ErrPermissionDenied, "a new password"},
		{win32.ERROR_LOGON_FAILURE, "ann", "ann-1", hosterr.ErrPermissionDenied, `DOMAIN\name`},
		{win32.ERROR_LOGON_FAILURE, "", "", hosterr.ErrPermissionDenied, "no user was given"},
		{win32.ERROR_LOGON_FAILURE, "ann", "", hosterr.ErrPermissionDenied, "no password was given"},
		{win32.ERROR_ACCESS_DENIED, "", "", hosterr.ErrPermissionDenied, "no user was given"},
		{win32.ERROR_NO_SUCH_LOGON_SESSION, "", "", hosterr.ErrPermissionDenied, "no user was given"},
	} {
		f := begin(t)
		f.fail("UseAdd", c.code)
		f.refused(f.mount(`\\files\data`, f.volume("v1"), c.user, c.password), c.kind, c.hint)
		f.mappings()
	}
}
