package verify

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// ownerRights asks whether an administrator that csi-proxy's pipe lets connect may change who
// else may, because administrators own the pipe.
func ownerRights(p *place) string {
	may := func(descriptor string) string {
		path, _, _ := clientPipe(p, descriptor)
		h, err := windows.CreateFile(windows.StringToUTF16Ptr(path), windows.WRITE_DAC, 0, nil, windows.OPEN_EXISTING, 0, 0)
		switch {
		case errors.Is(err, windows.ERROR_ACCESS_DENIED):
			return "no"
		case err != nil:
			return err.Error()
		}
		p.need(windows.CloseHandle(h))
		return "yes"
	}
	const client = "O:BAD:P(A;;0x12019b;;;BA)"
	return "as its owner " + may(client) + ", with an entry for owners " + may(client+"(A;;RC;;;OW)")
}

// pipeOfAService asks who owns the pipe of a service, and whether Windows names its process.
func pipeOfAService(p *place) string {
	prefix := directoryPrefix + rand.Text() + "-"
	s := install(p.T, p.o, servedName, "", testbed.ServedService, servedName, prefix)
	p.need(s.Start())
	running := awaitService(p.T, s, svc.Running, 0)
	path := pipe.Path(prefix + "csi-proxy-disk-v1")
	owner := "trusted"
	c, err := pipe.DialTrusted(p.Context(), path)
	if err != nil {
		owner = "not trusted: " + err.Error()
	} else {
		c.Close()
	}
	process := "that of the service"
	if pid, _, err := pipes.ServerOf(path); err != nil || pid != running.ProcessId {
		process = fmt.Sprintf("%d, not %d (%v)", pid, running.ProcessId, err)
	}
	_, err = s.Control(svc.Stop)
	p.need(err)
	awaitService(p.T, s, svc.Stopped, 0)
	return "its owner is " + owner + ", its process " + process
}

// endsEarly ends a service before it registers, and looks for half a minute whether Windows starts
// it again.
func endsEarly(p *place) string {
	file := p.dir + "-ends"
	s := install(p.T, p.o, failingName, "", testbed.ServedService, failingName, ends, file)
	p.need(s.SetRecoveryActions([]mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: 100 * time.Millisecond}}, 60))
	p.need(s.SetRecoveryActionsOnNonCrashFailures(true))
	started := s.Start()
	answer := "yes"
	pace := node.Pace{Pause: 500 * time.Millisecond, Limit: 30 * time.Second}
	err := node.Poll(p.Context(), node.SystemClock{}, pace, func() (bool, error) {
		info, err := os.Stat(file)
		if err == nil && info.Size() < 2 {
			err = errors.New("it ran once")
		}
		return err == nil, err
	})
	if err != nil {
		answer = "no"
	}
	return fmt.Sprintf("%s; the start returned: %v", answer, errors.Join(started, os.Remove(file)))
}

// runEnd is the process of that service.
func runEnd(file string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte{1})
	return errors.Join(err, f.Close(), errors.New("it ends before it registers"))
}

// deleteAfterStop deletes the program of a service right after it has stopped, again and again.
func deleteAfterStop(p *place) string {
	const rounds = 20
	self, err := os.Executable()
	p.need(err)
	dir := p.dir + "-program"
	p.need(os.MkdirAll(dir, 0o700))
	exe := filepath.Join(dir, "service.exe")
	refresh := func() { p.need(copyProgram(self, exe)) }
	refresh()
	s := install(p.T, p.o, servedName, exe, testbed.IdleService, servedName)
	denied := 0
	for range rounds {
		p.need(s.Start())
		awaitService(p.T, s, svc.Running, 0)
		_, err := s.Control(svc.Stop)
		p.need(err)
		awaitService(p.T, s, svc.Stopped, 0)
		if err := os.Remove(exe); err != nil {
			if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
				p.Fatal(err)
			}
			denied++
			p.need(p.wait(func() error { return os.Remove(exe) }))
		}
		refresh()
	}
	p.need(p.wait(func() error { return os.RemoveAll(dir) }))
	return fmt.Sprintf("%d of %d times", denied, rounds)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// nativeMapping maps a share through NetUseAdd and asks WMI whether it is global.
func nativeMapping(p *place) string {
	remote := p.mapShare()
	defer func() {
		if err := p.node.API.UseDel(remote, win32.USE_LOTS_OF_FORCE); err != nil {
			p.Error(err)
		}
	}()
	wmi, err := node.OpenNative(node.NativeOptions{SMB: backends[0], Log: slog.New(slog.DiscardHandler)})
	p.need(err)
	all, err := wmi.API.UseEnum()
	p.need(err)
	for _, u := range all {
		if strings.EqualFold(u.Remote, remote) {
			return "yes"
		}
	}
	return "no"
}

// iscsiBuffers makes two calls of iscsidsc.dll as no program should.
func iscsiBuffers(p *place) string {
	p.startInitiator()
	dll := windows.NewLazySystemDLL("iscsidsc.dll")
	report, remove := dll.NewProc("ReportIScsiPersistentLoginsW"), dll.NewProc("RemoveIScsiPersistentTargetW")
	p.need(errors.Join(report.Find(), remove.Find()))
	var count uint32
	small := make([]byte, 16)
	size := uint32(len(small))
	short, _, _ := report.Call(uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&small[0])), uintptr(unsafe.Pointer(&size)))
	target := windows.StringToUTF16Ptr("iqn.2025-01.com.example:csi-proxy-verify")
	portal := make([]byte, 1026) // ISCSI_TARGET_PORTALW, empty: any portal
	none, _, _ := remove.Call(0, 0xFFFFFFFF, uintptr(unsafe.Pointer(target)), uintptr(unsafe.Pointer(&portal[0])))
	sessions, err := p.node.API.GetIScsiSessionList()
	p.need(err)
	without := 0
	for _, s := range sessions {
		if len(s.Connections) == 0 {
			without++
		}
	}
	return fmt.Sprintf("a buffer of 16 bytes for %d logins: %#x; removal without an initiator: %#x; %d of %d sessions have no connection", count, short, none, without, len(sessions))
}
