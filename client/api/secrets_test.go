package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	iscsiv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha1"
	iscsiv1alpha2 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	smbv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1alpha1"
	smbv1beta1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta1"
	smbv1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta2"
	smbv2alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v2alpha1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// marked is the secret of the tests. It must not appear when a message is printed,
// neither as text nor as hexadecimal digits.
const marked = "MaRkEd-by-test"

// withSecrets are all messages that contain a secret. The secret is marked, and
// another field, if there is one, is "seen".
var withSecrets = map[string]struct {
	message proto.Message
	field   protoreflect.Name
	shows   string
}{
	"iscsi/v1alpha1 ConnectTarget":       {&iscsiv1alpha1.ConnectTargetRequest{TargetPortal: &iscsiv1alpha1.TargetPortal{TargetAddress: "seen"}, ChapSecret: marked}, "chap_secret", "seen"},
	"iscsi/v1alpha2 ConnectTarget":       {&iscsiv1alpha2.ConnectTargetRequest{TargetPortal: &iscsiv1alpha2.TargetPortal{TargetAddress: "seen"}, ChapSecret: marked}, "chap_secret", "seen"},
	"iscsi/v1alpha2 SetMutualChapSecret": {&iscsiv1alpha2.SetMutualChapSecretRequest{MutualChapSecret: marked}, "MutualChapSecret", "MutualChapSecret"},
	"smb/v1alpha1":                       {&smbv1alpha1.NewSmbGlobalMappingRequest{Username: "seen", Password: marked}, "password", "seen"},
	"smb/v1beta1":                        {&smbv1beta1.NewSmbGlobalMappingRequest{Username: "seen", Password: marked}, "password", "seen"},
	"smb/v1beta2":                        {&smbv1beta2.NewSmbGlobalMappingRequest{Username: "seen", Password: marked}, "password", "seen"},
	"smb/v1":                             {&smbv1.NewSmbGlobalMappingRequest{Username: "seen", Password: marked}, "password", "seen"},
	"smb/v2alpha1":                       {&smbv2alpha1.NewSmbGlobalMappingRequest{Username: "seen", Password: marked}, "password", "seen"},
	"smb/v2alpha1 Update":                {&smbv2alpha1.UpdateSmbGlobalMappingRequest{Username: "seen", Password: marked}, "password", "seen"},
}

// prints are the ways to print a message into a log.
var prints = map[string]func(m proto.Message) string{
	"String": func(m proto.Message) string { return m.(fmt.Stringer).String() },
	"Sprint": func(m proto.Message) string { return fmt.Sprint(m) },
	"%v":     func(m proto.Message) string { return fmt.Sprintf("%v", m) },
	"%+v":    func(m proto.Message) string { return fmt.Sprintf("%+v", m) },
	"%#v":    func(m proto.Message) string { return fmt.Sprintf("%#v", m) },
	"%s":     func(m proto.Message) string { return fmt.Sprintf("%s", m) },
	"%q":     func(m proto.Message) string { return fmt.Sprintf("%q", m) },
	"%300v":  func(m proto.Message) string { return fmt.Sprintf("%300v", m) },
	"error":  func(m proto.Message) string { return fmt.Errorf("call with %v: %w", m, errors.New("refused")).Error() },
	"in an error": func(m proto.Message) string {
		return fmt.Sprintf("%+v", errors.Join(fmt.Errorf("outer: %w", fmt.Errorf("%#v", m)), errors.New("refused")))
	},
	"in a slice":       func(m proto.Message) string { return fmt.Sprintf("%+v", []proto.Message{m}) },
	"in a map":         func(m proto.Message) string { return fmt.Sprintf("%#v", map[string]any{"request": m}) },
	"in a struct":      func(m proto.Message) string { return fmt.Sprintf("%#v", struct{ Request any }{m}) },
	"slog text":        func(m proto.Message) string { return logged(m, slogText) },
	"slog JSON":        func(m proto.Message) string { return logged(m, slogJSON) },
	"slog text, group": func(m proto.Message) string { return logged(slog.GroupValue(slog.Any("r", m)), slogText) },
	"slog JSON, group": func(m proto.Message) string { return logged(slog.GroupValue(slog.Any("r", m)), slogJSON) },
	"slog JSON, error": func(m proto.Message) string { return logged(fmt.Errorf("call with %v", m), slogJSON) },
}

func slogText(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) }
func slogJSON(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) }

