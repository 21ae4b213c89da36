package wmi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// identifier is the name of a class, property or method.
var identifier = regexp.MustCompile(`^[A-Za-z_][0-9A-Za-z_]*$`)

// query selects the instances of a class whose properties equal given texts. It
// selects all properties, because methods of an object need its keys, unless only names some.
type query struct {
	class string
	only  []string
	where []condition
}

type condition struct{ property, text string }

// wql returns the text of the query.
// https://learn.microsoft.com/windows/win32/wmisdk/wql-sql-for-wmi
func (q query) wql() (string, error) {
	if !identifier.MatchString(q.class) {
		return "", fmt.Errorf("%q is not a WMI class name: %w", q.class, win32.ERROR_INVALID_NAME)
	}
	properties := "*"
	if len(q.only) > 0 {
		properties = strings.Join(q.only, ", ")
	}
	for _, p := range q.properties() {
		if !identifier.MatchString(p) {
			return "", fmt.Errorf("%q is not a WMI property name: %w", p, win32.ERROR_INVALID_NAME)
		}
	}
	s := "SELECT " + properties + " FROM " + q.class
	for i, c := range q.where {
		text, err := literal(c.text)
		if err != nil {
			return "", err
		}
		s += map[bool]string{true: " WHERE ", false: " AND "}[i == 0] + c.property + " = " + text
	}
	return s, nil
}

// properties returns all names of properties in the query.
func (q query) properties() []string {
	names := slices.Clone(q.only)
	for _, c := range q.where {
		names = append(names, c.property)
	}
	return names
}

// literal returns s as a WQL string, or as the value of a key in an object path,
// which has the same quoting: a backslash before quotes and backslashes. Control
// characters cannot be represented.
// https://learn.microsoft.com/windows/win32/wmisdk/where-clause
func literal(s string) (string, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7F || r == 0xFFFD }); i >= 0 {
		return "", fmt.Errorf("%q has a character that WQL cannot represent: %w", s, win32.ERROR_INVALID_NAME)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, nil
}
