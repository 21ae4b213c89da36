package published

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client"
	diskv1beta3 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta3"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

// TestFallBack: to a published driver, a daemon that does not serve a version is an older
// one. It asks for the versions that it speaks, newest first, and takes the first whose pipe
// exists.
func TestFallBack(t *testing.T) {
	d := script.Start(t, "-enable-api=disk/v1beta3,disk/v1beta1,volume")
	open := func(api string) error {
		if newClient, ok := clients[api]; ok {
			_, err := newClient()
			return err
		}
		group, version, _ := strings.Cut(api, "/")
		c, err := dialPipe(t.Context(), client.PipePath(group, apiversion.NewVersionOrPanic(version)), d.Socket)
		if err == nil {
			c.Close()
		}
		return err
	}
	for _, api := range []string{"disk/v1", "disk/v1beta2", "smb/v1"} {
		err := open(api)
		t.Logf("%s: %v", api, err)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want fs.ErrNotExist", api, err)
		}
	}
	for _, api := range []string{"disk/v1beta3", "disk/v1beta1", "volume/v1"} {
		if err := open(api); err != nil {
			t.Errorf("%s: %v", api, err)
		}
	}
	conn, err := dial("disk", "v1beta3", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := diskv1beta3.NewDiskClient(conn).Rescan(t.Context(), &diskv1beta3.RescanRequest{}); err != nil {
		t.Error(err)
	}
}
