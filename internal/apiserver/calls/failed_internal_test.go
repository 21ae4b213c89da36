package calls

import "testing"

func TestValuesIn(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"disk_number=3", "diskID=3", true},
		{"disk_number=3", "disk_number=4", false},
		{"path=C:\\k\\a force=false", "path=c:/K/a/ force=true", true},
		{"path=`C:\\k\\a b`", "path=`C:\\k\\a c`", false},
		{"disk_number=3 is_online=true", "disk_number=3 is_online=false", false},
		{"", "", true},
	} {
		if got := valuesIn(c.a) == valuesIn(c.b); got != c.same {
			t.Errorf("%s and %s are about the same: %t, want %t", c.a, c.b, got, c.same)
		}
	}
}
