package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The fields of lists are told in docs/csi-proxyctl.md, and scripts rely on them.
func TestFieldsOfListsAreThoseOfTheGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/csi-proxyctl.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.Contains(cells[2], "`") {
			told[strings.Trim(cells[1], " `")] = cells[2]
		}
	}
	for command, entry := range map[string]any{
		"disk list": diskEntry{}, "volume list": volumeEntry{}, "smb list": smbMapping{}, "iscsi portals": portalEntry{},
		"iscsi discover": targetEntry{}, "iscsi disks": targetDiskEntry{}, "system service": serviceEntry{}, "system serial": serialEntry{},
		"versions": versionEntry{}, "doctor": finding{},
	} {
		fields := fieldNames(reflect.TypeOf(entry))
		for _, f := range fields {
			if !strings.Contains(told[command], "`"+f+"`") {
				t.Errorf("%s: docs/csi-proxyctl.md does not tell the field %s: %s", command, f, told[command])
			}
		}
		const values = 3 // ok, note and problem
		if n := strings.Count(told[command], "`") / 2; n != len(fields) && command != "doctor" || command == "doctor" && n != len(fields)+values {
			t.Errorf("%s has the fields %v; docs/csi-proxyctl.md tells others, too: %s", command, fields, told[command])
		}
	}
}

func fieldNames(t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		all = append(all, f.Tag.Get("json"))
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			all = append(all, fieldNames(f.Type.Elem())...)
		}
	}
	return all
}
