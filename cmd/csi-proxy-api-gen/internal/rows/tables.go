package rows

// A Family is a list of versions of one group that share rows: each is a
// subset of the first.
//
// The generator computes what can be one family and refuses a claim that is
// not so, and a version that is in none. What it cannot compute is why the list is
// written by hand: that fields of equal number, type and name also mean the
// same.
type Family struct {
	Group    string
	Versions []string // newest first
}

// Published are the families of the published API. A new version with shapes
// that are known is one more name here, in front.
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

// Retired is a method that a version has and the newest of its family no
// longer has.
type Retired struct {
	Group, Version, Method string
	Why                    string
}

// PublishedRetired are the retired methods of the published API.
func PublishedRetired() []Retired {
	return []Retired{
		{"disk", "v1alpha1", "GetDiskNumberByName", "drivers compare the answer of ListDiskIDs instead"},
	}
}

// An Exception says what becomes of a field that the naming rules do not place.
type Exception struct {
	Group    string
	Versions []string
	Message  string // as in the .proto file

	// Field is a field of the message, or a field of the Go struct behind it that
	// the message lacks.
	Field string

	// As is the Go field that holds it; empty if the field is dropped, or left
	// zero.
	As string

	Why string
}

// PublishedExceptions are the exceptions of the published API. Rows that are
// written by hand need none.
func PublishedExceptions() []Exception {
	const (
		context = "plugins and pods once had directories of their own; the working directories hold for both"
		failure = "nothing ever filled it: failures are gRPC errors in every version"
		renamed = "the same field by its first name"
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
