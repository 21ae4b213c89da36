package wmi

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// row holds the properties that were read from an object.
type row struct {
	of     string         // the class or method, for errors
	values map[string]any // nil, string, bool, or a number
}

func (r row) wrong(property string, format string, args ...any) error {
	return fmt.Errorf("WMI property %s of %s %w: %w", property, r.of, fmt.Errorf(format, args...), win32.ERROR_GEN_FAILURE)
}

// value returns a property that is not null.
func (r row) value(property string) (any, error) {
	v, asked := r.values[property]
	switch {
	case !asked:
		return nil, r.wrong(property, "was not read")
	case v == nil:
		return nil, r.wrong(property, "is null")
	}
	return v, nil
}

// null reports whether a property is null, for the few properties where null has
// a meaning.
func (r row) null(property string) bool { return r.values[property] == nil }

// text returns a string property.
func (r row) text(property string) (string, error) {
	v, err := r.value(property)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", r.wrong(property, "is %v, which is not a string", v)
	}
	return s, nil
}

// uint32 returns a property of a type up to uint32, which WMI passes as a signed
// number with the same bits, or of a longer type, which it passes in decimal
// digits.
func (r row) uint32(property string) (uint32, error) {
	v, err := r.value(property)
	if err != nil {
		return 0, err
	}
	switch n := reflect.ValueOf(v); {
	case n.CanInt() && n.Int() >= math.MinInt32 && n.Int() <= math.MaxUint32:
		return uint32(n.Int()), nil
	case n.CanUint() && n.Uint() <= math.MaxUint32:
		return uint32(n.Uint()), nil
	case n.Kind() == reflect.String:
		if n, err := strconv.ParseUint(n.String(), 10, 32); err == nil {
			return uint32(n), nil
		}
	}
	return 0, r.wrong(property, "is %#v, which is not a 32-bit number", v)
}
