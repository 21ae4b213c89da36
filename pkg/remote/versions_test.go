package remote_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// lacking are the methods of the Interfaces that versions do not have, as the
// published API says.
var lacking = map[string][]string{
	"disk/v1alpha1":       {"GetDiskState", "GetDiskStats", "ListDiskIDs", "SetDiskState"},
	"disk/v1beta1":        {"GetDiskState", "SetDiskState"},
	"filesystem/v1alpha1": {"RmdirContents"},
	"filesystem/v1beta1":  {"RmdirContents"},
	"filesystem/v1beta2":  {"RmdirContents"},
	"filesystem/v1":       {"RmdirContents"},
	"iscsi/v1alpha1":      {"SetMutualChapSecret"},
	"volume/v1alpha1":     {"GetClosestVolumeIDFromTargetPath", "GetDiskNumberFromVolumeID", "GetVolumeIDFromTargetPath", "GetVolumeStats", "WriteVolumeCache"},
	"volume/v1beta1":      {"GetClosestVolumeIDFromTargetPath", "WriteVolumeCache"},
	"volume/v1beta2":      {"GetClosestVolumeIDFromTargetPath"},
	"volume/v1beta3":      {"GetClosestVolumeIDFromTargetPath"},
	"volume/v1":           {"GetClosestVolumeIDFromTargetPath"},
}

// connectGroup makes the client of one group. Options that name a version are
// wrong for groups that do not have it.
func connectGroup(ctx context.Context, group string, opts ...remote.Option) (found groupOf, err error) {
	all, _ := tryAll(ctx, opts...)
	err = errors.New("no client of group " + group)
	for _, g := range all {
		switch {
		case reflect.ValueOf(g.client).IsNil():
		case g.name == group:
			found, err = g, nil
		default:
			g.client.Close()
		}
	}
	return found, err
}

// TestEveryVersion speaks each version that is served: a method of it carries
// every field, and another one is refused by the names of version and method
// before anything is asked.
func TestEveryVersion(t *testing.T) {
	n := start(t)
	all := wire.Services(n.groups())
	used := map[string]bool{}
	for _, svc := range all {
		g, err := connectGroup(t.Context(), svc.Group, n.option(), remote.WithVersions(svc.Version))
		if err != nil {
			t.Errorf("%s: %v", svc, err)
			continue
		}
		if v := g.client.(interface{ Version() apiversion.Version }).Version(); v != svc.Version {
			t.Errorf("%s: %s is spoken", svc, v)
		}
		old := svc.Group == "volume" && slices.Contains([]string{"v1alpha1", "v1beta1", "v1beta2"}, svc.Version.String())
		for _, m := range methods([]groupOf{g}) {
			if slices.Contains(lacking[svc.String()], m.Name) {
				used[svc.String()] = true
				n.set(nil, nil, nil)
				_, err := m.call(t.Context(), m.client, m.request())
				if !errors.Is(err, hosterr.ErrUnimplemented) || !errors.Is(err, errors.ErrUnsupported) || hosterr.HintOf(err) == "" || !strings.HasPrefix(err.Error(), svc.String()+" "+m.Name+": ") {
					t.Errorf("%s %s: error %v, want one that is unsupported, and names both", svc, m.Name, err)
				}
				if called, _ := n.last(); called != "" {
					t.Errorf("%s %s: the service was asked %s", svc, m.Name, called)
				}
				continue
			}
			n.travels(t, m, svc.String()+" "+m.Name, func(request any) {
				if l, ok := request.(*volume.ListVolumesOnDiskRequest); ok && old {
					l.PartitionNumber = 0
				}
			})
		}
		if old {
			_, err := g.client.(volume.Interface).ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{PartitionNumber: 2})
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), svc.String()+" ListVolumesOnDisk of partition 2") {
				t.Errorf("%s: volumes of one partition: error %v, want one that is unsupported", svc, err)
			}
		}
		g.client.Close()
	}
	if len(used) != len(lacking) || len(all) != 23 {
		t.Errorf("%d versions, of which %v lack methods; want 23, and %v", len(all), used, lacking)
	}
}

func TestNewestVersionIsSpoken(t *testing.T) {
	n := start(t)
	want := map[string]string{"disk": "v1", "filesystem": "v2alpha1", "iscsi": "v1alpha2", "smb": "v1", "system": "v1alpha1", "volume": "v2alpha1"}
	for _, g := range connectAll(t, n.option()) {
		if v := g.client.(interface{ Version() apiversion.Version }).Version().String(); v != want[g.name] {
			t.Errorf("%s: %s is spoken, want %s", g.name, v, want[g.name])
		}
	}
}

func TestVersionsThatCannotBeSpoken(t *testing.T) {
	n := start(t)
	v9 := apiversion.NewVersionOrPanic("v9")
	_, err := remote.NewDisk(t.Context(), n.option(), remote.WithVersions(v9))
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), `disk: version "v9" cannot be spoken, want one of [v1 v1beta3`) {
		t.Errorf("error %v, want one that is invalid and lists the versions", err)
	}
	if d, err := remote.NewDisk(t.Context(), n.option(), remote.WithVersions()); err != nil || d.Version().String() != "v1" {
		t.Errorf("WithVersions of none: %v, want all", err)
	} else {
		d.Close()
	}
}

// TestConnectionThatWasNegotiated is spoken in its version.
func TestConnectionThatWasNegotiated(t *testing.T) {
	n := start(t)
	v1beta2 := apiversion.NewVersionOrPanic("v1beta2")
	conn, err := negotiate.Connect(t.Context(), "disk", []apiversion.Version{v1beta2}, negotiate.WithPipePath(n.pipePath))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d, err := remote.NewDisk(t.Context(), remote.WithConn(conn))
	if err != nil || d.Version() != v1beta2 {
		t.Fatalf("NewDisk: %v, %v, want version v1beta2", d, err)
	}
	if _, err := d.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Error(err)
	}
	_, err = remote.NewDisk(t.Context(), remote.WithConn(conn), remote.WithVersions(apiversion.NewVersionOrPanic("v1")))
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), "speaks v1beta2, want one of [v1]") {
		t.Errorf("error %v, want one that is invalid", err)
	}
}

// TestConstructorWaits for a proxy as long as its context says.
func TestConstructorWaits(t *testing.T) {
	t.Setenv(pipe.DirVariable, t.TempDir())
	nobody := remote.WithPipePath(func(group string, v apiversion.Version) string {
		return pipe.Path("nobody-serves-" + group + "-" + v.String())
	})
	synctest.Test(t, func(t *testing.T) {
		const patience = time.Minute
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := remote.NewDisk(ctx, nobody)
		if !errors.Is(err, negotiate.ErrNotRunning) || !errors.Is(err, hosterr.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != patience {
			t.Errorf("error %v after %v, want one that is not running after the deadline", err, time.Since(began))
		}
	})
}
