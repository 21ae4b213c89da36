package roads

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
)

// maxCalls bounds the responses that are lost one after the other. No step has so many calls.
const maxCalls = 80

func (w world) fits(d driver) bool { return d.volume == nil && w.shares || d.volume != nil && w.blocks }

// Every driver takes the road in every way and world, with each response lost once, and in the
// wrong order.
func TestRoads(t *testing.T) {
	if testing.Short() {
		t.Skip("about 500 roads take too long with -short; make test runs them")
	}
	t.Run("roads", func(t *testing.T) {
		for _, d := range drivers() {
			for _, w := range d.ways {
				for _, world := range roadWorlds() {
					if !world.fits(d) {
						continue
					}
					t.Run(d.name+", "+w.name+", "+world.name, func(t *testing.T) {
						t.Parallel()
						hold(t, roadResults, d, w, world.name, walk(t, d, w, world).result())
					})
				}
			}
		}
	})
	t.Run("lost responses", func(t *testing.T) {
		for _, d := range drivers() {
			for _, w := range d.ways {
				for _, world := range worldsOfLosses() {
					if w.apis == nil || !world.fits(d) {
						continue
					}
					t.Run(d.name+", "+w.name+", "+world.name, func(t *testing.T) {
						t.Parallel()
						hold(t, lossResults, d, w, world.name, lose(t, d, w, world))
					})
				}
			}
		}
	})
	t.Run("wrong order", func(t *testing.T) {
		for _, d := range drivers() {
			for _, w := range d.ways {
				t.Run(d.name+", "+w.name, func(t *testing.T) {
					t.Parallel()
					hold(t, orderResults, d, w, "", wrongOrder(t, d, w))
				})
			}
		}
	})
}

// worldsOfLosses are those that are no part of another.
func worldsOfLosses() []world {
	return slices.DeleteFunc(roadWorlds(), func(w world) bool {
		return !slices.Contains([]string{"disks arrive offline", "restart, other disk numbers", offline, "restart, mappings disconnected", "restart, mappings work unseen"}, w.name)
	})
}

// lose loses each response once, and returns what the road notes that it does not note
// without a loss.
func lose(t *testing.T, d driver, w way, world world) string {
	usual := walk(t, d, w, world).notes
	var notes []string
	for skip := range maxCalls {
		var got []string
		var hit bool
		t.Run("response "+strconv.Itoa(skip), func(t *testing.T) { // a test, so that its node ends
			got, hit = walkWithLoss(t, d, w, world, skip)
		})
		if !hit {
			if notes == nil {
				return complete
			}
			return strings.Join(notes, "; ")
		}
		for _, n := range got {
			bare, _, _ := strings.Cut(n, " (response to")
			if !slices.Contains(usual, bare) && !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	t.Fatalf("%s, %s: a step has more than %d calls", d.name, w.name, maxCalls)
	return ""
}

// The drivers' comparisons can fail.
func TestComparisonsCanFail(t *testing.T) {
	if ebsSerial("vol0000_00000001.", ebsVolume) || googlePage83("Google persistent-disk-10", googleDevice) || azureLocation(&disk.DiskLocation{LUNID: "17"}, "7") {
		t.Error("a comparison takes the wrong disk for the right one")
	}
	// Of a path outside the working directories, EBS must not take the error for one without a volume.
	v := arrive(t, ebs, ebs.ways[0], world{})
	if _, err := v.volumeAt(`C:\Windows`); err == nil || ebsAbsent.MatchString(err.Error()) {
		t.Errorf("a path outside the working directories: %v, want an error that does not match", err)
	}
}
