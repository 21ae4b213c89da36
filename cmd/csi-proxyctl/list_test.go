package main

import "testing"

func TestFilterMatches(t *testing.T) {
	entry := volumeEntry{ID: "a", MountedAt: []string{}}
	mounted := volumeEntry{ID: "b", MountedAt: []string{`C:\x`, `D:\`}}
	unknown := volumeEntry{ID: "c"}
	for filter, want := range map[string]string{
		"mountedAt=":       "a c", // none, and not reported
		"mountedAt!=":      "b",
		`mountedAt=d:\`:    "b",
		`mountedAt!=d:\`:   "a c",
		"formatted=":       "a b c",
		"id=B":             "b",
		"disk=0":           "a b c",
		`mountedAt=C:\x\y`: "",
	} {
		a := &app{filters: []string{filter}}
		kept, _, err := a.filter([]volumeEntry{entry, mounted, unknown}, make([][]string, 3))
		if err != nil {
			t.Errorf("--filter %s: %v", filter, err)
			continue
		}
		got := ""
		for i, e := range kept.([]volumeEntry) {
			if i > 0 {
				got += " "
			}
			got += e.ID
		}
		if got != want {
			t.Errorf("--filter %s keeps %q, want %q", filter, got, want)
		}
	}
}
