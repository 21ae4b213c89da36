package native

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// WithPrivilege implements [win32.Privileges]. It enables the privilege in a copy of the
// process's token that only this thread uses, so other threads do not get it.
// https://learn.microsoft.com/windows/win32/api/securitybaseapi/nf-securitybaseapi-impersonateself
func (a *API) WithPrivilege(privilege string, f func(win32.API) error) error {
	runtime.LockOSThread()
	if windows.ImpersonateSelf(windows.SecurityImpersonation) != nil {
		runtime.UnlockOSThread()
		return f(a)
	}
	defer func() {
		// Nothing else may run on a thread that keeps the token: it stays locked, and ends
		// with its goroutine, which gets no more work after a panic.
		if err := windows.RevertToSelf(); err != nil {
			panic(fmt.Errorf("the thread keeps the privilege %s: RevertToSelf: %w", privilege, err))
		}
		runtime.UnlockOSThread()
	}()
	enable(privilege) // where this fails, the call that needs the privilege fails and says so
	return f(a)
}

// enable enables a privilege in the token of the current thread.
// https://learn.microsoft.com/windows/win32/api/securitybaseapi/nf-securitybaseapi-adjusttokenprivileges
func enable(privilege string) {
	name, err := wide(privilege)
	if err != nil {
		return
	}
	var token windows.Token
	if windows.OpenThreadToken(windows.CurrentThread(), windows.TOKEN_QUERY|windows.TOKEN_ADJUST_PRIVILEGES, true, &token) != nil {
		return
	}
	defer token.Close()
	p := windows.Tokenprivileges{PrivilegeCount: 1}
	if windows.LookupPrivilegeValue(nil, name, &p.Privileges[0].Luid) != nil {
		return
	}
	p.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
	_ = windows.AdjustTokenPrivileges(token, false, &p, uint32(unsafe.Sizeof(p)), nil, nil)
}
