package wmi

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// identifier is the name of a class, property or method.
var identifier = regexp.MustCompile(`^[A-Za-z_][0-9A-Za-z_]*$`)

// query asks for instances of a class whose properties equal given texts. All
// properties are asked for: an object without its keys cannot be called.
type query struct {
	class string
	where []condition
}

type condition struct{ property, text string }

// wql is the text of a query.
// https://learn.microsoft.com/windows/win32/wmisdk/wql-sql-for-wmi
func (q query) wql() (string, error) {
	if !identifier.MatchString(q.class) {
		return "", fmt.Errorf("%q is no name of a WMI class: %w", q.class, win32.ERROR_INVALID_NAME)
	}
	s := "SELECT * FROM " + q.class
	for i, c := range q.where {
		if !identifier.MatchString(c.property) {
			return "", fmt.Errorf("%q is no name of a WMI property: %w", c.property, win32.ERROR_INVALID_NAME)
		}
		text, err := literal(c.text)
		if err != nil {
			return "", err
		}
		s += map[bool]string{true: " WHERE ", false: " AND "}[i == 0] + c.property + " = " + text
	}
	return s, nil
}

// literal is s as a string of WQL, or as the value of a key in the path of an
// object, which is quoted alike: a backslash in front of quotes and of itself. Control
// characters have no form there.
// https://learn.microsoft.com/windows/win32/wmisdk/where-clause
func literal(s string) (string, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7F || r == 0xFFFD }); i >= 0 {
		return "", fmt.Errorf("%q has a character that WQL has no form for: %w", s, win32.ERROR_INVALID_NAME)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, nil
}
