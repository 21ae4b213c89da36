package apiserver_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver"
)

// Close must return even if clients connect and disconnect at the same time.
func TestCloseWhileClientsConnect(t *testing.T) {
	for i := range 300 {
		path := pipe.Path(fmt.Sprintf("csi-proxy-close-%d-%d", os.Getpid(), i))
		l, err := apiserver.ListenAt(path)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		})
		connected := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				for first := true; ; first = false {
					c, err := pipe.Dial(t.Context(), path)
					if err != nil {
						return
					}
					c.Close()
					if first {
						select {
						case connected <- struct{}{}:
						case <-t.Context().Done():
						}
					}
				}
			})
		}
		<-connected
		<-connected
		closed := make(chan error, 1)
		go func() { closed <- l.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Fatalf("round %d: Close: %v", i, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("round %d: Close does not return", i)
		}
		wg.Wait()
	}
}
