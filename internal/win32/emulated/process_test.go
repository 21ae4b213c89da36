package emulated

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The two ways in which the calling process can end: alone, while the node keeps
// running, and together with the node, like a killed csi-proxy-sim. Both have the
// same result.
func deaths(t *testing.T, n *Node, cfg nodespec.Config) map[string]*Node {
	t.Helper()
	cfg.StateDir = cloneDir(t, cfg.StateDir)
	reopened, err := Open(cfg, kernel.Machine{})
	ok(t, err)
	t.Cleanup(func() { reopened.Close() })
	ok(t, n.EndProcess())
	if left := n.OpenHandles(); len(left) > 0 {
		t.Errorf("handles left open: %q", left)
	}
	checkNode(t, n)
	checkNode(t, reopened)
	if got, want := describe(t, reopened), describe(t, n); got != want {
		t.Errorf("opened again\n%s\nwant what lives on\n%s", got, want)
	}
	return map[string]*Node{"the process died": n, "both died": reopened}
}

// A file marked for deletion is deleted when the process that should have closed
// it ends.
func TestDeletionAfterProcessEnd(t *testing.T) {
	cfg := nodespec.Config{StateDir: t.TempDir()}
	n := start(t, cfg)
	make := func(name string) win32.Handle {
		t.Helper()
		h, err := n.NtCreateFile(0, `\??\C:\`+name, win32.DELETE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareBoth|win32.FILE_SHARE_DELETE, win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
		ok(t, err)
		return h
	}
	mark := func(h win32.Handle, flags uint32) {
		t.Helper()
		ok(t, n.SetInformation(h, win32.FileDispositionInformationEx, win32.EncodeDisposition(flags)))
	}
	make("open")
	mark(make("marked"), win32.FILE_DISPOSITION_DELETE)
	mark(make("marked posix"), win32.FILE_DISPOSITION_DELETE|win32.FILE_DISPOSITION_POSIX_SEMANTICS)
	back := make("taken back")
	mark(back, win32.FILE_DISPOSITION_DELETE)
	mark(back, 0)
	closed := make("closed")
	mark(closed, win32.FILE_DISPOSITION_DELETE)
	ok(t, n.CloseHandle(closed))
	for death, n := range deaths(t, n, cfg) {
		for name, want := range map[string]bool{"open": true, "taken back": true, "marked": false, "marked posix": false, "closed": false} {
			_, err := n.Attributes(`C:\` + name)
			if there := err == nil; there != want {
				t.Errorf("%s: %q exists: %t, %v, want %t", death, name, there, err, want)
			}
		}
		if left := n.Store.Keys("closing/"); len(left) > 0 {
			t.Errorf("%s: marks for deletion left: %q", death, left)
		}
	}
}

// Detaching a disk completes no deletions, because it closes no handles.
func TestDeletionOnDetachedDisk(t *testing.T) {
	cfg := nodespec.Config{StateDir: t.TempDir(), Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {ID: "d", Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}}}
	n := start(t, cfg)
	h, err := n.NtCreateFile(0, `\??\E:\marked`, win32.DELETE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, 0, win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	ok(t, err)
	ok(t, errors.Join(n.SetInformation(h, win32.FileDispositionInformation, []byte{1}), n.Detach(1)))
	for death, n := range deaths(t, n, cfg) {
		attach(t, n, nodespec.Disk{ID: "d"})
		if _, err := n.Attributes(`E:\marked`); err != nil {
			t.Errorf("%s: the file on the disk after it was attached again: %v", death, err)
		}
	}
}

// A format without WMI does not continue after its process has ended, nor any after a restart of
// Windows: the next process may have created a file system and files.
func TestFormatIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*Node) error
		direct bool
	}{"the process, fmifs": {(*Node).EndProcess, true}, "Windows, fmifs": {(*Node).Reboot, true}, "Windows, WMI": {(*Node).Reboot, false}} {
		t.Run(name, func(t *testing.T) {
			quick := quick
			quick.Direct = c.direct
			cfg := nodespec.Config{FormatDuration: nodespec.Duration(time.Second), Disks: []nodespec.Disk{{Content: nodespec.ContentSystem},
				{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}}}
			var n *Node
			now := time.Unix(1e9, 0)
			meanwhile := func(d time.Duration) {
				if c.direct { // it does not end by itself, although it is due
					now = now.Add(d)
					if _, err := n.VolumeInformation(one(t, n, 1)); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
						t.Errorf("VolumeInformation during the format = %v, want ERROR_ACCESS_DENIED", err)
					}
				}
				ok(t, errors.Join(c.end(n), n.Format(one(t, n, 1), quick)))
				newDir(t, n, `E:\new`)
			}
			n = startOn(t, cfg, kernel.Machine{Now: func() time.Time { return now }, Sleep: func(d time.Duration) {
				do := meanwhile
				meanwhile = func(time.Duration) {}
				do(d)
			}})
			if err := n.Format(one(t, n, 1), quick); !errors.Is(err, win32.ERROR_PROCESS_ABORTED) {
				t.Errorf("the interrupted format: %v, want ERROR_PROCESS_ABORTED", err)
			}
			if _, err := n.Attributes(`E:\new`); err != nil {
				t.Errorf("the file created after it: %v", err)
			}
		})
	}
}

// A format through WMI runs in the process of its provider, so it goes on after the process has
// ended that asked for it, and the next one finds the volume locked, and then formatted.
func TestFormatThroughWMIOutlivesTheProcess(t *testing.T) {
	now := time.Unix(1e9, 0)
	cfg := nodespec.Config{StateDir: t.TempDir(), FormatDuration: nodespec.Duration(time.Minute),
		Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}}}}
	machine := kernel.Machine{Now: func() time.Time { return now }}
	var n *Node
	begun, end := make(chan bool), make(chan bool)
	slow := machine
	slow.Sleep = func(time.Duration) { close(begun); <-end }
	n = startOn(t, cfg, slow)
	vol, result := one(t, n, 1), make(chan error, 1)
	go func() { result <- n.Format(vol, quick) }()
	<-begun
	cfg.StateDir = cloneDir(t, cfg.StateDir)
	ok(t, n.EndProcess())
	for name, n := range map[string]*Node{"the process died": n, "both died": startOn(t, cfg, machine)} {
		now = time.Unix(1e9, 0)
		if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
			t.Errorf("%s: while the format goes on: %v", name, err)
		}
		now = now.Add(time.Minute)
		if info, err := n.VolumeInformation(vol); err != nil || info.FileSystem != "NTFS" {
			t.Errorf("%s: after the format: %+v, %v", name, info, err)
		}
		if left := n.Store.Keys("format/"); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
	close(end)
	if err := <-result; err != nil {
		t.Errorf("the call of the process that died: %v", err)
	}
}

// A disk that is removed during a format is not formatted when it comes back.
func TestFormatEndsWithTheDisk(t *testing.T) {
	cfg := nodespec.Config{StateDir: t.TempDir(), FormatDuration: nodespec.Duration(time.Hour),
		Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {ID: "d", Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}}}}
	var n *Node
	n = startOn(t, cfg, kernel.Machine{Sleep: func(time.Duration) {
		ok(t, n.Detach(1))
	}})
	if err := n.Format(one(t, n, 1), quick); !errors.Is(err, win32.ERROR_NO_SUCH_DEVICE) {
		t.Errorf("format of a removed disk: %v", err)
	}
	n.Sleep = time.Sleep
	attach(t, n, nodespec.Disk{ID: "d"})
	cfg.StateDir = cloneDir(t, cfg.StateDir)
	for name, n := range map[string]*Node{"the same node": n, "opened again": start(t, cfg)} {
		if _, err := n.VolumeInformation(one(t, n, 1)); !errors.Is(err, win32.ERROR_DISK_CORRUPT) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A disk whose file was extended but whose growth is not in the journal has its
// old size.
func TestKilledWhileGrowing(t *testing.T) {
	cfg := nodespec.Config{StateDir: t.TempDir()}
	n := start(t, cfg)
	path := image(t, n, 1)
	ok(t, n.Close())
	info, err := os.Stat(path)
	ok(t, err)
	ok(t, os.Truncate(path, info.Size()+gib))
	start(t, cfg)
	if now, err := os.Stat(path); err != nil || now.Size() != info.Size() {
		t.Errorf("the image has %d bytes, %v, want %d", now.Size(), err, info.Size())
	}
}

// The initiator's secret is kept when the process ends, but only as a hash.
func TestMutualSecretStored(t *testing.T) {
	const secret = "mutualsecret1"
	target := lunTarget(testIQN, 1)
	target.CHAP = &nodespec.CHAP{User: "csi", Secret: "chapsecret123", MutualSecret: secret}
	other := lunTarget(testIQN+".other", 1)
	other.CHAP = &nodespec.CHAP{User: "csi", Secret: "chapsecret123", MutualSecret: "another12345"}
	cfg := iscsiConfig(target, other)
	cfg.StateDir = t.TempDir()
	n := start(t, cfg)
	ok(t, errors.Join(n.AddIScsiSendTargetPortal(testPortal), n.SetIScsiInitiatorCHAPSharedSecret(win32.NewSecret(secret))))
	user, password := "csi", win32.NewSecret("chapsecret123")
	login := win32.ISCSILogin{AuthType: win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE, User: &user, Password: &password}
	for death, n := range deaths(t, n, cfg) {
		if _, err := n.LoginIScsiTarget(other.IQN, testPortal, login); !errors.Is(err, win32.ISDSC_AUTHENTICATION_FAILURE) {
			t.Errorf("%s: login to a target with another secret: %v", death, err)
		}
		if _, err := n.LoginIScsiTarget(testIQN, testPortal, login); err != nil {
			t.Errorf("%s: login: %v", death, err)
		}
		if strings.Contains(describe(t, n), secret) {
			t.Errorf("%s: the state contains the secret", death)
		}
	}
}

// A login and a logout take several transactions, one for each disk. If the
// process is killed between any two of them, the session exists with all its
// disks, or neither does.
func TestKilledDuringLoginOrLogout(t *testing.T) {
	cfg := iscsiConfig(lunTarget(testIQN, 3))
	cfg.StateDir = t.TempDir()
	n := start(t, cfg)
	ok(t, n.AddIScsiSendTargetPortal(testPortal))
	dir, cuts := cfg.StateDir, map[string]int{}
	cut := func(what string, do func() error) {
		t.Helper()
		_, old := journalOf(t, dir)
		ok(t, do())
		_, whole := journalOf(t, dir)
		for at := len(old); ; at += bytes.IndexByte(whole[at:], '\n') + 1 {
			cuts[what]++
			cfg.StateDir = cloneDir(t, dir)
			path, _ := journalOf(t, cfg.StateDir)
			ok(t, os.WriteFile(path, whole[:at], 0o600))
			m := start(t, cfg)
			info, err := m.Show()
			ok(t, err)
			target := info.ISCSITargets[0]
			if connected := target.Session != ""; connected != (len(target.Disks) == 3) || !connected && len(target.Disks) != 0 {
				t.Errorf("%s, killed after %d of %d bytes: session %q with the disks %v", what, at-len(old), len(whole)-len(old), target.Session, target.Disks)
			}
			if at == len(whole) {
				return
			}
		}
	}
	var id win32.ISCSISessionID
	cut("login", func() error {
		id = login(t, n, testIQN)
		_, err := n.Show() // the disks arrive with the next call
		return err
	})
	cut("logout", func() error { return n.LogoutIScsiTarget(id) })
	if cuts["login"] < 5 || cuts["logout"] < 5 {
		t.Errorf("journal records: %v, want one for each disk and one for the session", cuts)
	}
}
