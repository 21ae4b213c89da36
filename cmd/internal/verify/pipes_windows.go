package verify

import (
	"crypto/rand"
	"errors"

	"golang.org/x/sys/windows"
)

// pipeWithOldClient closes a pipe's only server end while a client is connected, and
// makes it again. FILE_FLAG_FIRST_PIPE_INSTANCE makes that fail as long as the pipe
// exists.
func pipeWithOldClient(p *place) string {
	name, err := windows.UTF16PtrFromString(`\\.\pipe\csi-proxy-verify-` + rand.Text())
	p.need(err)
	server := func() (windows.Handle, error) {
		return windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
			windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, windows.PIPE_UNLIMITED_INSTANCES, 4096, 4096, 0, nil)
	}
	first, err := server()
	p.need(err)
	client, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		p.Fatal(errors.Join(err, windows.CloseHandle(first)))
	}
	defer windows.CloseHandle(client)
	p.need(windows.CloseHandle(first))
	second, err := server()
	if err != nil {
		return "no: " + err.Error()
	}
	p.need(windows.CloseHandle(second))
	return "yes"
}
