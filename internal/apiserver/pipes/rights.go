package pipes

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

// Rights to a pipe. The values are those of Windows.
const (
	// createPipeInstance is FILE_CREATE_PIPE_INSTANCE, which has the bit of appending data.
	createPipeInstance = 0x4
	writeData          = 0x2

	// serveRights let an account intercept the calls of clients, or give itself the
	// right to: adding instances, DELETE, WRITE_DAC, WRITE_OWNER, GENERIC_ALL and GENERIC_WRITE.
	serveRights = createPipeInstance | 0x10000 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000
)

// broadGroups are groups that any program of the node, or one on another machine, may be
// a member of, by their abbreviation and their SID.
func broadGroups() map[string]string {
	groups := map[string]string{}
	for name, spellings := range map[string][]string{
		"Everyone": {"WD", "S-1-1-0"}, "Authenticated Users": {"AU", "S-1-5-11"}, "Users": {"BU", "S-1-5-32-545"},
		"Guests": {"BG", "S-1-5-32-546"}, "Anonymous": {"AN", "S-1-5-7"}, "Interactive": {"IU", "S-1-5-4"},
		"Network": {"NU", "S-1-5-2"}, "Service": {"SU", "S-1-5-6"}, "All Application Packages": {"AC", "S-1-15-2-1"},
		"Batch": {"S-1-5-3"}, "Local": {"S-1-2-0"}, "This Organization": {"S-1-5-15"},
		"All Restricted Application Packages": {"S-1-15-2-2"}, "Domain Users": {"DU"}, "Domain Guests": {"DG"},
	} {
		for _, s := range spellings {
			groups[s] = name
		}
	}
	return groups
}

// openTo returns the broad groups that may serve a pipe with this security descriptor, and
// those that may only connect to it.
func openTo(descriptor string) (serve, connect []string) {
	groups := broadGroups()
	entries, ok := sddl.Allowed(descriptor)
	if !ok {
		return []string{"Everyone"}, nil
	}
	rights := map[string]uint32{}
	for _, e := range entries {
		if name := groups[e.Account]; name != "" {
			rights[name] |= e.Mask
		}
	}
	for name, mask := range rights {
		switch {
		case mask&serveRights != 0:
			serve = append(serve, name)
		case mask&writeData != 0:
			connect = append(connect, name)
		}
	}
	slices.Sort(serve)
	slices.Sort(connect)
	return serve, connect
}

// OpenTo returns the groups, such as Everyone and Users, that may connect to pipes with a
// security descriptor that [ListenWith] accepts.
func OpenTo(descriptor string) []string {
	_, connect := openTo(descriptor)
	return connect
}

// OwnerRights is the entry that lets the owner of a pipe read its rights, and no more. Without one
// for the owner, Windows also lets the owner change them: of a pipe of LocalSystem, each
// administrator, including those of containers.
const OwnerRights = "(A;;RC;;;OW)"

// HasOwnerRights reports whether a security descriptor says what the owner may do.
func HasOwnerRights(descriptor string) bool {
	entries, _ := sddl.Allowed(descriptor)
	return slices.ContainsFunc(entries, func(e sddl.Entry) bool { return e.Account == "OW" || e.Account == "S-1-3-4" })
}

// withOwnerRights returns a descriptor, in the form in which Windows writes it, that has an entry
// for the owner.
func withOwnerRights(descriptor string) string {
	before, acl, ok := strings.Cut(descriptor, "D:")
	if !ok || HasOwnerRights(descriptor) {
		return descriptor
	}
	acl, system, audited := strings.Cut(acl, "S:")
	if audited {
		system = "S:" + system
	}
	return before + "D:" + acl + OwnerRights + system
}
