package conformance

import (
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// driver uses a node in the way that published drivers do.
type driver struct {
	*env
	// twice repeats every call, as after a lost response.
	twice bool
	// kubelet spells paths as a kubelet with the default --root-dir does: the
	// staging path has no drive, the pods' paths have a lower-case one.
	kubelet bool
}

// paths returns where a volume is staged and published.
func (d driver) paths() (staging string, pods []string) {
	d.Helper()
	staging, pods = d.path("staging", "globalmount"), []string{d.path("pods", "a", "mount"), d.path("pods", "b's pod", "mount")}
	if !d.kubelet {
		return staging, pods
	}
	rest, ok := strings.CutPrefix(staging, "C:")
	if !ok {
		d.Skip("the directory of this node is not on drive C:; a node in which it is runs the case")
	}
	for i, pod := range pods {
		pods[i] = "c:" + pod[2:]
	}
	return rest, pods
}

// do makes a call that changes the node.
func (d driver) do(call func() error) {
	d.Helper()
	d.ok(call())
	if d.twice {
		d.ok(call())
	}
}

// stage mounts the volume of a new or used disk on a directory and returns the
// volume's ID.
func (d driver) stage(number uint32, dir string) string {
	d.Helper()
	d.do(func() error { return d.partition(number) })
	d.do(func() error { return d.setOnline(number, true) })
	ids := d.list(number, 0)
	if len(ids) == 0 {
		d.Fatalf("disk %d has no volume", number)
	}
	id := ids[0]
	formatted, err := d.formatted(id)
	d.ok(err)
	if !formatted {
		d.do(func() error { return d.format(id) })
	}
	if !d.mounted(dir) {
		d.do(func() error { return d.mkdir(dir) })
		d.do(func() error { return d.mount(id, dir) })
	}
	if !d.mounted(dir) {
		d.Errorf("after staging, nothing is mounted at %s", dir)
	}
	return id
}

// mounted is the opposite of the drivers' IsLikelyNotMountPoint.
func (d driver) mounted(path string) bool {
	d.Helper()
	exists, err := d.exists(path)
	d.ok(err)
	if !exists {
		return false
	}
	mounted, err := d.isLink(path)
	d.ok(err)
	return mounted
}

// unstage unmounts the volume from a directory and takes its disk offline.
func (d driver) unstage(dir string) uint32 {
	d.Helper()
	id, err := d.mountedAt(dir)
	d.ok(err)
	number, err := d.diskOf(id)
	d.ok(err)
	d.do(func() error { return d.unmount(id, dir) })
	d.do(func() error { return d.rmdir(dir, true) })
	d.do(func() error { return d.setOnline(number, false) })
	return number
}

func (d driver) publish(dir, pod string) {
	d.Helper()
	d.do(func() error { return d.mkdir(pod[:strings.LastIndex(pod, `\`)]) })
	d.do(func() error { return d.link(dir, pod) })
	if !d.mounted(pod) {
		d.Errorf("after publishing, nothing is mounted at %s", pod)
	}
}

func (d driver) unpublish(pod string) {
	d.Helper()
	d.do(func() error { return d.rmdir(pod, true) })
	d.wantExists(false, pod)
}

// life takes a volume through its life: it is staged, published to two pods,
// written to, grown, unpublished, unstaged, and staged again with all its files.
func (d driver) life(number uint32) {
	d.Helper()
	dir, pods := d.paths()
	id := d.stage(number, dir)
	for _, pod := range pods {
		d.publish(dir, pod)
		d.wantClosest(pod, id)
	}
	d.do(func() error { return d.mkdir(pods[0] + `\data\more`) })
	d.wantExists(true, dir+`\data\more`, pods[1]+`\data\more`)

	before := d.total(id)
	d.grow(number, 4*gib)
	d.do(d.rescan)
	d.do(func() error { return d.resize(id, 0) })
	if after := d.total(id); after < before+gib {
		d.Errorf("after growing, the volume has %d bytes, before it had %d", after, before)
	}

	d.unpublish(pods[0])
	d.wantExists(true, pods[1]+`\data`, dir+`\data`)
	d.unpublish(pods[1])
	number = d.unstage(dir)
	d.wantExists(false, dir)
	d.wantOnline(number, false)

	number = d.detach(number)()
	if again := d.stage(number, dir); again != id {
		d.Errorf("after staging again, the volume is %s, before it was %s", again, id)
	}
	d.wantExists(true, dir+`\data\more`)
	d.unstage(dir)
}

func driverCases() []testCase {
	bySerial := func(e *env, serial string) uint32 {
		e.Helper()
		all, err := e.ids()
		e.ok(err)
		for number, ids := range all {
			if ids.SerialNumber == serial {
				return number
			}
		}
		e.Fatalf("no disk with the serial number %q", serial)
		return 0
	}
	var cases []testCase
	for _, twice := range []bool{false, true} {
		name := func(s string) string {
			if twice {
				return s + ", with every call repeated"
			}
			return s
		}
		cases = append(cases,
			testCase{name: name("volume is staged, published, grown, unstaged and staged again"), run: func(e *env) {
				driver{env: e, twice: twice}.life(e.blank(2 * gib))
			}},
			testCase{name: name("kubelet stages without a drive and publishes with a lower-case one"), run: func(e *env) {
				driver{env: e, twice: twice, kubelet: true}.life(e.blank(2 * gib))
			}},
			testCase{name: name("local provisioner makes and removes directories"), run: func(e *env) {
				d := driver{env: e, twice: twice}
				_, id := e.data(gib)
				root := e.path("local", "vol1")
				d.do(func() error { return e.mkdir(root) })
				d.do(func() error { return e.mount(id, root) })
				for _, name := range []string{"pvc-a", "pvc-b"} {
					d.do(func() error { return e.mkdir(root + `\` + name + `\lost and found`) })
				}
				d.publish(root+`\pvc-a`, e.path("pods", "p", "mount"))
				d.unpublish(e.path("pods", "p", "mount"))
				d.do(func() error { return e.empty(root + `\pvc-a`) })
				e.wantExists(true, root+`\pvc-a`, root+`\pvc-b\lost and found`)
				e.wantExists(false, root+`\pvc-a\lost and found`)
				d.do(func() error { return e.rmdir(root+`\pvc-b`, true) })
				if got, err := e.stats(id); err != nil || got.used >= got.total {
					e.Errorf("stats: %+v, %v", got, err)
				}
			}},
		)
	}
	return append(cases,
		testCase{name: "volumes and links survive a restart of Windows", run: func(e *env) {
			if e.n.Restart == nil {
				e.lacks("restart Windows")
			}
			d := driver{env: e}
			number, other := e.attach(Disk{Size: gib, Serial: "contract-staged"}), e.attach(Disk{Size: gib, Serial: "contract-other"})
			dir, pod := e.path("staging"), e.path("pod")
			id := d.stage(number, dir)
			d.publish(dir, pod)
			e.ok(e.mkdir(pod + `\data`))
			e.ok(e.partition(other))
			e.ok(e.setOnline(other, false))
			e.need("restart Windows", e.n.Restart())
			number, other = bySerial(e, "contract-staged"), bySerial(e, "contract-other")
			e.wantOnline(number, true)
			e.wantOnline(other, false)
			e.wantMounted(dir, id)
			e.wantExists(true, pod+`\data`)
			if again := d.stage(number, dir); again != id {
				e.Errorf("after staging again, the volume is %s, before it was %s", again, id)
			}
			d.unpublish(pod)
			d.unstage(dir)
		}},
		testCase{name: "volume is unstaged after its disk was removed", run: func(e *env) {
			d := driver{env: e}
			number := e.blank(gib)
			dir, pod := e.path("staging"), e.path("pods", "p", "mount")
			id := d.stage(number, dir)
			d.publish(dir, pod)
			e.detach(number)
			d.unpublish(pod)
			got, err := e.mountedAt(dir)
			if err != nil || !strings.EqualFold(got, id) {
				e.Errorf("mounted: %q, %v, want %q", got, err, id)
			}
			e.ok(e.unmount(id, dir))
			e.ok(e.rmdir(dir, true))
			e.want("GetDiskNumberFromVolumeID", errOf(e.diskOf(id)), hosterr.ErrNotFound)
			e.wantExists(false, dir)
		}},
		testCase{name: "new disk with the number of a removed disk has its own volume", run: func(e *env) {
			d := driver{env: e}
			number := e.blank(gib)
			dir := e.path("staging")
			old := d.stage(number, dir)
			e.detach(number)
			if again := e.attach(Disk{Size: gib}); again != number {
				e.lacks("reuse the number of a removed disk")
			}
			e.ok(e.unmount(old, dir))
			id := d.stage(number, dir)
			e.wantMounted(dir, id)
			if id == old {
				e.Errorf("the new disk has the old volume %s", id)
			}
			if err := e.format(old); !errors.Is(err, hosterr.ErrNotFound) {
				e.Errorf("FormatVolume of the old volume = %v, want not found", err)
			}
		}},
	)
}
