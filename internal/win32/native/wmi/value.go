package wmi

import (
	"fmt"
	"math"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Types of VARIANT (wtypes.h).
const (
	vtEmpty = 0
	vtNull  = 1
	vtI2    = 2
	vtI4    = 3
	vtBSTR  = 8
	vtBool  = 11
	vtI1    = 16
	vtUI1   = 17
	vtUI2   = 18
	vtUI4   = 19
	vtI8    = 20
	vtUI8   = 21
	vtInt   = 22
	vtUint  = 23
)

// decode returns the Go value of a VARIANT: nil, string, bool, int64 or uint64.
// bits are its 8 bytes of content, text the string that they point to if it is a
// BSTR.
func decode(vt uint16, bits uint64, text string) (any, error) {
	switch vt {
	case vtEmpty, vtNull:
		return nil, nil
	case vtBSTR:
		if bits == 0 {
			return nil, nil
		}
		return text, nil
	case vtBool:
		return uint16(bits) != 0, nil
	case vtI1:
		return int64(int8(bits)), nil
	case vtI2:
		return int64(int16(bits)), nil
	case vtI4, vtInt:
		return int64(int32(bits)), nil
	case vtI8:
		return int64(bits), nil
	case vtUI1:
		return uint64(uint8(bits)), nil
	case vtUI2:
		return uint64(uint16(bits)), nil
	case vtUI4, vtUint:
		return uint64(uint32(bits)), nil
	case vtUI8:
		return bits, nil
	}
	return nil, fmt.Errorf("a VARIANT of the unsupported type %#x", vt)
}

// row holds the properties that were read from an object, as decode returns them.
type row struct {
	of     string // the class or method, for errors
	values map[string]any
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
	switch v := v.(type) {
	case int64:
		if v >= math.MinInt32 && v <= math.MaxUint32 {
			return uint32(v), nil
		}
	case uint64:
		if v <= math.MaxUint32 {
			return uint32(v), nil
		}
	case string:
		if n, err := strconv.ParseUint(v, 10, 32); err == nil {
			return uint32(n), nil
		}
	}
	return 0, r.wrong(property, "is %#v, which is not a 32-bit number", v)
}
