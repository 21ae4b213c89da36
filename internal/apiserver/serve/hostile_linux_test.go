package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

const honestCallers = 5

// hostile are the kinds of hostile clients. Each does its worst on a new connection.
var hostile = map[string]func(net.Conn){
	"silent": func(net.Conn) {},
	"idle": func(c net.Conn) { // a call each, and then nothing
		h := greet(c)
		h.call(1, true)
	},
	"half requests": func(c net.Conn) {
		h := greet(c)
		for stream := range uint32(8) {
			h.call(2*stream+1, false)
		}
	},
	"unread responses": func(c net.Conn) {
		io.WriteString(c, http2.ClientPreface)
		h := rawClient{c, http2.NewFramer(c, nil)}
		h.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		for stream := range uint32(8) {
			h.call(2*stream+1, true)
		}
	},
	"half frames": func(c net.Conn) {
		h := greet(c)
		h.Write([]byte{0, 0, 100, 1, 4})
	},
}

// greet begins an HTTP/2 connection.
func greet(c net.Conn) rawClient {
	h := sendPreface(c)
	h.frames.WriteSettings()
	return h
}

// call sends a call of Rescan, or all of it but the last byte.
func (h rawClient) call(stream uint32, whole bool) {
	h.headers(stream)
	if whole {
		h.frames.WriteData(stream, true, make([]byte, 5))
	} else {
		h.frames.WriteData(stream, false, make([]byte, 4))
	}
}

// strangers is a listener whose connections do not say which process made them, so each counts
// as a process of its own.
type strangers struct{ net.Listener }

func (l strangers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return stranger{c}, nil
}

type stranger struct{ net.Conn }

// Many processes, each with a connection, do not keep drivers out. Each connects again if it is
// disconnected. Of 20 drivers that were connected, every call succeeds, and of 20 new ones 19.
func TestHostileClientsHarmOnlyThemselves(t *testing.T) {
	// Those that make eight calls have more than wait at once.
	for kind, most := range map[string]int{"calling": 300, "half requests": 300, "unread responses": 300, "silent": 1500, "idle": 1500, "half frames": 1500} {
		t.Run(kind, func(t *testing.T) {
			dir := socketDir(t)
			begin(t, serve.Config{Log: quiet, Listen: func(name string) (net.Listener, error) {
				l, err := pipes.Listen(name)
				return strangers{l}, err
			}}, wire.Groups{Disk: rescans()})
			socket := filepath.Join(dir, "csi-proxy-disk-v1.sock")
			connected := slices.Concat(honest(t, socket), honest(t, socket), honest(t, socket), honest(t, socket))
			if n := succeed(t, connected); n != 20 {
				t.Fatalf("%d of 20 calls succeed before", n)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var processes, begun sync.WaitGroup
			defer processes.Wait()
			defer cancel()
			for range most {
				begun.Add(1)
				processes.Go(func() { beHostile(ctx, kind, socket, sync.OnceFunc(begun.Done)) })
			}
			begun.Wait()
			kept := succeed(t, connected) + succeed(t, connected) + succeed(t, connected)
			fresh := 0
			for range 4 {
				fresh += succeed(t, honest(t, socket))
			}
			if kept < 60 || fresh < 19 {
				t.Errorf("%d of 60 calls of connected drivers succeed, and %d of 20 of new ones", kept, fresh)
			}
			t.Attr("measured", fmt.Sprintf("%d processes, %s: %d of 60 calls of connected drivers succeed, and %d of 20 of new ones", most, kind, kept, fresh))
		})
	}
}

// beHostile connects and does its worst until ctx ends, again and again if it is disconnected.
func beHostile(ctx context.Context, kind, socket string, begun func()) {
	defer begun()
	for ctx.Err() == nil {
		c, err := net.Dial("unix", socket)
		if err != nil {
			continue // the server is slow to accept
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		if kind == "calling" {
			callAlways(c, begun)
		} else {
			hostile[kind](c)
			begun()
			io.Copy(io.Discard, c)
		}
		stop()
		c.Close()
	}
}

// callAlways makes one call after another until the connection ends.
func callAlways(c net.Conn, begun func()) {
	io.WriteString(c, http2.ClientPreface)
	h := rawClient{c, http2.NewFramer(c, c)}
	h.frames.WriteSettings()
	for stream := uint32(1); ; stream += 2 {
		h.call(stream, true)
		for ended := false; !ended; {
			frame, err := h.frames.ReadFrame()
			if err != nil {
				return
			}
			if p, ok := frame.(*http2.PingFrame); ok {
				h.frames.WritePing(true, p.Data)
			}
			headers, ok := frame.(*http2.HeadersFrame)
			ended = ok && headers.StreamEnded()
		}
		begun()
	}
}

// honest returns clients that connect with their first call.
func honest(t *testing.T, socket string) (clients []*grpc.ClientConn) {
	for range honestCallers {
		c, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// succeed makes a call with each client and returns how many succeed. Like drivers,
// it repeats a call once if its connection was closed, and a few times if its time was up, as
// happens on a slow machine.
func succeed(t *testing.T, clients []*grpc.ClientConn) (n int) {
	for _, c := range clients {
		var err error
		for try := range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err = diskv1.NewDiskClient(c).Rescan(ctx, &diskv1.RescanRequest{})
			cancel()
			if code := status.Code(err); code != codes.DeadlineExceeded && (code != codes.Unavailable || try > 0) {
				break
			}
		}
		if err == nil {
			n++
		} else {
			t.Log(err)
		}
	}
	return n
}
