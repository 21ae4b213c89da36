package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

const (
	hostileClients = 1500 // connections of each kind
	honestCallers  = 5
	asHostile      = "CSI_PROXY_TEST_HOSTILE" // the kind of client that the test's program is
	hostileSocket  = "CSI_PROXY_TEST_SOCKET"
)

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

func TestMain(m *testing.M) {
	if kind := os.Getenv(asHostile); kind != "" {
		open := attack(kind, os.Getenv(hostileSocket))
		fmt.Println("done")
		io.Copy(io.Discard, os.Stdin) // the connections stay open until the test ends
		runtime.KeepAlive(open)
		return
	}
	os.Exit(m.Run())
}

// attack opens connections and leaves them open.
func attack(kind, socket string) (open []net.Conn) {
	for range hostileClients {
		c, err := net.Dial("unix", socket)
		if err != nil {
			continue // the server may be slow to accept
		}
		c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		hostile[kind](c)
		open = append(open, c)
	}
	return open
}

// 1,500 connections of a hostile process do not keep new callers out, and do not disconnect
// connected callers. TestConnectionsAreLimited has those of the callers' own process.
func TestHostileClientsHarmOnlyThemselves(t *testing.T) {
	for kind := range hostile {
		t.Run(kind, func(t *testing.T) {
			dir := socketDir(t)
			begin(t, serve.Config{Log: quiet}, wire.Groups{Disk: rescans()})
			socket := filepath.Join(dir, "csi-proxy-disk-v1.sock")
			before := honest(t, socket)
			if n := succeed(t, before); n != honestCallers {
				t.Fatalf("%d of %d calls succeed before", n, honestCallers)
			}
			during := besideProcess(t, kind, socket)
			first := succeed(t, before)
			last := succeed(t, honest(t, socket))
			if first != honestCallers || last != honestCallers {
				t.Errorf("of %d callers, %d that were connected before and %d new ones succeed", honestCallers, first, last)
			}
			t.Attr("measured", fmt.Sprintf("%d clients, %s: %d of %d connected callers and %d of %d new ones succeed, and all %d calls meanwhile",
				hostileClients, kind, first, honestCallers, last, honestCallers, during))
		})
	}
}

// besideProcess runs the attack in a separate process. Meanwhile it makes calls, and
// returns their number.
func besideProcess(t *testing.T, kind, socket string) (calls int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asHostile+"="+kind, hostileSocket+"="+socket)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	done := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		done <- line
	}()
	connected := honest(t, socket)
	for {
		select {
		case line := <-done:
			if line != "done\n" {
				t.Fatalf("the hostile process ended with %q", line)
			}
			return calls
		default:
		}
		fresh := honest(t, socket)
		if n := succeed(t, connected) + succeed(t, fresh); n != 2*honestCallers {
			t.Fatalf("%d of %d calls succeed meanwhile", n, 2*honestCallers)
		}
		calls += 2 * honestCallers
		for _, c := range fresh { // honest callers must not end up with more connections than the others
			c.Close()
		}
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
