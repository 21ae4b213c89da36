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
	nameThenNumber = regexp.MustCompile(`\b((?:ERROR|ISDSC)_\w+)\s*\((0x[0-9A-F]+|\d+)\)`)
)

// Errors that docs/develop/contract names with their numbers have these numbers in package
// win32, if it names them.
func TestNumbersInTheContract(t *testing.T) {
	numbers := map[string]uint64{}
	for n := range uint32(20000) {
		numbers[win32.Errno(n).Name()] = uint64(n)
	}
	for n := uint32(0xEFFF0000); n <= 0xEFFF00FF; n++ {
		numbers[win32.ISCSIStatus(n).Name()] = uint64(n)
	}
	pairs := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.name, "docs/develop/contract/") {
			continue
		}
		hold := func(name, number string) {
			got, err := strconv.ParseUint(number, 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			want, named := numbers[name]
			if !named {
				return
			}
			pairs++
			if got != want {
				t.Errorf("%s: %s is %d in package win32, not %s", p.name, name, want, number)
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
