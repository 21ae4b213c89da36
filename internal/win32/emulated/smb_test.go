package emulated

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

var smbServers = []nodespec.SMBServer{
	{Name: "nas", Shares: []string{"data", "logs"}, Accounts: []nodespec.SMBAccount{{User: "ann", Password: "one"}, {User: "bob", Password: "two"}, {User: `CORP\eve`, Password: "three"}}},
	{Name: "open", Shares: []string{"pub"}, NodeAccount: true, NoEncryption: true, Accounts: []nodespec.SMBAccount{{User: "ann", Password: "one"}}},
}

// numbered is a Windows that says why a mapping fails, and whose credentials mappings have.
var numbered = behavior.Windows{SMBUsers: behavior.SMBUsersShown, SMBErrors: behavior.SMBErrorsNumbered}

func smbNode(t *testing.T) *Node {
	t.Helper()
	n, err := Open(nodespec.Config{SMBServers: smbServers, World: behavior.In("", numbered)}, Machine{})
	ok(t, err)
	t.Cleanup(func() { n.Close() })
	return n
}

func use(remote, user, password string) win32.NewUse {
	u := win32.NewUse{Remote: remote, User: user, Password: win32.NewSecret(password)}
	if domain, name, ok := strings.Cut(user, `\`); ok {
		u.Domain, u.User = domain, name
	}
	return u
}

// A logon of its own needs no mapping, changes none, and is not hindered by one of
// another user.
func TestLogonToServer(t *testing.T) {
	n := smbNode(t)
	ok(t, n.UseAdd(use(`\\nas\data`, "ann", "one")))
	before, err := n.UseEnum()
	ok(t, err)
	for _, c := range []struct {
		server, domain, user, password string
		want                           error
	}{
		{"nas", "", "ann", "one", nil},
		{"NAS", "nas", "bob", "two", nil},
		{"nas", "CORP", "eve", "three", nil},
		{"nas", "CORP", "ann", "one", win32.ERROR_LOGON_FAILURE},
		{"nas", "AZURE", "ann", "one", nil},
		{"nas", "WORKGROUP", "eve", "three", win32.ERROR_LOGON_FAILURE},
		{"nas", "", "ann", "two", win32.ERROR_INVALID_PASSWORD},
		{"nas", "", "carl", "one", win32.ERROR_LOGON_FAILURE},
		{"nas", "", "", "", win32.ERROR_LOGON_FAILURE},
		{"open", "", "", "", nil},
		{"gone", "", "ann", "one", win32.ERROR_BAD_NETPATH},
	} {
		if err := n.LogonToServer(c.server, win32.Credentials{User: c.user, Domain: c.domain, Password: win32.NewSecret(c.password)}); err != c.want {
			t.Errorf("%s, %s\\%s, %s: %v, want %v", c.server, c.domain, c.user, c.password, err, c.want)
		}
	}
	if after, err := n.UseEnum(); err != nil || !slices.Equal(before, after) {
		t.Errorf("mappings are %v, %v, and were %v", after, err, before)
	}
}

func TestUseAddRefusals(t *testing.T) {
	private := use(`\\open\pub`, "ann", "one")
	private.Flags = win32.REQUIRE_CONNECTION_PRIVACY
	unknownFlag := use(`\\nas\data`, "ann", "one")
	unknownFlag.Flags = 0x40
	for _, c := range []struct {
		name string
		u    win32.NewUse
		want error
	}{
		{"valid", use(`\\NAS\Data`, "Ann", "one"), nil},
		{"with the server's name as domain", use(`\\nas\data`, `nas\ann`, "one"), nil},
		{"with a domain", use(`\\nas\data`, `corp\EVE`, "three"), nil},
		{"the node's own account", use(`\\open\pub`, "", ""), nil},
		{"the node's own account, which the server does not accept", use(`\\nas\data`, "", ""), win32.ERROR_LOGON_FAILURE},
		{"no such server", use(`\\none\data`, "ann", "one"), win32.ERROR_BAD_NETPATH},
		{"no such share", use(`\\nas\none`, "ann", "one"), win32.ERROR_BAD_NET_NAME},
		{"no share at all", use(`\\nas`, "ann", "one"), win32.ERROR_BAD_NET_NAME},
		{"a path on a share", use(`\\nas\data\x`, "ann", "one"), win32.ERROR_BAD_NET_NAME},
		{"wrong password", use(`\\nas\data`, "ann", "two"), win32.ERROR_INVALID_PASSWORD},
		{"no such user", use(`\\nas\data`, "carl", "one"), win32.ERROR_LOGON_FAILURE},
		{"a user of another domain", use(`\\nas\data`, `CORP\ann`, "one"), win32.ERROR_LOGON_FAILURE},
		{"an invalid user name", use(`\\nas\data`, "a/b", "one"), win32.ERROR_NO_SUCH_LOGON_SESSION},
		{"privacy without encryption", private, win32.ERROR_ACCESS_DENIED},
		{"unknown flag", unknownFlag, win32.ERROR_INVALID_PARAMETER},
	} {
		n := smbNode(t)
		if err := n.UseAdd(c.u); err != c.want {
			t.Errorf("%s: UseAdd(%+v) = %v, want %v", c.name, c.u, err, c.want)
		}
		uses, err := n.UseEnum()
		if err != nil || (len(uses) == 1) != (c.want == nil) {
			t.Errorf("%s: afterwards the mappings are %v, %v", c.name, uses, err)
		}
	}
}

func openShare(n *Node, name string, disposition, options uint32) (win32.Handle, error) {
	const all = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	return n.NtCreateFile(0, name, win32.FILE_LIST_DIRECTORY|win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, all, disposition,
		options|win32.FILE_SYNCHRONOUS_IO_NONALERT)
}

// A share can be reached while it has a working mapping.
func TestShareFiles(t *testing.T) {
	n := smbNode(t)
	try := func(when, name string, want error) {
		t.Helper()
		h, err := openShare(n, name, win32.FILE_OPEN, 0)
		if err != want {
			t.Errorf("%s: open %s = %v, want %v", when, name, err, want)
		}
		if err == nil {
			n.CloseHandle(h)
		}
	}
	const root = `\??\UNC\NAS\Data\`
	try("without a mapping", root, win32.STATUS_ACCESS_DENIED)
	try("no server", `\??\UNC\none\data\`, win32.STATUS_BAD_NETWORK_PATH)
	try("no share", `\??\UNC\nas\none\`, win32.STATUS_BAD_NETWORK_NAME)
	try("no share in the path", `\??\UNC\nas`, win32.STATUS_OBJECT_PATH_SYNTAX_BAD)
	try("a server that knows the node", `\??\UNC\open\pub\`, nil)
	ok(t, n.UseAdd(use(`\\nas\data`, "ann", "one")))
	try("mapped", root, nil)
	try("nothing there", root+"x", win32.STATUS_OBJECT_NAME_NOT_FOUND)

	h, err := openShare(n, root+`dir`, win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE)
	ok(t, err)
	if got, err := n.FinalPath(h, win32.VOLUME_NAME_DOS|win32.FILE_NAME_OPENED); got != `\\?\UNC\NAS\Data\dir` || err != nil {
		t.Errorf("FinalPath of the opened name = %q, %v", got, err)
	}
	// This user cannot list a directory above (GetFinalPathNameByHandle).
	if got, err := n.FinalPath(h, win32.VOLUME_NAME_DOS); err != win32.ERROR_ACCESS_DENIED {
		t.Errorf("the normalized FinalPath = %q, %v, want ERROR_ACCESS_DENIED", got, err)
	}
	if _, err := n.FinalPath(h, win32.VOLUME_NAME_GUID); err != win32.ERROR_PATH_NOT_FOUND {
		t.Errorf("FinalPath with a volume name = %v, want ERROR_PATH_NOT_FOUND", err)
	}
	if a, err := n.Attributes(`\\nas\data\dir`); err != nil || a != win32.FILE_ATTRIBUTE_DIRECTORY {
		t.Errorf("Attributes = %#x, %v", a, err)
	}
	link := win32.Reparse{Tag: win32.IO_REPARSE_TAG_SYMLINK, Substitute: `\??\C:\`}
	if _, err := n.DeviceIoControl(h, win32.FSCTL_SET_REPARSE_POINT, link.Encode(), nil); err != win32.ERROR_INVALID_FUNCTION {
		t.Errorf("a link on a share = %v, want ERROR_INVALID_FUNCTION", err)
	}

	// Handles are lost when the server goes down.
	ok(t, n.SetSMBServerDown("nas", true))
	try("server down", root, win32.STATUS_IO_TIMEOUT)
	info := make([]byte, 64)
	if _, err := n.QueryInformation(h, win32.FileStandardInformation, info); err == nil {
		t.Error("a file on a server that is down can be queried")
	}
	ok(t, n.CloseHandle(h))
	ok(t, n.SetSMBServerDown("nas", false))
	try("server back", root+"dir", nil)
	for status, want := range map[string]error{"disconnected": win32.STATUS_LOGON_FAILURE, "paused": win32.STATUS_UNEXPECTED_NETWORK_ERROR, "ok": nil} {
		ok(t, n.SetSMBMappingStatus(`\\nas\data`, status))
		try("status "+status, root, want)
	}
	ok(t, n.Reboot())
	try("after a restart", root, win32.STATUS_LOGON_FAILURE)
	if open := n.OpenHandles(); len(open) > 0 {
		t.Errorf("open handles: %q", open)
	}
}

// Servers, shares and mappings are stored in the state directory; passwords are
// not.
func TestSMBStateStored(t *testing.T) {
	dir := t.TempDir()
	config := nodespec.Config{StateDir: dir, SMBServers: []nodespec.SMBServer{{Name: "nas", Shares: []string{"data"}, Accounts: []nodespec.SMBAccount{{User: "ann", Password: "MARKED-1"}}}}}
	n, err := Open(config, Machine{})
	ok(t, err)
	for _, err := range []error{
		n.SetSMBPassword("nas", "ann", "MARKED-2"), n.AddSMBShare("nas", "more"), n.SetSMBEncryption("nas", false),
		n.AddSMBServer(nodespec.SMBServer{Name: "second"}), n.MakeShareDirectory("nas", "data", `a\b`),
		n.UseAdd(use(`\\nas\data`, "ann", "MARKED-2")), n.Close(),
	} {
		ok(t, err)
	}
	if n, err = Open(config, Machine{}); err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	info, err := n.Show()
	ok(t, err)
	want := `[{nas [data more] [ann] false false} {second [] [] false true}] [{\\nas\data ann ok []}]`
	if got := fmt.Sprint(info.SMBServers, info.SMBMappings); got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	if _, err := n.Attributes(`\\nas\data\a\b`); err != nil {
		t.Errorf("the file on the share: %v", err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".img") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "MARKED") {
			t.Errorf("%s contains a password", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"not a share": n.AddSMBShare("nas", `a\b`), "not a user": n.SetSMBPassword("nas", "", "x"),
		"not a server": n.AddSMBServer(nodespec.SMBServer{Name: `a\b`}), "no share": n.MakeShareDirectory("nas", "none", "a"),
		"no mapping": n.SetSMBMappingStatus(`\\nas\more`, "ok"),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// A share that an administrator removes is not available, nor are its files on a new one of that
// name.
func TestRemoveShare(t *testing.T) {
	n := smbNode(t)
	ok(t, n.UseAdd(use(`\\nas\data`, "ann", "one")))
	ok(t, n.UseAdd(use(`\\nas\logs`, "ann", "one")))
	h, err := openShare(n, `\??\UNC\nas\data\dir`, win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE)
	ok(t, err)
	ok(t, n.RemoveSMBShare("NAS", "Data"))
	if uses, err := n.UseEnum(); err != nil || len(uses) != 2 || uses[0].Status != win32.USE_DISCONN || uses[1].Status != win32.USE_OK {
		t.Errorf("the mappings %+v, %v, want one disconnected", uses, err)
	}
	if _, err := openShare(n, `\??\UNC\nas\data\`, win32.FILE_OPEN, 0); err != win32.STATUS_BAD_NETWORK_NAME {
		t.Errorf("open a removed share = %v, want STATUS_BAD_NETWORK_NAME", err)
	}
	if _, err := n.QueryInformation(h, win32.FileBasicInformation, make([]byte, 64)); err == nil {
		t.Error("a handle on a removed share still works")
	}
	ok(t, n.CloseHandle(h))
	ok(t, n.UseDel(`\\nas\data`))
	ok(t, n.AddSMBShare("nas", "data"))
	ok(t, n.UseAdd(use(`\\nas\data`, "ann", "one")))
	if _, err := openShare(n, `\??\UNC\nas\data\dir`, win32.FILE_OPEN, 0); err != win32.STATUS_OBJECT_NAME_NOT_FOUND {
		t.Errorf("open a file of the removed share with the same name = %v, want STATUS_OBJECT_NAME_NOT_FOUND", err)
	}
}

// What Windows says about a server that is down is an option, and how long it takes.
func TestServerGone(t *testing.T) {
	for value, want := range map[string]struct {
		errno  win32.Errno
		status win32.NTStatus
	}{
		nodespec.SMBGoneTimeout:  {win32.ERROR_SEM_TIMEOUT, win32.STATUS_IO_TIMEOUT},
		nodespec.SMBGoneDropped:  {win32.ERROR_NETNAME_DELETED, win32.STATUS_NETWORK_NAME_DELETED},
		nodespec.SMBGoneNotFound: {win32.ERROR_BAD_NETPATH, win32.STATUS_BAD_NETWORK_PATH},
	} {
		var waited time.Duration
		n, err := Open(nodespec.Config{SMBServers: smbServers, SMBTimeout: nodespec.Duration(time.Second), World: behavior.In("", behavior.Windows{SMBServerGone: value, SMBErrors: behavior.SMBErrorsNumbered})},
			Machine{Sleep: func(d time.Duration) { waited += d }})
		ok(t, err)
		ok(t, n.SetSMBServerDown("nas", true))
		_, open := openShare(n, `\??\UNC\nas\data\`, win32.FILE_OPEN, 0)
		add, logon := n.UseAdd(use(`\\nas\data`, "ann", "one")), n.LogonToServer("nas", win32.Credentials{User: "ann"})
		if add != want.errno || logon != want.errno || open != want.status {
			t.Errorf("%s: UseAdd = %v, LogonToServer = %v, open = %v, want %v", value, add, logon, open, want)
		}
		if err := n.UseAdd(use(`\\none\data`, "ann", "one")); err != win32.ERROR_BAD_NETPATH {
			t.Errorf("%s: a server that does not exist: %v", value, err)
		}
		if _, err := n.UseEnum(); err != nil || waited != 4*time.Second {
			t.Errorf("%s: waited %v (%v), want a second for each of 4 calls about a server", value, waited, err)
		}
		ok(t, n.Close())
	}
	// Without smbTimeout it is a short time, but never none.
	waited := time.Duration(0)
	n, err := Open(nodespec.Config{}, Machine{Sleep: func(d time.Duration) { waited += d }})
	ok(t, err)
	if err := n.LogonToServer("none", win32.Credentials{}); err != win32.ERROR_BAD_NETPATH || waited <= 0 || waited > 20*time.Millisecond {
		t.Errorf("LogonToServer = %v after %v", err, waited)
	}
	ok(t, n.Close())
}
