package rows

// An Exception is a difference between versions that the rules of this package do not
// cover: it places a field that the naming rules do not match, drops it, or says that no
// method of the Service corresponds to a method of the version.
type Exception struct {
	Group    string
	Versions []string

	// Message is a message, or the method without a counterpart, as in the .proto file.
	Message string

	// Field is a field of the message, or a field of the Go struct that the newest
	// message lacks. It is empty for a method.
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
		{"disk", []string{"v1alpha1"}, "GetDiskNumberByName", "", "", "drivers search the response of ListDiskIDs instead"},
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
