package apiserver

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// What one pipe takes on. Every pipe has limits of its own, so a flood of one is
// nothing to the others; docs/reference.md tells them to the administrator.
const (
	// maxRunning is how many calls of the API run at once, those included whose
	// callers have gone while Windows works on. Each may hold a thread.
	maxRunning = 32

	// maxWaiting is how many calls wait for their turn; the next one is refused.
	maxWaiting = 256

	// maxArriving is how many calls have begun and not yet sent their request.
	// That takes no time but for clients that mean no good; without a bound they
	// could have this pipe hold half a GiB for them.
	maxArriving = 1024

	// maxConnections is how many clients may be connected.
	maxConnections = 256

	// maxCalls is how many calls one connection may have open. gRPC clients know
	// this number and queue what is above it themselves.
	maxCalls = 32

	// maxStreams is how many streams of the health and reflection services are
	// open: one for each connection. They have no limit of time, and each may
	// hold a message of which a part has come.
	maxStreams = maxConnections

	// maxRequest is the size of a request in bytes. Windows has paths of 32,767
	// characters, which may be 96 KiB, but the published limit of a path in a
	// request is 260 bytes. So the largest that the API has a use for, a share
	// with a path and credentials, has less than 4 KiB. It is also what HTTP/2
	// lets a client send before anybody reads: a smaller limit would save no
	// memory.
	maxRequest = 64 << 10

	// maxAnswer is the size of an answer in bytes: gRPC clients take no larger
	// one unless they are told to.
	maxAnswer = 4 << 20

	// maxHeaders is the size of a call's headers in bytes.
	maxHeaders = 16 << 10

	// bufferSize is that of a connection's read buffer. gRPC's 32 KiB are made
	// for streams of data; a thousand connections that say nothing would hold
	// 64 MiB.
	bufferSize = 4 << 10
)

// How long a client may take for what takes microseconds on one machine. All
// are well above what a busy node needs, and seconds.
const (
	// handshakeLimit is how long a client may take to say that it speaks
	// HTTP/2. Clients of published versions leave a connection behind that never
	// does.
	handshakeLimit = 10 * time.Second

	// receiptLimit is how long the message of a call may take to follow its
	// headers.
	receiptLimit = 10 * time.Second

	// writeLimit is how long a client may take to read a part of an answer.
	writeLimit = 10 * time.Second

	// quietLimit is after how long without a word a client is asked whether it
	// is there, and pongLimit how long it may take to say so. A client that has
	// no calls answers and stays connected, for years if it likes.
	quietLimit = 10 * time.Second
	pongLimit  = 10 * time.Second

	// pingInterval is how often clients may ask whether the server lives. gRPC
	// in Go asks each ten seconds at most; were that the limit, a client would
	// be disconnected for being a moment early, three times in its life.
	pingInterval = time.Second
)

// limits are the limits that gRPC keeps.
func limits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeLimit),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quietLimit, Timeout: pongLimit}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxSendMsgSize(maxAnswer),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
		// A window that grows with the connection's speed would let a client
		// fill 16 MiB.
		grpc.StaticStreamWindowSize(maxRequest),
		grpc.StaticConnWindowSize(maxCalls * maxRequest),
	}
}