func logged(value any, handler func(*bytes.Buffer) slog.Handler) string {
	var b bytes.Buffer
	slog.New(handler(&b)).Info("call", "request", value)
	return b.String()
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for name, tt := range withSecrets {
		for how, print := range prints {
			t.Run(name+" "+how, func(t *testing.T) {
				m := proto.Clone(tt.message)
				// An unknown field may contain a secret, too.
				m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), marked))
				if p := m.ProtoReflect().Descriptor().Fields().ByName("target_portal"); p != nil {
					m.ProtoReflect().Mutable(p).Message().SetUnknown(m.ProtoReflect().GetUnknown())
				}
				before := proto.Clone(m)
				got := print(m)
				if strings.Contains(got, marked) {
					t.Errorf("the secret is printed: %s", got)
				}
				if !strings.Contains(got, "***") || !strings.Contains(got, tt.shows) {
					t.Errorf("%s: want stars and %q", got, tt.shows)
				}
				if !proto.Equal(m, before) {
					t.Errorf("printing changed the message to %s", prototext.Format(m))
				}
			})
		}
		for _, verb := range []string{"%x", "%X", "%d", "%t", "%!"} {
			if got := fmt.Sprintf(verb, tt.message); strings.Contains(got, marked) || strings.Contains(strings.ToLower(got), fmt.Sprintf("%x", marked)) {
				t.Errorf("%s of %s prints the secret: %s", verb, name, got)
			}
		}
	}
}

// Printing must not turn an empty secret into stars, and must accept a nil message.
func TestEmptySecretsStayEmpty(t *testing.T) {
	for name, tt := range withSecrets {
		for what, m := range map[string]proto.Message{
			"empty": tt.message.ProtoReflect().New().Interface(),
			"nil":   tt.message.ProtoReflect().Type().Zero().Interface(),
		} {
			want := map[string]string{"empty": "", "nil": "<nil>"}[what]
			for _, how := range []string{"String", "%v", "%+v", "%s"} {
				if got := prints[how](m); got != want {
					t.Errorf("%s, %s, %s = %q, want %q", name, what, how, got, want)
				}
			}
			if got := logged(m, slogText); !strings.Contains(got, `request=`) || strings.Contains(got, "*") || strings.Contains(got, "PANIC") {
				t.Errorf("%s, %s, logged as %q", name, what, got)
			}
		}
	}
}

// Encoding and decoding a message preserves its secrets.
func TestSecretsSurviveEncoding(t *testing.T) {
	for name, tt := range withSecrets {
		for form, trip := range map[string]struct {
			marshal   func(proto.Message) ([]byte, error)
			unmarshal func([]byte, proto.Message) error
		}{
			"wire": {proto.Marshal, proto.Unmarshal},
			"text": {prototext.Marshal, prototext.Unmarshal},
			"JSON": {protojson.Marshal, protojson.Unmarshal},
		} {
			_ = fmt.Sprint(tt.message) // must not change the message
			sent, err := trip.marshal(tt.message)
			if err != nil {
				t.Fatal(err)
			}
			got := tt.message.ProtoReflect().New()
			if err := trip.unmarshal(sent, got.Interface()); err != nil {
				t.Fatal(err)
			}
			if secret := got.Get(got.Descriptor().Fields().ByName(tt.field)).String(); secret != marked || !proto.Equal(got.Interface(), tt.message) {
				t.Errorf("%s through %s: %s is %q", name, form, tt.field, secret)
			}
		}
	}
}

// TestAllSecretsAreTested finds secrets that are not in withSecrets.
func TestAllSecretsAreTested(t *testing.T) {
	secret := regexp.MustCompile(`(?i)password|secret`)
	known := map[string]bool{}
	for _, tt := range withSecrets {
		d := tt.message.ProtoReflect().Descriptor()
		known[d.ParentFile().Path()+" "+string(d.Fields().ByName(tt.field).FullName())] = true
	}
	found := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.Contains(file.Path(), "csi-proxy") {
			return true
		}
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				f := fields.Get(j)
				if !secret.MatchString(string(f.Name())) {
					continue
				}
				found++
				if !known[file.Path()+" "+string(f.FullName())] {
					t.Errorf("%s: %s is not tested", file.Path(), f.FullName())
				}
			}
		}
		return true
	})
	if found != len(withSecrets) {
		t.Errorf("found %d secrets, want %d", found, len(withSecrets))
	}
}
