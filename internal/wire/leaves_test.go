package wire_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
)

// A leaf is a scalar value inside a request or response. Messages and Go structs are
// both converted to leaves, to compare them: the name of a leaf (see [wiretest.InPkg]), and
// its value as text.
type leaves map[string]string

func (l leaves) names() []string { return slices.Sorted(maps.Keys(l)) }

// values assigns a distinct number to each leaf. As text the number is a valid value of
// every field, also of a disk number in a decimal string. The leaf named other gets
// another number.
type values struct {
	n     int
	other string
	given leaves
}

func (v *values) next(name string) int {
	v.n++
	n := v.n
	if name == v.other {
		n += 1000
	}
	v.given[name] = strconv.Itoa(n)
	return n
}

func (v *values) bool(name string) bool {
	b := name != v.other
	v.given[name] = strconv.FormatBool(b)
	return b
}

// fillMessage sets all leaves of a message.
func fillMessage(m protoreflect.Message, other string) leaves {
	v := &values{n: 16, other: other, given: leaves{}}
	v.message(m, "")
	return v.given
}

func (v *values) message(m protoreflect.Message, prefix string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := prefix + wiretest.Plain(string(fd.Name()))
		switch {
		case fd.IsMap():
			panic("no request has a map: " + name)
		case fd.IsList():
			list := m.Mutable(fd).List()
			if fd.Message() != nil {
				v.message(list.AppendMutable().Message(), name+"[].")
			} else {
				list.Append(v.scalar(fd, name+"[]"))
			}
		case fd.Message() != nil:
			v.message(m.Mutable(fd).Message(), name+".")
		default:
			m.Set(fd, v.scalar(fd, name))
		}
	}
}

func (v *values) scalar(fd protoreflect.FieldDescriptor, name string) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(v.bool(name))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strconv.Itoa(v.next(name)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.next(name)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(v.next(name)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(v.next(name)))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(v.next(name)))
	}
	panic(fmt.Sprintf("%s: teach this test kind %s", name, fd.Kind()))
}

// leavesOfMessage returns all leaves of a message, including zero values.
func leavesOfMessage(m protoreflect.Message) leaves {
	l := leaves{}
	l.addMessage(m, "")
	return l
}

func (l leaves) addMessage(m protoreflect.Message, prefix string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := prefix + wiretest.Plain(string(fd.Name()))
		switch value := m.Get(fd); {
		case fd.IsMap():
			value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if fd.MapValue().Message() == nil {
					l[name+"{"+wiretest.Plain(k.String())+"}"] = v.String()
					return true
				}
				l[name+"{key}"] = k.String()
				l.addMessage(v.Message(), name+"{}.")
				return true
			})
		case fd.IsList():
			for j := range value.List().Len() {
				if fd.Message() != nil {
					l.addMessage(value.List().Get(j).Message(), name+"[].")
				} else {
					l[name+"[]"] = value.List().Get(j).String()
				}
			}
		case fd.Message() != nil:
			l.addMessage(value.Message(), name+".")
		default:
			l[name] = value.String()
		}
	}
}

// fillStruct sets all leaves of the struct that p points to.
func fillStruct(p any, other string) leaves {
	v := &values{n: 16, other: other, given: leaves{}}
	v.goValue(reflect.ValueOf(p).Elem(), "")
	return v.given
}

func (v *values) goValue(x reflect.Value, name string) {
	switch x.Kind() {
	case reflect.Struct:
		for i := range x.NumField() {
			v.goValue(x.Field(i), strings.TrimPrefix(name+"."+wiretest.Plain(x.Type().Field(i).Name), "."))
		}
	case reflect.Pointer:
		x.Set(reflect.New(x.Type().Elem()))
		v.goValue(x.Elem(), name)
	case reflect.Slice:
		x.Set(reflect.MakeSlice(x.Type(), 1, 1))
		v.goValue(x.Index(0), name+"[]")
	case reflect.Map:
		key, value := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
		v.goValue(key, name+"{key}")
		v.goValue(value, name+"{}")
		x.Set(reflect.MakeMap(x.Type()))
		x.SetMapIndex(key, value)
	case reflect.Bool:
		x.SetBool(v.bool(name))
	case reflect.String:
		x.SetString(strconv.Itoa(v.next(name)))
	case reflect.Uint32, reflect.Uint64:
		x.SetUint(uint64(v.next(name)))
	case reflect.Int64:
		x.SetInt(int64(v.next(name)))
	default:
		panic(fmt.Sprintf("%s: teach this test %s", name, x.Type()))
	}
}

// leavesOfStruct returns all leaves of the struct that p points to.
func leavesOfStruct(p any) leaves {
	l := leaves{}
	l.addGo(reflect.ValueOf(p), "")
	return l
}

func (l leaves) addGo(x reflect.Value, name string) {
	switch x.Kind() {
	case reflect.Struct:
		for i := range x.NumField() {
			l.addGo(x.Field(i), strings.TrimPrefix(name+"."+wiretest.Plain(x.Type().Field(i).Name), "."))
		}
	case reflect.Pointer:
		if x.IsNil() {
			l[name] = "nil"
			return
		}
		l.addGo(x.Elem(), name)
	case reflect.Slice:
		for i := range x.Len() {
			l.addGo(x.Index(i), name+"[]")
		}
	case reflect.Map:
		for _, k := range x.MapKeys() {
			l[name+"{key}"] = fmt.Sprint(k.Interface())
			l.addGo(x.MapIndex(k), name+"{}")
		}
	default:
		l[name] = fmt.Sprint(x.Interface())
	}
}
