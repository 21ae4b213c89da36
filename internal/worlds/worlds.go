// Package worlds chooses the Windows that tests run on: all pairs of the options of package
// nodespec.
package worlds

import (
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Pairwise returns the named worlds, and further ones until every value of an option meets
// every value of every other option in one of them. The result is always the same.
func Pairwise() []nodespec.World {
	all := nodespec.Worlds()
	options := nodespec.Options()
	missing := pairs(options)
	for _, w := range all {
		cover(missing, options, w.Windows)
	}
	for n := 1; len(missing) > 0; n++ {
		w := nodespec.World{Name: fmt.Sprintf("pairs-%d", n), Does: "options in pairs that no world before has"}
		for i, o := range options {
			best, most := o.Values[0].Name, -1
			for _, v := range o.Values {
				// The pairs with the options that already have a value, and then those
				// that the value can still be in.
				now, later := 0, 0
				for p := range missing {
					switch {
					case p.a == i && p.x == v.Name:
						later++
					case p.b == i && p.y == v.Name && w.Get(options[p.a].Key) == p.x:
						now++
					}
				}
				if got := now*len(options)*8 + later; got > most {
					best, most = v.Name, got
				}
			}
			w.Set(o.Key, best)
		}
		if !cover(missing, options, w.Windows) {
			// No choice above was the best: begin with any pair that is missing.
			p := first(missing)
			w.Set(options[p.a].Key, p.x)
			w.Set(options[p.b].Key, p.y)
			cover(missing, options, w.Windows)
		}
		all = append(all, w)
	}
	return all
}

// A pair is the value x of option a and the value y of option b, a < b.
type pair struct {
	a, b int
	x, y string
}

func pairs(options []nodespec.Option) map[pair]bool {
	all := map[pair]bool{}
	for a, o := range options {
		for b := a + 1; b < len(options); b++ {
			for _, x := range o.Values {
				for _, y := range options[b].Values {
					all[pair{a, b, x.Name, y.Name}] = true
				}
			}
		}
	}
	return all
}

// cover removes the pairs in w from missing and reports whether there were any.
func cover(missing map[pair]bool, options []nodespec.Option, w nodespec.Windows) bool {
	before := len(missing)
	for p := range missing {
		if w.Get(options[p.a].Key) == p.x && w.Get(options[p.b].Key) == p.y {
			delete(missing, p)
		}
	}
	return len(missing) < before
}

// first returns the smallest pair.
func first(missing map[pair]bool) pair {
	var all []pair
	for p := range missing {
		all = append(all, p)
	}
	return slices.MinFunc(all, func(p, q pair) int {
		return slices.Compare([]string{fmt.Sprintf("%3d %3d", p.a, p.b), p.x, p.y}, []string{fmt.Sprintf("%3d %3d", q.a, q.b), q.x, q.y})
	})
}
