package pipes_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Close must return even if clients connect and disconnect at the same time.
func TestCloseWhileClientsConnect(t *testing.T) {
	for i := range 300 {
		path := pipe.Path(fmt.Sprintf("csi-proxy-close-%d-%d", os.Getpid(), i))
		l, err := pipes.ListenAt(path)
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

// rightsOf returns the access control list of a pipe as a connected client reads it. It opens
// no other connection: that would fail while the server adds an instance.
func rightsOf(t *testing.T, client net.Conn) string {
	t.Helper()
	h := windows.Handle(client.(interface{ Fd() uintptr }).Fd())
	sd, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	return sd.String()
}

func wine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// Administrators of containers may call, but must not serve the calls of other drivers.
func TestAdministratorsCannotAddInstances(t *testing.T) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	own := user.User.Sid.String()
	for _, test := range []struct {
		name   string
		listen func(name string) (net.Listener, error)
		want   []string
		no     string
	}{
		{"default", pipes.Listen, []string{"D:P", "0x12019b;;;BA)", ";;;SY)", "RC;;;OW)"}, "FA;;;BA"},
		{"wider", listenWith(t, "D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;"+own+")"), []string{"D:P", ";;;BA)", ";;;SY)", "RC;;;OW)"}, "0x12019b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := "csi-proxy-rights-" + rand.Text()
			l, err := test.listen(name)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accepted := make(chan net.Conn, 8)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					accepted <- c
				}
			}()
			// Several clients at once need several instances, which this process adds.
			var client net.Conn
			for range 3 {
				if client, err = pipe.Dial(t.Context(), pipe.Path(name)); err != nil {
					t.Fatal(err)
				}
				defer client.Close()
			}
			for range 2 { // under Wine, the first client meets the instance that go-winio does not serve
				c := <-accepted
				defer c.Close()
			}
			rights := rightsOf(t, client)
			t.Logf("rights: %s", rights)
			for _, part := range test.want {
				if !strings.Contains(rights, part) {
					t.Errorf("rights %q have no %q", rights, part)
				}
			}
			if strings.Contains(rights, test.no) {
				t.Errorf("rights %q have %q", rights, test.no)
			}
		})
	}
}

func listenWith(t *testing.T, sddl string) func(string) (net.Listener, error) {
	t.Helper()
	listen, err := pipes.ListenWith(sddl)
	if err != nil {
		t.Fatal(err)
	}
	return listen
}

func TestListenWithRefuses(t *testing.T) {
	descriptors := map[string]string{
		"no descriptor":           "administrators",
		"no access control list":  "O:SY",
		"everyone may do all":     "D:(A;;GA;;;WD)",
		"users may add instances": "D:P(A;;GA;;;SY)(A;;GRGW;;;S-1-5-32-545)",
	}
	if !wine() { // Wine reads the first as an empty list, and does not check rights when an instance is added
		descriptors["everyone may serve"] = "D:NO_ACCESS_CONTROL"
		descriptors["no right for this process to add an instance"] = "D:P(A;;0x12019b;;;WD)"
	}
	for name, sddl := range descriptors {
		_, err := pipes.ListenWith(sddl)
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), sddl) || !strings.Contains(err.Error(), "D:P(A;;GA;;;SY)(A;;GA;;;BA)") {
			t.Errorf("%s: ListenWith(%q) = %v, want an error with the descriptor and one that works", name, sddl, err)
		}
	}
}
