package emulated

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32"

// WithPrivilege implements [win32.Privileges]. The account holds every privilege, and none is
// enabled otherwise.
//
// Source: document, AdjustTokenPrivileges.
func (n *Node) WithPrivilege(privilege string, f func(win32.API) error) error {
	if err := n.do(func(*tx) error { return nil }); err != nil {
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
	err = p.do(func(t *tx) error {
		t.privilege = p.privilege
		size, err = p.Node.deviceIoControl(t, h, code, in, out)
		return err
	})
	return size, err
}

func (p privileged) Reenumerate() error {
	return p.do(func(t *tx) error {
		t.privilege = p.privilege
		return p.reenumerate(t)
	})
}
