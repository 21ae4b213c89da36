// Package worlds combines the options of a simulated node's Windows for tests.
package worlds

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// A pair is two values of two options.
type pair struct{ a, b choice }

// A choice is a value of an option, by their indexes.
type choice struct{ option, value int }

// Pairs returns worlds in which every two values of two options occur together in one of
// them, and the number of such pairs. The first world is the strict one. The result is the
// same in every run.
func Pairs() (worlds []nodespec.Windows, pairs int) {
	options := nodespec.Options()
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
		var w nodespec.Windows
		for i, v := range values {
			w.Set(options[i].Key, options[i].Values[v].Name)
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
func Chosen() nodespec.Windows {
	text := os.Getenv(Variable)
	if text == "" {
		return nodespec.Windows{}
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

// Name returns what differs from the strict world.
func Name(w nodespec.Windows) string {
	var names []string
	for _, o := range nodespec.Options() {
		if v := w.Get(o.Key); v != o.Values[0].Name {
			names = append(names, fmt.Sprintf("%s=%s", o.Key, v))
		}
	}
	if names == nil {
		return "strict"
	}
	return strings.Join(names, " ")
}
