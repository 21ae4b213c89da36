package negotiate_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/Microsoft/go-winio"

	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
)

func TestAccessDenied(t *testing.T) {
	if syscall.NewLazyDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("Wine does not enforce access rights: run it on Windows")
	}
	p := newProxy(t)
	// The descriptor denies access to everyone.
	l, err := winio.ListenPipe(p.path("disk/v1"), &winio.PipeConfig{SecurityDescriptor: "D:P(D;;GA;;;WD)"})
	if err != nil {
		t.Fatal(err)
	}
	p.answer(l)
	_, err = negotiate.Connect(within(t, time.Minute), "disk", versions("v1"), p.at())
	if !errors.Is(err, negotiate.ErrAccessDenied) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, want ErrAccessDenied", err)
	}
}
