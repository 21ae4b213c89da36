package mingwtest

import (
	"slices"
	"testing"
)

// Check returns the false assertions only.
func TestCheck(t *testing.T) {
	const prelude = "struct s { char c; int i; };"
	asserts := append(Offset("struct s", "i", 4, 4), Offset("struct s", "i", 3, 2)...)
	asserts = append(asserts, Size("struct s", 8), Size("struct s", 9))
	got := Check(t, prelude, asserts)
	want := []string{"offset of struct s.i is 3", "width of struct s.i is 2", "size of struct s is 9"}
	if !slices.Equal(got, want) {
		t.Errorf("Check found %q wrong, want %q", got, want)
	}
}
