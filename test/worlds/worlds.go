// Package worlds combines the options of a simulated node's Windows for tests.
package worlds

import (
	"fmt"
	"os"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
)

// A pair is two values of two options.
type pair struct{ a, b choice }

// A choice is a value of an option, by their indexes.
type choice struct{ option, value int }

// Pairs returns worlds in which every two values of two options occur together in one of
// them, and the number of such pairs. The first world is the strict one, and strict values are
// left empty. The result is the same in every run.
func Pairs() (worlds []behavior.Windows, pairs int) {
	options := behavior.All()
	var order []pair
	open := map[pair]bool{}
	for i, o := range options {
		for j := i + 1; j < len(options); j++ {
			for v := range o.Values {
				for w := range options[j].Values {
					p := pair{choice{i, v}, choice{j, w}}
					order, open[p] = append(order, p), true
				}
			}
		}
	}
	add := func(values []int) {
		var w behavior.Windows
		for i, v := range values {
			if v > 0 {
				*options[i].Of(&w) = options[i].Values[v].Name
			}
			for j := range i {
				delete(open, pair{choice{j, values[j]}, choice{i, v}})
			}
		}
		worlds = append(worlds, w)
	}
	add(make([]int, len(options)))
	for _, p := range order {
		if !open[p] {
			continue
		}
		values := make([]int, len(options))
		for i := range values {
			values[i] = -1
		}
		values[p.a.option], values[p.b.option] = p.a.value, p.b.value
		for i, o := range options {
			if values[i] >= 0 {
				continue
			}
			best := -1
			for v := range o.Values {
				covered := 0
				for j, have := range values {
					low, high := choice{j, have}, choice{i, v}
					if j > i {
						low, high = high, low
					}
					if have >= 0 && open[pair{low, high}] {
						covered++
					}
				}
				if covered > best {
					best, values[i] = covered, v
				}
			}
		}
		add(values)
	}
	return worlds, len(order)
}

// Variable names the environment variable with the index of the world in which the tests of
// kills and of changes run that make soak repeats in each world.
const Variable = "CSI_PROXY_WORLD"

// Chosen returns the world that the environment chooses. Without one it is the zero value,
// which is the default.
func Chosen() behavior.Windows {
	text := os.Getenv(Variable)
	if text == "" {
		return behavior.Windows{}
	}
	all, _ := Pairs()
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(all) {
		panic(fmt.Sprintf("%s=%s, want a number below %d", Variable, text, len(all)))
	}
	return all[i]
}

// Every reports whether the environment chooses a world, as make soak does: then the tests of
// kills and of changes try each call. Otherwise calls that only look, one after the other, count
// as one.
func Every() bool { return os.Getenv(Variable) != "" }
