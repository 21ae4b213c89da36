package wire_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

func TestEnabled(t *testing.T) {
	all := wire.Services(groups(&recorder{}))
	names := func(services []wire.Service) (names []string) {
		for _, s := range services {
			names = append(names, s.String())
		}
		return names
	}
	for _, test := range []struct{ want, got []string }{
		{nil, names(all)},
		{[]string{"smb", "disk/v1"}, []string{"disk/v1", "smb/v1alpha1", "smb/v1beta1", "smb/v1beta2", "smb/v1", "smb/v2alpha1"}},
		{[]string{"disk/v1", "disk/v1"}, []string{"disk/v1"}},
		{[]string{"system/v1alpha1", "system"}, []string{"system/v1alpha1"}},
	} {
		got, err := wire.Enabled(all, test.want)
		if err != nil || !slices.Equal(names(got), test.got) {
			t.Errorf("Enabled(%q) = %q, %v, want %q", test.want, names(got), err, test.got)
		}
	}
	for _, name := range []string{"", "disks", "disk/", "disk/v9", "DISK", "disk/v1/x", "*"} {
		_, err := wire.Enabled(all, []string{"disk", name})
		var e *wire.UnknownAPIError
		if !errors.As(err, &e) || e.Name != name || len(e.Known) != len(all) || !strings.Contains(err.Error(), "disk, filesystem, iscsi") || !strings.Contains(err.Error(), "disk/v1,") {
			t.Errorf("Enabled(%q) = %v, want an error that lists what exists", name, err)
		}
	}
}
