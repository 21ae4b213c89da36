package rows

// A Family is a list of versions of one group that share rows: each version is a subset
// of the first.
//
// The generator checks the list against the descriptors, and fails if a version is in no
// family. The list is hand-written because the generator cannot check that fields with
// equal number, type and name have the same meaning.
type Family struct {
	Group    string
	Versions []string // newest first
}

// Published returns the families of the published API. A new version whose messages match
// a family is added here, as the first of its family.
func Published() []Family {
	return []Family{
		{"disk", []string{"v1", "v1beta3"}},
		{"disk", []string{"v1beta2", "v1beta1", "v1alpha1"}},
		{"filesystem", []string{"v2alpha1", "v1", "v1beta2"}},
		{"filesystem", []string{"v1beta1", "v1alpha1"}},
		{"iscsi", []string{"v1alpha2", "v1alpha1"}},
		{"smb", []string{"v1", "v1beta2"}},
		{"smb", []string{"v1beta1", "v1alpha1"}},
		{"system", []string{"v1alpha1"}},
		{"volume", []string{"v2alpha1", "v1", "v1beta3"}},
		{"volume", []string{"v1beta2", "v1beta1", "v1alpha1"}},
	}
}

// Retired is a method of a version that the newest version of its family no longer has.
type Retired struct {
	Group, Version, Method string
	Why                    string
}

// PublishedRetired returns the retired methods of the published API.
func PublishedRetired() []Retired {
	return []Retired{
		{"disk", "v1alpha1", "GetDiskNumberByName", "drivers search the response of ListDiskIDs instead"},
	}
}

// An Exception places a field that the naming rules do not match, or drops it.
type Exception struct {
	Group    string
	Versions []string
	Message  string // as in the .proto file

	// Field is a field of the message, or a field of the Go struct that the message
	// lacks.
	Field string

	// As is the corresponding Go field. If it is empty, the field is dropped or left
	// zero.
	As string

	Why string
}

// PublishedExceptions returns the exceptions of the published API. Hand-written rows need
// none.
func PublishedExceptions() []Exception {
	const (
		context = "plugins and pods used to have different directories; now the same working directories apply to both"
		failure = "it was never used: failures are gRPC errors in every version"
		renamed = "the same field under its old name"
	)
	filesystem := []string{"v1beta1", "v1alpha1"}
	smb := []string{"v1beta1", "v1alpha1"}
	volume := []string{"v1beta2", "v1beta1", "v1alpha1"}
	return []Exception{
		{"filesystem", filesystem, "PathExistsRequest", "context", "", context},
		{"filesystem", filesystem, "PathExistsResponse", "error", "", failure},
		{"filesystem", filesystem, "MkdirRequest", "context", "", context},
		{"filesystem", filesystem, "MkdirResponse", "error", "", failure},
		{"filesystem", filesystem, "RmdirRequest", "context", "", context},
		{"filesystem", filesystem, "RmdirResponse", "error", "", failure},
		{"smb", smb, "NewSmbGlobalMappingResponse", "error", "", failure},
		{"smb", smb, "RemoveSmbGlobalMappingResponse", "error", "", failure},
		{"volume", volume, "MountVolumeRequest", "path", "TargetPath", renamed},
		{"volume", volume, "ResizeVolumeRequest", "size", "SizeBytes", renamed},
	}
}
