package emulated

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// WithPrivilege implements [win32.Privileges]. The account holds every privilege, and none is
// enabled otherwise.
//
// Source: document, AdjustTokenPrivileges.
func (n *Node) WithPrivilege(privilege string, f func(win32.API) error) error {
	if err := n.Do(func(*kernel.Tx) error { return nil }); err != nil {
		return err
	}
	return f(privileged{n, privilege})
}

// privileged is a node for calls with a privilege. It has those calls that check one.
type privileged struct {
	*Node
	privilege string
}

func (p privileged) DeviceIoControl(h win32.Handle, code uint32, in, out []byte) (size int, err error) {
	err = p.Do(func(t *kernel.Tx) error {
		t.Privilege = p.privilege
		size, err = p.ControlDevice(t, h, code, in, out)
		return err
	})
	return size, err
}

func (p privileged) Reenumerate() error {
	return p.Do(func(t *kernel.Tx) error {
		t.Privilege = p.privilege
		return p.Scan(t)
	})
}
