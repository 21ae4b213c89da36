package hunt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// plant is a fault that is planted around the services: below them, between them and the
// node, or above them.
type plant struct {
	says string // what the found fault says, in part
	api  func(*world, win32.API) win32.API
	node func(*node.Node)
	call func(w *world, op string, do call) call
	// own means that each request has a process of its own, without the locks of the others.
	own bool
	// lock returns the locks that are forgotten when a request begins, or it is nil.
	lock func(*node.Locks) *keymutex.Set
	// crowded is the object that nearly all requests are about, or "".
	crowded string
}

// answers is a plant of operations that do nothing and give this answer.
func answers(crowded, value string, err error, ops ...string) plant {
	return plant{says: "not possible in any order", crowded: crowded, call: func(_ *world, op string, do call) call {
		if !slices.Contains(ops, op) {
			return do
		}
		return func(context.Context, *process) (string, error) { return value, err }
	}}
}

// lostLock is a plant of requests that do not wait for each other.
func lostLock(crowded string, lock func(*node.Locks) *keymutex.Set) plant {
	return plant{says: "not possible in any order", crowded: crowded, lock: lock}
}

var errPlanted = errors.New("an error without a reason")

var plants = map[string]plant{
	"Mkdir fails":                   answers("tree", "", errPlanted, "MkdirB", "MkdirD"),
	"Rmdir fails":                   answers("tree", "", errPlanted, "RmdirA", "RmdirAll", "RmdirB", "RmdirD", "RmdirLink", "Empty"),
	"CreateSymlink fails":           answers("tree", "", errPlanted, "Link"),
	"PathExists fails":              answers("tree", "", errPlanted, "Exists0", "Exists1", "Exists2", "Exists3", "Exists4"),
	"IsSymlink says no":             answers("tree", "false", nil, "IsLink"),
	"StartService fails":            answers("service", "", errPlanted, "Start"),
	"StopService fails":             answers("service", "", errPlanted, "Stop", "StopBase"),
	"GetService fails":              answers("service", "", errPlanted, "Get"),
	"StartService of MSiSCSI fails": answers("iscsi", "", errPlanted, "StartInitiator"),
	"StopService of MSiSCSI fails":  answers("iscsi", "", errPlanted, "StopInitiator"),
	"MountVolume of iSCSI fails":    answers("iscsi", "", errPlanted, "Attach"),
	"UnmountVolume of iSCSI fails":  answers("iscsi", "", errPlanted, "Release"),
	"Rescan does nothing":           answers("disk1", "", nil, "Rescan"),
	"MountVolume does nothing":      answers("disk2", "", nil, "Mount0", "Mount1"),
	"UnmountVolume does nothing":    answers("disk2", "", nil, "Unmount0", "Unmount1"),
	// Something writes to a disk that is in use.
	"bytes of a used disk": {says: "the bytes of the used disk", crowded: "disk2", api: func(w *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			used := diskObject{w: w, id: "disk2"}
			d, v := used.find(w.show())
			if c.Name != "CloseHandle" || d == nil || v == nil || !strings.EqualFold(c.Path+`\`, v.ID) || len(v.MountedAt) == 0 {
				return c.Do()
			}
			image, err := os.OpenFile(d.Image, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = image.WriteAt([]byte("something that no pod wrote"), 40*mib)
			return errors.Join(err, image.Close(), c.Do())
		})
	}},
	// Without those of volumes, tables or portals too little is found: other locks cover them.
	"lost lock of paths":    lostLock("tree", func(l *node.Locks) *keymutex.Set { return &l.Paths }),
	"lost lock of shares":   lostLock("files", func(l *node.Locks) *keymutex.Set { return &l.Shares }),
	"lost lock of disks":    lostLock("disk1", func(l *node.Locks) *keymutex.Set { return &l.Disks }),
	"lost lock of services": lostLock("service", func(l *node.Locks) *keymutex.Set { return &l.Services }),
	"lost lock of targets":  lostLock("iscsi", func(l *node.Locks) *keymutex.Set { return &l.Targets }),
	"lost lock":             {says: "not possible in any order", own: true, crowded: "disk1"},
	// The attributes of a disk are those of up to a minute ago.
	"stale cache": {says: "not possible in any order", crowded: "disk1", api: func(w *world, api win32.API) win32.API {
		type entry struct {
			out []byte
			at  time.Time
		}
		cache := map[string]entry{}
		return win32.Observe(api, func(c *win32.Call) error {
			err := c.Do()
			if c.Name != "DeviceIoControl" || c.Code != win32.IOCTL_DISK_GET_DISK_ATTRIBUTES || err != nil {
				return err
			}
			if have, ok := cache[c.Path]; ok && time.Since(have.at) < time.Minute {
				copy(c.Out, have.out)
				return nil
			}
			cache[c.Path] = entry{slices.Clone(c.Out), time.Now()}
			return nil
		})
	}},
	// The numbers of disks are those from before Windows restarted.
	"stale number": {says: "not possible in any order", crowded: "disk1", api: func(w *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			err := c.Do()
			if c.Code != win32.IOCTL_STORAGE_GET_DEVICE_NUMBER || err != nil {
				return err
			}
			if have, ok := w.numbers[c.Path]; ok {
				copy(c.Out, have)
				return nil
			}
			w.numbers[c.Path] = slices.Clone(c.Out)
			return nil
		})
	}},
	// What is read of a foreign disk looks blank to the guard.
	"missed guard": {says: "the bytes of the foreign disk", api: func(w *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			err := c.Do()
			foreign := diskObject{w: w, id: "foreign3"}
			if d, _ := foreign.find(w.show()); c.Name == "ReadAt" && strings.HasSuffix(c.Path, fmt.Sprintf("PhysicalDrive%d", d.Number)) {
				clear(c.Out)
			}
			return err
		})
	}},
	// The same for a volume, which another operating system has formatted.
	"missed guard of a volume": {says: foreignVolume, api: func(w *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			err := c.Do()
			foreign := diskObject{w: w, id: foreignVolume}
			d, v := foreign.find(w.show())
			if c.Name == "ReadAt" && v != nil && (strings.EqualFold(c.Path+`\`, v.ID) || strings.HasSuffix(c.Path, fmt.Sprintf("PhysicalDrive%d", d.Number))) {
				clear(c.Out)
			}
			return err
		})
	}},
	// The links to a share do not look like links.
	"missed link": {says: "not possible in any order", api: func(_ *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			if c.Code == win32.FSCTL_GET_REPARSE_POINT && strings.HasSuffix(c.Path, "globalmount") {
				return win32.ERROR_NOT_A_REPARSE_POINT
			}
			return c.Do()
		})
	}},
	// A volume with files is formatted.
	"missed guard of files": {says: "not possible in any order", node: func(n *node.Node) { n.FormatExisting = true }},
	// Nothing waits for what Windows does a moment later.
	"look too early": {says: "not possible in any order", node: func(n *node.Node) { n.Clock = &hasty{} }},
	// Sessions do not end.
	"kept session": {says: "not possible in any order", api: func(_ *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			if c.Name == "LogoutIScsiTarget" {
				return nil
			}
			return c.Do()
		})
	}},
	// The disk of a session does not look mounted.
	"missed mount": {says: "not possible in any order", crowded: "iscsi", api: func(w *world, api win32.API) win32.API {
		return win32.Observe(api, func(c *win32.Call) error {
			if initiator := w.object("iscsi"); c.Name == "VolumePathNames" && initiator != nil && c.Path == initiator.(*iscsiObject).volume {
				return win32.ERROR_FILE_NOT_FOUND
			}
			return c.Do()
		})
	}},
	// Some handles are never closed.
	"forgotten handle": {says: "handles left open", api: func(_ *world, api win32.API) win32.API {
		closed := 0
		return win32.Observe(api, func(c *win32.Call) error {
			if c.Name == "CloseHandle" {
				if closed++; closed%40 == 0 {
					return nil
				}
			}
			return c.Do()
		})
	}},
}

// hasty is a clock whose pauses take no time.
type hasty struct{ skipped time.Duration }

func (h *hasty) Now() time.Time { return time.Now().Add(h.skipped) }

func (h *hasty) Sleep(ctx context.Context, d time.Duration) error {
	h.skipped += d
	return ctx.Err()
}

// plantedRuns is in how many runs a planted fault must be found.
const plantedRuns = 60

// plantedFrom are the first of these runs. Those before find nothing, and are left out.
var plantedFrom = map[string]uint64{
	"MountVolume of iSCSI fails": 25, "Rescan does nothing": 10, "kept session": 5,
	"lost lock": 100, "lost lock of disks": 55, "missed guard": 5, "missed guard of files": 5,
}

// TestPlanted plants faults, and finds each of them. Without the plant, the same choices find
// nothing.
func TestPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	rows := []string{"| planted | found in run | choices | after shrinking |", "|---|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(plants)) {
		t.Run(name, func(t *testing.T) {
			first := plantedFrom[name]
			for n := first; n < first+plantedRuns; n++ {
				sp := spec{world: int(n), plant: name}
				res := run(t, sp, seeded(n, steps, plants[name].crowded))
				if res.fault == "" {
					continue
				}
				small := shrink(t, sp, res, *plantedTries)
				t.Logf("run %d: %s\nfound with %d choices, shrunk to %d in %d runs\n%s", n+1, small.fault, len(res.choices), len(small.choices), small.tries, goTest(sp, small.choices))
				if !strings.Contains(small.fault, plants[name].says) {
					t.Errorf("the fault that was found is %q, want one that says %q", small.fault, plants[name].says)
				}
				if differs := small.repeat(t, sp); differs != "" {
					t.Errorf("the replay is another run: %s", differs)
				}
				if control := run(t, spec{world: int(n)}, given(small.choices)); control.fault != "" {
					t.Errorf("without the plant, the same choices find %q", control.fault)
				}
				rows = append(rows, fmt.Sprintf("| %s | %d | %d | %d |", name, n+1, len(res.choices), len(small.choices)))
				return
			}
			t.Errorf("not found in %d runs", plantedRuns)
		})
	}
	t.Logf("as a table:\n%s", strings.Join(rows, "\n"))
	t.Attr("measured", fmt.Sprintf("%d planted faults are found, shrunk and replayed, and are not found where they are not planted", len(rows)-2))
}
