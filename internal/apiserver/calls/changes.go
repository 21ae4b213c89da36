package calls

import (
	"strings"
	"unicode"
)

// changes says for each verb that begins the name of a method of the API whether such
// methods change the node: its disks, volumes, files, mappings, sessions or services, or
// what Windows knows about them. Such methods are audited, and refused by a
// read-only server. The full name of a method takes precedence.
var changes = map[string]bool{
	"Get":  false,
	"Is":   false,
	"List": false,

	"DiskStats":   false, // published names of GetDiskStats and GetVolumeStats
	"VolumeStats": false,
	"PathExists":  false,

	"Add":        true,
	"Connect":    true,
	"Create":     true,
	"Disconnect": true,
	"Discover":   true, // the initiator keeps the targets that it finds
	"Dismount":   true,
	"Format":     true,
	"Link":       true,
	"Mkdir":      true,
	"Mount":      true,
	"New":        true,
	"Partition":  true,
	"Remove":     true,
	"Rescan":     true, // disks that arrived can be used from then on
	"Resize":     true,
	"Rmdir":      true,
	"Set":        true,
	"Start":      true,
	"Stop":       true,
	"Unmount":    true,
	"Update":     true,
	"Write":      true,
}

// Changes reports whether a method of the API changes the node. It is true for a method
// that the table does not have.
func Changes(method string) bool {
	key := keyOf(method)
	return key == "" || changes[key]
}

// keyOf returns the key of a method in changes, or "".
func keyOf(method string) string {
	verb := method
	if second := strings.IndexFunc(method[min(1, len(method)):], unicode.IsUpper); second >= 0 {
		verb = method[:second+1]
	}
	for _, key := range []string{method, verb} {
		if _, ok := changes[key]; ok {
			return key
		}
	}
	return ""
}
