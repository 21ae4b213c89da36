package limit

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Limits of one pipe. Every pipe has its own, so a flood on one does not affect
// the others. docs/run/reference.md documents them for administrators.
const (
	// maxRunning is the number of calls of the API that run at the same time,
	// including calls whose callers have left while Windows is still working. Each
	// may hold a thread.
	maxRunning = 32

	// fewRunning is the number of running calls up to which a process takes turns with those that
	// run fewer. So a driver that formats a volume for minutes, or two, can still make a call,
	// however many processes with none call without a pause.
	fewRunning = 2

	// Connections is the number of connected clients. Their buffers and goroutines take
	// 64 MiB at most, which a test measures.
	Connections = 2048

	// maxWaiting is the number of calls that have begun and do not run yet: their requests are
	// on their way, or they wait for one of those that run. There are as many as connections, so
	// the only call of a process has a place. Their requests take 128 MiB at most.
	maxWaiting = Connections

	// maxCalls is the number of open calls per connection. gRPC clients are
	// informed of it and queue further calls themselves.
	maxCalls = 64

	// maxRequest is the size of a request in bytes. The API limits a path in a
	// request to 260 bytes, so the largest useful request, a share with a path and
	// credentials, has less than 4 KiB. The limit is larger because HTTP/2 lets a
	// client send 64 KiB before the server reads anything: a smaller limit would
	// not save memory.
	maxRequest = 64 << 10

	// maxAnswer is the size of a response in bytes: the default limit of gRPC
	// clients.
	maxAnswer = 4 << 20

	// maxHeaders is the size of a call's headers in bytes.
	maxHeaders = 16 << 10

	// bufferSize is the size of a connection's read buffer. gRPC's default of
	// 32 KiB is meant for streams of data; with it, a thousand idle connections
	// would hold 64 MiB.
	bufferSize = 4 << 10

	// streamWorkers is how many goroutines of a pipe take calls one after another. A new
	// goroutine for each call would grow its stack each time, a seventh of the time that
	// bare gRPC takes for a call; if more calls run at once, they get new ones. Those of an
	// unused pipe take 40 KiB in total.
	streamWorkers = 16
)

// Time limits for clients. On one machine all of these steps take microseconds;
// the limits leave plenty of room for a busy node.
const (
	// handshakeLimit is how long a client may take for the HTTP/2 handshake.
	// Published clients leave one connection open on which they never start it.
	handshakeLimit = 10 * time.Second

	// ReceiptLimit is how long a call may take to send its request after its
	// headers.
	ReceiptLimit = 10 * time.Second

	// writeLimit is how long a client may take to read a part of a response, and writeSlack
	// is by how much that time may be shorter.
	writeLimit = 10 * time.Second
	writeSlack = 500 * time.Millisecond

	// quietLimit is the idle time after which the server pings a client, and
	// pongLimit the time that the client gets to reply. A client without calls
	// that replies stays connected indefinitely.
	quietLimit = 10 * time.Second
	pongLimit  = 10 * time.Second

	// pingInterval is the minimum interval between pings from a client. gRPC for
	// Go pings every ten seconds at most. A limit of ten seconds would disconnect
	// clients whose pings arrive slightly early three times.
	pingInterval = time.Second
)

// Options returns the limits that gRPC enforces.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeLimit),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quietLimit, Timeout: pongLimit}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxSendMsgSize(maxAnswer),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
		// A dynamic window would grow with the connection's speed, up to 16 MiB.
		grpc.StaticStreamWindowSize(maxRequest),
		grpc.StaticConnWindowSize(maxRunning * maxRequest),
	}
}
