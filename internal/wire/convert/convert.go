// Package convert has what generated conversions between messages and Go structs have
// in common.
package convert

// Slice converts the elements of a slice. Nil stays nil.
func Slice[A, B any](in []A, convert func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = convert(a)
	}
	return out
}

// Map converts the values of a map. Nil stays nil.
func Map[K comparable, A, B any](in map[K]A, convert func(A) B) map[K]B {
	if in == nil {
		return nil
	}
	out := make(map[K]B, len(in))
	for k, a := range in {
		out[k] = convert(a)
	}
	return out
}
