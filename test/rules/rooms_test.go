package rules_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// rooms are those of the emulated node, each with the rooms below that it uses. An arrow that
// is not here, such as one upwards, is a fault.
var rooms = map[string][]string{
	"behavior":   nil,
	"bootsector": nil,
	"filetree":   nil,
	"journal":    nil,
	"ptable":     {"bootsector"},
	"kernel":     {"behavior", "journal"},
	"services":   {"kernel"},
	"disk":       {"kernel", "behavior", "bootsector", "journal", "ptable"},
	"volume":     {"kernel", "disk", "behavior", "bootsector", "filetree", "ptable"},
	"smb":        {"kernel", "volume", "behavior"},
	"files":      {"kernel", "volume", "smb", "behavior", "bootsector", "filetree"},
	"iscsi":      {"kernel", "services", "disk", "behavior"},
}

func TestRoomsOfTheEmulatedNode(t *testing.T) {
	files := sources(t)
	for _, fault := range arrows(files) {
		t.Error(fault)
	}
	for room := range rooms {
		if !slices.ContainsFunc(files, func(f file) bool { return f.dir() == path.Join(emulatedSide, room) }) {
			t.Errorf("there is no room %s", room)
		}
	}
	upward := file{path: emulatedSide + "/kernel/a.go", imports: []string{path.Join(module, emulatedSide, "services")}}
	if len(arrows([]file{upward})) != 1 {
		t.Error("an arrow upwards is not found")
	}
}

// arrows returns the imports among the rooms that are not allowed.
func arrows(files []file) (faults []string) {
	for _, f := range files {
		room, below := strings.CutPrefix(f.dir(), emulatedSide+"/")
		if !below {
			continue
		}
		allowed, known := rooms[room]
		if !known {
			faults = append(faults, fmt.Sprintf("%s: the room is not in the list of rooms", f.path))
		}
		for _, i := range f.imports {
			other, inside := strings.CutPrefix(i, path.Join(module, emulatedSide))
			if inside && !slices.Contains(allowed, strings.TrimPrefix(other, "/")) {
				faults = append(faults, fmt.Sprintf("%s imports %s: %s may use %v", f.path, i, room, allowed))
			}
		}
	}
	return faults
}
