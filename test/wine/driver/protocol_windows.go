package driver

import (
	"encoding/binary"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The protocol of forward.h, in Go.

// Control codes of `\\.\CSIProxyNode`.
const (
	codeStart = 0x80002000 + 4*iota
	codeServe
	codeReply
	codeStop
	codeAdd
	codeRemove
	codeCall
)

// Operations of a request.
const (
	opCreate = 1 + iota
	opClose
	opControl
	opRead
	opWrite
	opFlush
	opVolume
	opPoints
	opCall
)

// Calls of the DLLs.
const (
	callReenumerate = 1 + iota
	callInterfaces
	callFormat
	callAddPortal
	callPortals
	callRefreshPortal
	callRemovePortal
	callTargets
	callTargetInformation
	callTargetPortals
	callLogin
	callLogout
	callSessions
	callDevices
	callPersistent
	callRemovePersistent
	callSecret
	callUseAdd
	callUses
	callUseDel
)

// request is a request to the driver.
type request struct {
	id        uint64
	operation uint32
	device    uint32
	handle    uint64
	offset    int64
	code      uint32
	share     uint32
	out       uint32 // size of the output buffer
	in        []byte
}

const (
	requestSize = 48
	replySize   = 16
)

func decodeRequest(b []byte) (request, error) {
	le := binary.LittleEndian
	if len(b) < requestSize || uint64(le.Uint32(b[40:])) != uint64(len(b)-requestSize) {
		return request{}, fmt.Errorf("a request of %d bytes", len(b))
	}
	return request{
		id: le.Uint64(b), operation: le.Uint32(b[8:]), device: le.Uint32(b[12:]), handle: le.Uint64(b[16:]),
		offset: int64(le.Uint64(b[24:])), code: le.Uint32(b[32:]), share: le.Uint32(b[36:]),
		out: le.Uint32(b[44:]), in: b[requestSize:],
	}, nil
}

// reply is the reply to a request.
type reply struct {
	id     uint64
	status win32.NTStatus
	out    []byte
}

func (r reply) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, r.id)
	b = le.AppendUint32(b, uint32(r.status))
	b = le.AppendUint32(b, uint32(len(r.out)))
	return append(b, r.out...)
}

// encodeDevice returns a device to add, with its names.
func encodeDevice(number uint32, names []string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, number)
	for _, name := range append(names, "") {
		for _, u := range win32.UTF16(name) {
			b = binary.LittleEndian.AppendUint16(b, u)
		}
		b = binary.LittleEndian.AppendUint16(b, 0)
	}
	return b
}
