package script

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// variables are the variables of a section, by name without the $.
type variables map[string]string

// in replaces the variables in the texts of v.
func (vars variables) in(v any) any {
	switch v := v.(type) {
	case string:
		return vars.expand(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = vars.in(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[vars.expand(k)] = vars.in(v[k])
		}
		return out
	}
	return v
}

func (vars variables) expand(s string) string {
	names := make([]string, 0, len(vars))
	for name := range vars {
		names = append(names, name)
	}
	// The longest name first, so that $volume2 is not read as $volume and a 2.
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		s = strings.ReplaceAll(s, "$"+name, vars[name])
	}
	return s
}

// tree returns a message as JSON with all its fields, including zero values, by
// their names in the .proto file. Both generations of generated structs have these
// names in their tags.
func tree(m reflect.Value) any {
	switch m.Kind() {
	case reflect.Pointer:
		if m.IsNil() {
			return nil
		}
		return tree(m.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range m.NumField() {
			name, _, _ := strings.Cut(m.Type().Field(i).Tag.Get("json"), ",")
			if m.Type().Field(i).IsExported() && name != "" && name != "-" {
				out[name] = tree(m.Field(i))
			}
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range m.MapKeys() {
			out[fmt.Sprint(k.Interface())] = tree(m.MapIndex(k))
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range m.Len() {
			out = append(out, tree(m.Index(i)))
		}
		return out
	case reflect.Int32, reflect.Int64: // fmt would print enums with their String method
		return json.Number(strconv.FormatInt(m.Int(), 10))
	case reflect.Uint32, reflect.Uint64:
		return json.Number(strconv.FormatUint(m.Uint(), 10))
	}
	return m.Interface()
}

// match compares a response with the expected one, and stores in vars what the
// patterns capture. The error says where they differ.
func match(got, want any, vars variables, at string) error {
	differs := func() error { return fmt.Errorf("%s is %s, want %s", at, show(got), show(want)) }
	if pattern, ok := want.(string); ok {
		return matchText(got, vars.expand(pattern), vars, differs)
	}
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return differs()
		}
		want = vars.in(want).(map[string]any)
		for k := range have {
			if _, ok := want[k]; !ok {
				return fmt.Errorf("%s has %q = %s, which is not expected", at, k, show(have[k]))
			}
		}
		for _, k := range sortedKeys(want) {
			v, ok := have[k]
			if !ok {
				return fmt.Errorf("%s has no %q, only %s", at, k, show(got))
			}
			if err := match(v, want[k], vars, at+"."+k); err != nil {
				return err
			}
		}
		return nil
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return differs()
		}
		for i := range want {
			if err := match(have[i], want[i], vars, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	}
	if got != want {
		return differs()
	}
	return nil
}

func matchText(got any, want string, vars variables, differs func() error) error {
	text, isText := got.(string)
	number, isNumber := got.(json.Number)
	name, isCapture := strings.CutPrefix(want, "?")
	low, high, isRange := strings.Cut(want, "..")
	switch {
	case want == "*":
		if !isText && !isNumber || text == "" && (number == "" || number == "0") {
			return differs()
		}
	case isCapture:
		if !isText || text == "" {
			return differs()
		}
		vars[name] = text
	case isRange && isNumber:
		n, err := number.Int64()
		from, err1 := strconv.ParseInt(low, 10, 64)
		to, err2 := strconv.ParseInt(high, 10, 64)
		if err != nil || err1 != nil || err2 != nil || n < from || n > to {
			return differs()
		}
	case !isText || text != want:
		return differs()
	}
	return nil
}

// matchError compares texts; … in want matches any text. Blanks at the end are
// ignored, because they would be invisible in the script.
func matchError(got, want string) bool {
	got, want = strings.TrimRight(got, " "), strings.TrimRight(want, " ")
	parts := strings.Split(want, "…")
	if len(parts) == 1 {
		return got == want
	}
	rest, ok := strings.CutPrefix(got, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// show formats v as in the script.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.ReplaceAll(string(b), `\\`, `\`)
}
