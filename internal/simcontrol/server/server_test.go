package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol/server"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

func newServer(t *testing.T, config simnode.Config) *server.Server {
	t.Helper()
	n, err := simnode.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return server.New(n)
}

// text is the JSON of a value.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func description(t *testing.T, v any) *simcontrol.Description {
	t.Helper()
	return &simcontrol.Description{Json: text(t, v)}
}

func show(t *testing.T, s *server.Server) nodespec.State {
	t.Helper()
	out, err := s.Show(t.Context(), &simcontrol.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := nodespec.Decode[nodespec.State]([]byte(out.Json))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// A field that is never set would be zero in every response.
func TestShowFillsInEveryField(t *testing.T) {
	yes := true
	n, err := simnode.Open(simnode.Config{Windows: nodespec.Windows{Attach: "rescan"}, Disks: []simnode.Disk{
		{Content: "system"},
		{Size: 1 << 30, Serial: "S", Identifiers: []simnode.Identifier{{CodeSet: "ascii", Text: "P"}}, ReadOnly: &yes},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := server.New(n)
	ctx := t.Context()
	const staging = `C:\var\lib\kubelet\plugins\smb.example.com\v1`
	for _, err := range []error{
		second(n.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: staging})),
		second(n.SMB().NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{
			RemotePath: `\\files.example.com\data`, LocalPath: staging + `\globalmount`, Username: "csi", Password: "csi",
		})),
		second(s.AddSmbServer(ctx, &simcontrol.SecretDescription{SecretJson: `{"name":"gone"}`})),
		second(s.ChangeSmbServer(ctx, &simcontrol.ChangeSmbServerRequest{Name: "gone", Down: &yes})),
		connectISCSI(ctx, t, n, s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.AttachDisk(ctx, description(t, nodespec.Disk{Size: 1 << 30, ID: "gone"}))
	if err != nil {
		t.Fatal(err)
	}
	gone, err := nodespec.Decode[nodespec.DiskInfo]([]byte(out.Json))
	if err != nil || gone.ID != "gone" || gone.Size != 1<<30 {
		t.Fatalf("attached %+v, %v", gone, err)
	}
	mounted, err := s.AttachDisk(ctx, &simcontrol.Description{Json: `{"size": "1GiB", "sectorSize": 4096, "serial": "W", "identifiers": [{"codeSet": "ascii", "text": "W"}], "id": "w", "content": "gpt"}`})
	for _, err := range []error{
		err,
		second(s.DetachDisk(ctx, &simcontrol.DetachDiskRequest{DiskNumber: gone.Number})),
		second(s.Fail(ctx, description(t, nodespec.Fault{Call: "Format", Code: 1, Path: "p", Skip: 1, Error: "5", Times: 2, Delay: 3e6}))),
	} {
		if err != nil {
			t.Fatal(mounted, err)
		}
	}
	state := show(t, s)
	if strings.Contains(text(t, state), "secret-of") {
		t.Errorf("Show returns a secret: %+v", state)
	}
	filled := map[string]bool{}
	collect(reflect.ValueOf(state), filled)
	for _, v := range []any{nodespec.State{}, nodespec.DiskInfo{}, nodespec.PartitionInfo{}, nodespec.VolumeInfo{}, nodespec.ServiceInfo{}, nodespec.Service{},
		nodespec.ISCSITargetInfo{}, nodespec.SMBServerInfo{}, nodespec.SMBMappingInfo{}, nodespec.Fault{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			name := typ.Name() + "." + typ.Field(i).Name
			switch name {
			case "State.OpenHandles", "Fault.Hits", "Fault.Do", // no call is running, none was made, and what another process does
				"State.Mounts",  // TestShow of package emulated
				"Service.State": // in an answer the name is that of ServiceInfo.Status
				continue
			}
			if !filled[name] {
				t.Errorf("%s is zero in all of %+v", name, state)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// collect notes which fields of v and the values in it are not zero.
func collect(v reflect.Value, filled map[string]bool) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), filled)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				filled[v.Type().Name()+"."+v.Type().Field(i).Name] = true
				collect(v.Field(i), filled)
			}
		}
	}
}

func TestFailRefuses(t *testing.T) {
	s := newServer(t, simnode.Config{})
	for _, c := range []struct{ name, fault, want string }{
		{"no fault", ``, "empty"},
		{"a delay that overflows", `{"call": "Format", "delayMilliseconds": 9223372036854775807}`, "9223372036854775807"},
		{"a delay beyond a day", `{"call": "Format", "delayMilliseconds": 86400001}`, "0 to a day"},
		{"a negative delay", `{"call": "Format", "delayMilliseconds": -1}`, "0 to a day"},
		{"a negative delay that overflows", `{"call": "Format", "delayMilliseconds": -9223372036854775808}`, "-9223372036854775808"},
		{"an unknown call", `{"call": "Frobnicate", "error": "5"}`, "Frobnicate"},
		{"a misspelt field", `{"call": "Format", "eror": "5"}`, `unknown field "eror"`},
	} {
		_, err := s.Fail(t.Context(), &simcontrol.Description{Json: c.fault})
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an invalid argument with %q", c.name, err, c.want)
		}
	}
}

// A field that a description does not have is an error that names it, at any depth.
func TestUnknownFieldsAreNamed(t *testing.T) {
	s := newServer(t, simnode.Config{})
	call := func(f func(context.Context, *simcontrol.Description) error, json string) error {
		return f(t.Context(), &simcontrol.Description{Json: json})
	}
	for want, err := range map[string]error{
		`attach disk: json: unknown field "sise"`: call(func(ctx context.Context, in *simcontrol.Description) error { return second(s.AttachDisk(ctx, in)) }, `{"sise": 1}`),
		`set service: json: unknown field "nam"`:  call(func(ctx context.Context, in *simcontrol.Description) error { return second(s.SetService(ctx, in)) }, `{"nam": "a"}`),
		`unknown field "prot"`:                    second(s.SetIscsiTarget(t.Context(), &simcontrol.SecretDescription{SecretJson: `{"iqn": "iqn.a", "luns": [{"prot": 1}]}`})),
		`unknown field "pasword"`:                 second(s.AddSmbServer(t.Context(), &simcontrol.SecretDescription{SecretJson: `{"name": "a", "accounts": [{"user": "u", "pasword": "MARKED"}]}`})),
		`more text`:                               second(s.AddSmbServer(t.Context(), &simcontrol.SecretDescription{SecretJson: `{"name": "a"}{}`})),
	} {
		if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MARKED") {
			t.Errorf("%v, want an invalid argument with %q", err, want)
		}
	}
}
