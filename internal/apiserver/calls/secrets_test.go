package calls

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	_ "github.com/kubernetes-csi/csi-proxy/v2/internal/wire" // every version of the API
)

// Every text field of the groups that handle credentials is either listed as
// harmless or left out. New fields must be added here.
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
				switch leftOut := secretField.MatchString(name); {
				case slices.Contains(secret, name):
					if !leftOut {
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
