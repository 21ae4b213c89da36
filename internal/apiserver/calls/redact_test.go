package calls

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	iscsi "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	_ "github.com/kubernetes-csi/csi-proxy/v2/internal/wire" // every version of the API
)

func TestRedactedHidesOnlySecrets(t *testing.T) {
	in := &iscsi.ConnectTargetRequest{
		TargetPortal: &iscsi.TargetPortal{TargetAddress: "10.0.0.1"},
		Iqn:          "iqn.x", ChapUsername: "user", ChapSecret: "hunter2",
	}
	got := Redacted(in)
	for _, part := range []string{"10.0.0.1", "iqn.x", "user", "***"} {
		if !strings.Contains(got, part) {
			t.Errorf("Redacted = %q, want %q in it", got, part)
		}
	}
	if strings.Contains(got, "hunter2") || in.ChapSecret != "hunter2" {
		t.Errorf("Redacted = %q, and the message now %v", got, in)
	}
}

// Every text field of the groups that handle credentials is either listed as
// harmless or redacted. New fields must be added here.
func TestEveryFieldIsClassified(t *testing.T) {
	harmless := []string{"remote_path", "local_path", "local_paths", "username", "iqn", "iqns", "target_address", "chap_username", "error", "diskIDs"}
	secret := []string{"password", "chap_secret", "MutualChapSecret"}
	var files int
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if f.Services().Len() != 1 || !apiversion.IsValidVersion(string(f.Package())) {
			return true
		}
		if s := f.Services().Get(0).Name(); s != "Smb" && s != "Iscsi" {
			return true
		}
		files++
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			for j := range m.Fields().Len() {
				field := m.Fields().Get(j)
				name := string(field.Name())
				if k := field.Kind(); k != protoreflect.StringKind && k != protoreflect.BytesKind {
					continue
				}
				switch redacts := secretField.MatchString(name); {
				case slices.Contains(secret, name):
					if !redacts {
						t.Errorf("%s would be logged", field.FullName())
					}
				case !slices.Contains(harmless, name):
					t.Errorf("%s: add it to harmless or secret", field.FullName())
				}
			}
		}
		return true
	})
	if files < 7 {
		t.Errorf("checked %d files, want those of seven versions of smb and iscsi at least", files)
	}
}
