package apiversion_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
)

func TestNewVersion(t *testing.T) {
	for _, name := range []string{"v1", "v7", "v2alpha7", "v975beta986654", "v10alpha10"} {
		v, err := apiversion.NewVersion(name)
		if err != nil || v.String() != name {
			t.Errorf("NewVersion(%q) = %q, %v", name, v, err)
		}
		if !apiversion.IsValidVersion(name) {
			t.Errorf("IsValidVersion(%q) = false", name)
		}
		if got := apiversion.NewVersionOrPanic(name); got != v {
			t.Errorf("NewVersionOrPanic(%q) = %q", name, got)
		}
	}
}

func TestNewVersionRefuses(t *testing.T) {
	const huge = "99999999999999999999"
	tests := map[string]struct {
		name, want string
		valid      bool // result of IsValidVersion, which checks only the form
	}{
		"nothing":                 {"", `invalid version name: ""`, false},
		"no v":                    {"1", `invalid version name: "1"`, false},
		"major zero":              {"v0", `invalid version name: "v0"`, false},
		"leading zero":            {"v01", `invalid version name: "v01"`, false},
		"qualifier zero":          {"v2alpha0", `invalid version name: "v2alpha0"`, false},
		"qualifier alone":         {"v2alpha", `invalid version name: "v2alpha"`, false},
		"unknown qualifier":       {"v2gamma1", `invalid version name: "v2gamma1"`, false},
		"a word":                  {"whatever", `invalid version name: "whatever"`, false},
		"capitals":                {"V1", `invalid version name: "V1"`, false},
		"newline behind":          {"v1\n", `invalid version name: "v1\n"`, false},
		"minor number":            {"v1.2", `invalid version name: "v1.2"`, false},
		"digits of other scripts": {"v١", `invalid version name: "v١"`, false},
		"major too large":         {"v" + huge, `unable to convert "` + huge + `" from version name "v` + huge + `" to int: `, true},
		"qualifier too large":     {"v1beta" + huge, `unable to convert "` + huge + `" from version name "v1beta` + huge + `" to int: `, true},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			v, err := apiversion.NewVersion(tt.name)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("NewVersion(%q): error %v, want %q", tt.name, err, tt.want)
			}
			if v != (apiversion.Version{}) {
				t.Errorf("NewVersion(%q) = %q with an error, want the zero version", tt.name, v)
			}
			if got := apiversion.IsValidVersion(tt.name); got != tt.valid {
				t.Errorf("IsValidVersion(%q) = %t, want %t", tt.name, got, tt.valid)
			}
			if tt.valid && !errors.Is(err, strconv.ErrRange) {
				t.Errorf("NewVersion(%q): error %v is not strconv.ErrRange", tt.name, err)
			}
			defer func() {
				if p, ok := recover().(error); !ok || p.Error() != err.Error() {
					t.Errorf("NewVersionOrPanic(%q) panicked with %v, want %v", tt.name, p, err)
				}
			}()
			apiversion.NewVersionOrPanic(tt.name)
		})
	}
}

func TestZeroVersion(t *testing.T) {
	var zero apiversion.Version
	if got := zero.String(); got != "" {
		t.Errorf("the zero version has the String %q, want an empty one", got)
	}
	if got := zero.Compare(apiversion.NewVersionOrPanic("v1alpha1")); got != apiversion.Lesser {
		t.Errorf("the zero version compares as %d with v1alpha1, want Lesser", got)
	}
}

// byAge are versions in all forms, oldest first.
var byAge = []string{
	"v1alpha1", "v1alpha2", "v1beta1", "v1", "v2alpha1", "v2alpha7", "v2alpha97", "v2alpha98", "v2beta8", "v2",
	"v7beta12", "v7", "v8alpha1", "v10",
}

func TestCompare(t *testing.T) {
	for i, a := range byAge {
		for j, b := range byAge {
			want := apiversion.Equal
			if i < j {
				want = apiversion.Lesser
			} else if i > j {
				want = apiversion.Greater
			}
			got := apiversion.NewVersionOrPanic(a).Compare(apiversion.NewVersionOrPanic(b))
			if got != want {
				t.Errorf("%s compares to %s as %d, want %d", a, b, got, want)
			}
		}
	}
}

func FuzzNewVersion(f *testing.F) {
	for _, name := range slices.Concat(byAge, []string{"", "v0", "v1beta", "v18446744073709551616", "v1\n"}) {
		f.Add(name, "v1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		va, err := apiversion.NewVersion(a)
		if err != nil {
			return
		}
		if va.String() != a || !apiversion.IsValidVersion(a) {
			t.Errorf("NewVersion(%q) = %q, IsValidVersion %t", a, va, apiversion.IsValidVersion(a))
		}
		vb, err := apiversion.NewVersion(b)
		if err != nil {
			return
		}
		ab, ba := va.Compare(vb), vb.Compare(va)
		if ab != -ba {
			t.Errorf("%q compares to %q as %d, and back as %d", a, b, ab, ba)
		}
		if (ab == apiversion.Equal) != (a == b) {
			t.Errorf("%q compares to %q as %d", a, b, ab)
		}
	})
}
