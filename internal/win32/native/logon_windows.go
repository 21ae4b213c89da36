package native

import (
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-logonuserw
//sys	logonUser(user *uint16, domain *uint16, password *uint16, logonType uint32, provider uint32, token *windows.Token) (err error) = advapi32.LogonUserW?

// https://learn.microsoft.com/windows/win32/api/securitybaseapi/nf-securitybaseapi-impersonateloggedonuser
//sys	impersonateLoggedOnUser(token windows.Token) (err error) = advapi32.ImpersonateLoggedOnUser?

// LogonToServer connects to the IPC$ of the server from a logon session that has the
// credentials for the network only (LOGON32_LOGON_NEW_CREDENTIALS), and disconnects.
// Windows keeps SMB sessions by logon session, so those of the node stay as they are.
// IPC$ is no file share and has no global mapping, whose credentials Windows would
// use instead.
//
// It has not run on Windows.
func (a *API) LogonToServer(server string, c win32.Credentials) error {
	remote, err := wide(`\\` + server + `\IPC$`)
	if err != nil {
		return err
	}
	if c.User == "" {
		return connect(remote, win32.USE_NOFORCE)
	}
	token, err := networkLogon(c)
	if err != nil {
		return err
	}
	defer token.Close()
	done := make(chan error, 1)
	go func() {
		// The goroutine ends without unlocking its thread, so the thread ends too, and
		// no other goroutine ever runs with this token.
		runtime.LockOSThread()
		if err := impersonateLoggedOnUser(token); err != nil {
			done <- errorOf(err)
			return
		}
		done <- connect(remote, win32.USE_LOTS_OF_FORCE)
	}()
	return <-done
}

// networkLogon returns the token of a new logon session. Windows does not check the
// credentials here.
func networkLogon(c win32.Credentials) (token windows.Token, err error) {
	text := c.Password.Reveal()
	if strings.ContainsRune(text, 0) {
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	user, err := wide(c.User)
	if err != nil {
		return 0, err
	}
	var domain *uint16 // NULL for user@domain, as the function's page requires
	if c.Domain != "" || !strings.Contains(c.User, "@") {
		if domain, err = wide(c.Domain); err != nil {
			return 0, err
		}
	}
	password := append(win32.UTF16(text), 0)
	defer clear(password)
	err = logonUser(user, domain, unsafe.SliceData(password), logonNewCredentials, logonProviderWinNT50, &token)
	return token, errorOf(err)
}

// connect connects to a resource with the credentials of the thread's logon session,
// and disconnects.
func connect(remote *uint16, force uint32) error {
	info := &useInfo3{useInfo2: useInfo2{remote: remote, asgType: useIPC}}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(remote)
	pin.Pin(info)
	if err := errors.Join(found(procNetUseAdd), found(procNetUseDel)); err != nil {
		return err
	}
	var parameter uint32
	if err := netStatus(netUseAdd(nil, 2, info, &parameter)); err != nil {
		return err
	}
	// The logon session ends with its token, and its connections with it.
	_ = netUseDel(nil, remote, force)
	return nil
}
