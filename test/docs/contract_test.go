package docs

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

var (
	numberThenName = regexp.MustCompile(`\b(\d+) (ERROR_\w+)`)
	unnamed        = regexp.MustCompile(`^[A-Z]+_(?:0x)?[0-9A-Fa-f]+$`)
	nameThenNumber = regexp.MustCompile(`\b((?:ERROR|ISDSC|STATUS)_\w+)\s*\((0x[0-9A-F]+|\d+)\)`)
)

// Errors that docs/contract names with their numbers have these numbers in package
// win32.
func TestNumbersInTheContract(t *testing.T) {
	pairs := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.name, "docs/contract/") {
			continue
		}
		hold := func(name, number string) {
			n, err := strconv.ParseUint(number, 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			var have string
			switch strings.SplitN(name, "_", 2)[0] {
			case "ERROR":
				have = win32.Errno(n).Name()
			case "ISDSC":
				have = win32.ISCSIStatus(n).Name()
			case "STATUS":
				have = win32.NTStatus(n).Name()
			}
			pairs++
			// Package win32 does not name every error of Windows: ERROR_231.
			if have != name && unnamed.MatchString(have) {
				return
			}
			if have != name {
				t.Errorf("%s: %s is %s in package win32, not %s", p.name, number, have, name)
			}
		}
		for _, m := range numberThenName.FindAllStringSubmatch(p.text, -1) {
			hold(m[2], m[1])
		}
		for _, m := range nameThenNumber.FindAllStringSubmatch(p.text, -1) {
			hold(m[1], m[2])
		}
	}
	if pairs < 20 {
		t.Errorf("found %d errors with numbers: the search is broken", pairs)
	}
}
