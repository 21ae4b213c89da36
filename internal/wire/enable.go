package wire

import (
	"fmt"
	"slices"
	"strings"
)

// Enabled returns the services that names choose: a group ("disk") or a version of one
// ("disk/v1"). No names choose all. It fails with an [UnknownAPIError] for a name that
// chooses none.
func Enabled(all []Service, names []string) ([]Service, error) {
	if len(names) == 0 {
		return all, nil
	}
	chosen := make([]bool, len(all))
	for _, name := range names {
		found := false
		for i, s := range all {
			if name == s.Group || name == s.String() {
				chosen[i], found = true, true
			}
		}
		if !found {
			return nil, unknown(name, all)
		}
	}
	var enabled []Service
	for i, s := range all {
		if chosen[i] {
			enabled = append(enabled, s)
		}
	}
	return enabled, nil
}

// UnknownAPIError is the error for the name of an API that does not exist.
type UnknownAPIError struct {
	Name  string
	Known []string // "disk/v1"
}

func unknown(name string, all []Service) *UnknownAPIError {
	e := &UnknownAPIError{Name: name}
	for _, s := range all {
		e.Known = append(e.Known, s.String())
	}
	return e
}

// Error names what exists.
func (e *UnknownAPIError) Error() string {
	var groups []string
	for _, api := range e.Known {
		group, _, _ := strings.Cut(api, "/")
		groups = append(groups, group)
	}
	return fmt.Sprintf("there is no API %q: want a group (%s) or one of its versions (%s)",
		e.Name, strings.Join(slices.Compact(groups), ", "), strings.Join(e.Known, ", "))
}
