package descriptors

import "testing"

// The number of blanks after a field name varies with the build of the encoder.
func TestFieldNameHasOneBlank(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"one blank":        {`  name: "a"`, `  name: "a"`},
		"two blanks":       {`  name:  "a"`, `  name: "a"`},
		"blanks in string": {`name:  "  b:  c"`, `name: "  b:  c"`},
		"message":          {"field:  {\n  number:  1\n}", "field: {\n  number: 1\n}"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			if got := fieldName.ReplaceAllString(tt.in, "$1 "); got != tt.want {
				t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}
