package wire_test

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func TestGetDiskNumberByName(t *testing.T) {
	r := &recorder{fill: func(resp any) {
		resp.(*disk.ListDiskIDsResponse).DiskIDs = map[uint32]*disk.DiskIDs{
			0:  {Page83: ""},
			7:  {Page83: "twice"},
			3:  {Page83: "twice", SerialNumber: "serial"},
			12: {Page83: "Google  persistent-disk-0"},
			13: nil,
		}
	}}
	var method endpoint
	for _, e := range endpoints(t, wire.Groups{Disk: groups(r).Disk}) {
		if e.lookup() {
			method = e
		}
	}
	for _, c := range []struct{ about, name, want string }{
		{"one disk has it", "Google  persistent-disk-0", "12"},
		{"of two disks the lowest number", "twice", "3"},
		{"case matters", "google  persistent-disk-0", ""},
		{"blanks matter", "Google persistent-disk-0", ""},
		{"a serial number is not an identifier", "serial", ""},
		{"empty name matches no disk", "", ""},
	} {
		t.Run(c.about, func(t *testing.T) {
			out, err := method.ask(t, &v1alpha1.GetDiskNumberByNameRequest{DiskName: c.name})
			if c.want == "" {
				if want := "could not find disk with Page83 ID " + c.name + ": not found"; err == nil || err.Error() != want {
					t.Errorf("%q: error %v, want %q", c.name, err, want)
				}
				if !errors.Is(err, hosterr.ErrNotFound) {
					t.Errorf("%q: error %v is not ErrNotFound", c.name, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Interface().(*v1alpha1.GetDiskNumberByNameResponse).DiskNumber; got != c.want {
				t.Errorf("%q is disk %s, want %s", c.name, got, c.want)
			}
		})
	}
}
