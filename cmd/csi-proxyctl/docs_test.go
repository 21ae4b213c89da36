package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// docs/run/csi-proxyctl.md documents the fields of lists, on which scripts depend.
func TestListFieldsMatchDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/run/csi-proxyctl.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.Contains(cells[2], "`") {
			documented[strings.Trim(cells[1], " `")] = cells[2]
		}
	}
	for command, entry := range map[string]any{
		"disk list": diskEntry{}, "volume list": volumeEntry{}, "smb list": smbMapping{},
		"versions": versionEntry{}, "doctor": finding{}, "why": explanation{}, "bundle": bundleEntry{}, "calls": callEntry{}, "calls --failed": failedEntry{},
	} {
		fields := fieldNames(reflect.TypeOf(entry))
		for _, f := range fields {
			if !strings.Contains(documented[command], "`"+f+"`") {
				t.Errorf("%s: docs/run/csi-proxyctl.md does not document the field %s: %s", command, f, documented[command])
			}
		}
		others := map[string]int{"doctor": 4, "why": 1}[command] // ok, note, unknown and problem; doctor
		if n := strings.Count(documented[command], "`") / 2; n != len(fields)+others {
			t.Errorf("%s has the fields %v, but docs/run/csi-proxyctl.md documents %s", command, fields, documented[command])
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
