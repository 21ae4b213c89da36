// Command csi-proxy-relay owns named pipes under Wine and passes each connection on to
// package relay on Linux:
//
//	csi-proxy-relay ADDRESS PIPE…
//
// It prints "ready" when all pipes accept connections.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/Microsoft/go-winio"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: csi-proxy-relay ADDRESS PIPE...")
		os.Exit(2)
	}
	address, token := os.Args[1], os.Getenv("CSI_PROXY_RELAY_TOKEN")
	for _, name := range os.Args[2:] {
		path := `\\.\pipe\` + name
		l, err := winio.ListenPipe(path, nil)
		if err != nil {
			fmt.Fprintf(os.Stderr, "csi-proxy-relay: listen on %s: %v\n", path, err)
			os.Exit(1)
		}
		go serve(l, address, token+" "+name+"\n")
		// The first client of a go-winio pipe under Wine gets an instance that is never
		// served, so that client is this one.
		limit := 500 * time.Millisecond
		if c, err := winio.DialPipe(path, &limit); err == nil {
			_ = c.Close()
		}
	}
	fmt.Println("ready")
	select {}
}

func serve(l net.Listener, address, first string) {
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintf(os.Stderr, "csi-proxy-relay: accept: %v\n", err)
			os.Exit(1)
		}
		go pass(c, address, first)
	}
}

func pass(c net.Conn, address, first string) {
	defer c.Close()
	t, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintf(os.Stderr, "csi-proxy-relay: %v\n", err)
		return
	}
	defer t.Close()
	if _, err := io.WriteString(t, first); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(t, c); done <- struct{}{} }()
	go func() { _, _ = io.Copy(c, t); done <- struct{}{} }()
	<-done
}
