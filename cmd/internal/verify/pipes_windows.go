package verify

import (
	"crypto/rand"
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// clientRights are those that csi-proxy gives to administrators, and no others.
const clientRights = "D:P(A;;0x12019b;;;BA)"

// clientPipe makes a pipe with a security descriptor. add adds an instance to it.
func clientPipe(p *place, descriptor string) (path string, server windows.Handle, add func() (windows.Handle, error)) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	p.need(err)
	if user.User.Sid.IsWellKnown(windows.WinLocalSystemSid) {
		p.Skip("run it as an administrator: LocalSystem is not limited to these rights")
	}
	sd, err := windows.SecurityDescriptorFromString(descriptor)
	p.need(err)
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	path = `\\.\pipe\csi-proxy-verify-` + rand.Text()
	instance := func(flags uint32) (windows.Handle, error) {
		return windows.CreateNamedPipe(windows.StringToUTF16Ptr(path), windows.PIPE_ACCESS_DUPLEX|flags,
			windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, windows.PIPE_UNLIMITED_INSTANCES, 4096, 4096, 0, attributes)
	}
	server, err = instance(windows.FILE_FLAG_FIRST_PIPE_INSTANCE)
	p.need(err)
	p.Cleanup(func() { windows.CloseHandle(server) })
	return path, server, func() (windows.Handle, error) { return instance(0) }
}

// rightsOfClient connects with the function that the client of this project uses, which
// asks for GENERIC_READ and GENERIC_WRITE, as those of the published clients do.
func rightsOfClient(p *place) string {
	path, server, _ := clientPipe(p, clientRights)
	c, err := pipe.Dial(p.Context(), path)
	if err != nil {
		return "no: " + err.Error()
	}
	defer c.Close()
	if _, err := c.Write([]byte{1}); err != nil {
		return "it connects, and cannot write: " + err.Error()
	}
	var n uint32
	p.need(windows.ReadFile(server, make([]byte, 1), &n, nil))
	return "yes"
}

func addedInstance(p *place) string {
	_, _, add := clientPipe(p, clientRights)
	h, err := add()
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return "no"
	}
	if err != nil {
		return "no: " + err.Error()
	}
	p.need(windows.CloseHandle(h))
	return "yes"
}

func ownSecondInstance(p *place) string {
	path := `\\.\pipe\csi-proxy-verify-` + rand.Text()
	l, err := pipes.ListenAt(path)
	p.need(err)
	defer l.Close()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for _, which := range []string{"first", "second", "third"} {
		c, err := pipe.Dial(p.Context(), path)
		if err != nil {
			return "no: the " + which + " client: " + err.Error()
		}
		c.Close()
	}
	return "yes"
}
