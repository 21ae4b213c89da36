package remote_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

// oldNames maps methods to their names in older versions of the published API.
var oldNames = map[string]string{
	"disk.GetDiskState":                "GetAttachState",
	"disk.GetDiskStats":                "DiskStats",
	"disk.SetDiskState":                "SetAttachState",
	"filesystem.CreateSymlink":         "LinkPath",
	"filesystem.IsSymlink":             "IsMountPoint",
	"volume.GetDiskNumberFromVolumeID": "GetVolumeDiskNumber",
	"volume.GetVolumeIDFromTargetPath": "GetVolumeIDFromMount",
	"volume.GetVolumeStats":            "VolumeStats",
	"volume.UnmountVolume":             "DismountVolume",
}

// nameIn returns the name of a method in a version, or "" if the version lacks it.
func nameIn(svc wire.Service, m method) string {
	for _, desc := range svc.Desc.Methods {
		if strings.EqualFold(desc.MethodName, m.Name) || desc.MethodName == oldNames[m.String()] {
			return desc.MethodName
		}
	}
	return ""
}

// newest returns the newest served version of a group.
func newest(t *testing.T, group string) (found wire.Service) {
	t.Helper()
	for _, svc := range wire.Services((&recorder{}).groups()) {
		if svc.Group == group && (found.Desc == nil || svc.Version.Compare(found.Version) == apiversion.Greater) {
			found = svc
		}
	}
	if found.Desc == nil {
		t.Fatalf("no version of %s is served", group)
	}
	return found
}

// connectGroup connects a client to one group. With an option that names a version,
// groups without this version cannot be connected.
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

// TestEveryVersion connects with each served version. A method of the version carries
// every field that the version has. For any other method, and for a field of the request
// that is absent in the version, the client fails without a request, and the error names
// the version, the method and the field.
func TestEveryVersion(t *testing.T) {
	n := start(t)
	all := wire.Services(n.groups())
	used := map[string]bool{}
	lacking, absent := 0, 0
	for _, svc := range all {
		g, err := connectGroup(t.Context(), svc.Group, n.option(), remote.WithVersions(svc.Version))
		if err != nil {
			t.Errorf("%s: %v", svc, err)
			continue
		}
		if v := g.client.(interface{ Version() apiversion.Version }).Version(); v != svc.Version {
			t.Errorf("%s: the client uses version %s", svc, v)
		}
		for _, m := range methods([]groupOf{g}) {
			name := nameIn(svc, m)
			used[name] = true
			if name == "" {
				if lacking++; svc.String() == newest(t, svc.Group).String() {
					t.Errorf("%s, the newest version, has no %s", svc, m.Name)
				}
				n.set(nil, nil, nil)
				_, err := m.call(t.Context(), m.client, m.request())
				if !errors.Is(err, hosterr.ErrUnimplemented) || !errors.Is(err, errors.ErrUnsupported) || hosterr.HintOf(err) == "" || !strings.HasPrefix(err.Error(), svc.String()+" "+m.Name+": ") {
					t.Errorf("%s %s: error %v, want ErrUnsupported with both names", svc, m.Name, err)
				}
				if called, _ := n.last(); called != "" {
					t.Errorf("%s %s: the client called %s", svc, m.Name, called)
				}
				continue
			}
			request, response, err := wiretest.Leaves(svc, name)
			if err != nil {
				t.Fatal(err)
			}
			n.travels(t, m, svc.String()+" "+m.Name, request, response)
			n.set(nil, hosterr.Wrap("do", "it", hosterr.ErrNotFound), nil)
			if _, err := m.call(t.Context(), m.client, m.request()); !errors.Is(err, hosterr.ErrNotFound) || !strings.HasSuffix(err.Error(), "do it: not found") {
				t.Errorf("%s %s: error %v, want that of the service", svc, m.Name, err)
			}
			absent += n.refusesAbsent(t, svc, m, request)
		}
		g.client.Close()
	}
	if lacking == 0 || absent == 0 {
		t.Errorf("versions lack %d methods and %d fields of requests, want some of both", lacking, absent)
	}
	for m, name := range oldNames {
		if !used[name] {
			t.Errorf("no version has %s under the name %s", m, name)
		}
	}
}

// refusesAbsent sets each field of the request alone that the version does not have, and
// returns their number.
func (n *node) refusesAbsent(t *testing.T, svc wire.Service, m method, has map[string]bool) (count int) {
	t.Helper()
	for i := range m.request().Elem().NumField() {
		in, filled := m.request(), m.request()
		fill(filled.Interface(), -1, false)
		if f := filled.Elem().Field(i); f.Kind() == reflect.Bool {
			f.SetBool(true)
		}
		in.Elem().Field(i).Set(filled.Elem().Field(i))
		filled.Elem().Set(in.Elem())
		field := in.Elem().Type().Field(i).Name
		if len(wiretest.Clear(filled.Interface(), has)) == 0 {
			continue // the version has it
		}
		count++
		n.set(nil, nil, nil)
		_, err := m.call(t.Context(), m.client, in)
		if !errors.Is(err, hosterr.ErrUnimplemented) || !errors.Is(err, errors.ErrUnsupported) || hosterr.HintOf(err) == "" ||
			!strings.HasPrefix(err.Error(), svc.String()+" "+m.Name+": ") || !strings.Contains(err.Error(), "does not have the field "+field+" of the request") {
			t.Errorf("%s %s with %s: error %v, want ErrUnsupported with all names", svc, m.Name, field, err)
		}
		if called, _ := n.last(); called != "" {
			t.Errorf("%s %s with %s: the client called %s", svc, m.Name, field, called)
		}
	}
	return count
}

func TestUnknownVersions(t *testing.T) {
	n := start(t)
	v99 := apiversion.NewVersionOrPanic("v99")
	_, err := remote.NewDisk(t.Context(), n.option(), remote.WithVersions(v99))
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), `disk: unknown version "v99", want one of [`) || !strings.Contains(err.Error(), "v1 v1beta3") {
		t.Errorf("error %v, want ErrInvalid with a list of the versions", err)
	}
	if d, err := remote.NewDisk(t.Context(), n.option(), remote.WithVersions()); err != nil || d.Version() != newest(t, "disk").Version {
		t.Errorf("WithVersions without versions: %v, want the newest", err)
	} else {
		d.Close()
	}
}
