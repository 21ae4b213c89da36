package roads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

func linkAt(path string) *filesystem.IsSymlinkRequest {
	return &filesystem.IsSymlinkRequest{Path: normal(path)}
}

func directory(path string) *filesystem.MkdirRequest {
	return &filesystem.MkdirRequest{Path: normal(path)}
}

// A world is a node, and what happens to it while a pod uses the volume.
type world struct {
	name   string
	node   func(*simnode.Config)
	blocks bool // for drivers of disks
	shares bool // for drivers of shares
	// event happens after the first publish. The kubelet then repeats stage and publish.
	event func(*visit) error
}

// reboot restarts Windows, and so CSI Proxy.
func reboot(v *visit) error {
	if err := v.node.Reboot(); err != nil || v.restart == nil {
		return err
	}
	return v.restart()
}

// keepsNumbers is for nodes whose disks reattach gives other numbers.
func keepsNumbers(c *simnode.Config) { c.DiskNumbers = nodespec.DiskNumbersKept }

// reattach restarts Windows with the disk at another number, offline if asked.
func reattach(offline bool) func(*visit) error {
	return func(v *visit) error {
		n, err := v.number()
		if err != nil {
			return err
		}
		if err := v.node.DetachDisk(n); err != nil {
			return err
		}
		if _, err := v.node.AttachDisk(simnode.Disk{Number: &n, Size: gib}); err != nil {
			return err
		}
		if _, err := v.node.AttachDisk(simnode.Disk{ID: v.id, Offline: &offline, ReadOnly: &offline}); err != nil {
			return err
		}
		return reboot(v)
	}
}

func smbAfterReboot(what string) func(*simnode.Config) {
	return func(c *simnode.Config) { c.World = behavior.In("", behavior.Windows{SMBAfterReboot: what}) }
}

func roadWorlds() []world {
	return []world{
		{name: "as attached", blocks: true, shares: true},
		{name: "disks arrive offline", blocks: true, node: func(c *simnode.Config) { c.SANPolicy = "offlineAll" }},
		{name: "restart", blocks: true, event: reboot},
		{name: "restart, other disk numbers", blocks: true, event: reattach(false), node: keepsNumbers},
		{name: "restart, other numbers and offline", blocks: true, event: reattach(true), node: keepsNumbers},
		{name: "restart, mappings absent", shares: true, node: smbAfterReboot("absent"), event: reboot},
		{name: "restart, mappings disconnected", shares: true, node: smbAfterReboot("disconnected"), event: reboot},
		{name: "restart, mappings work unseen", shares: true, node: smbAfterReboot("working"), event: reboot},
	}
}

// arrive makes a node with the driver's volume, as the driver sees it through w.
func arrive(t *testing.T, d driver, w way, world world) *visit {
	t.Helper()
	n := simnode.New(t, func(c *simnode.Config) {
		c.Seed = 1
		c.Log = slog.New(slog.DiscardHandler)
		c.SMBServers = []simnode.SMBServer{{Name: "files.example.com", Shares: []string{"data"},
			Accounts: []simnode.SMBAccount{{User: user, Password: password}}}}
		if !d.rescans {
			c.Attach = nodespec.AttachPlugAndPlay
		}
		if world.node != nil {
			world.node(c)
		}
	})
	v := &visit{ctx: context.Background(), node: n, proxy: connect(t, n, w, d.name == local.name), staging: staging, target: target}
	v.begin(t, d)
	return v
}

// begin attaches the driver's disk, if it has one, and prepares the node.
func (v *visit) begin(t *testing.T, d driver) {
	t.Helper()
	if d.volume != nil {
		add := *d.volume
		add.ID, add.Size = "volume", gib
		v.id = add.ID
		info, err := v.node.AttachDisk(add)
		if err != nil {
			t.Fatal(err)
		}
		v.await(t, d, info.Number)
	}
	if d.prepare != nil {
		if err := d.prepare(v); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until Windows sees a new disk, as the kubelet does by calling the driver
// until it finds the disk. The first call of a driver that rescans makes Windows look.
func (v *visit) await(t *testing.T, d driver, number uint32) {
	t.Helper()
	if d.rescans {
		if _, err := v.disk.Rescan(v.ctx, &disk.RescanRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		state, err := v.node.Show()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(state.Disks, func(d simnode.DiskInfo) bool { return d.Number == number })
		if !state.Disks[i].Waiting {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: disk %d is not seen after a minute", d.name, number)
		}
	}
}

// number returns the present number of the disk.
func (v *visit) number() (uint32, error) {
	state, err := v.node.Show()
	if err != nil {
		return 0, err
	}
	for _, d := range state.Disks {
		if d.ID == v.id {
			return d.Number, nil
		}
	}
	return 0, fmt.Errorf("disk %s is not attached", v.id)
}

// kubelet makes the directories that the kubelet makes before it calls a driver.
func (v *visit) kubelet(paths ...string) error {
	for _, p := range paths {
		exists, err := v.node.Filesystem().PathExists(v.ctx, &filesystem.PathExistsRequest{Path: normal(p)})
		if err != nil {
			return err
		}
		if !exists.Exists {
			if _, err := v.node.Filesystem().Mkdir(v.ctx, directory(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tries is how often the kubelet calls before a road counts as stuck.
const tries = 3

// A journey takes a driver through steps and notes what is not as it should be.
type journey struct {
	v     *visit
	d     driver
	notes []string
}

func (j *journey) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, have := range j.notes {
		if have == text {
			return
		}
	}
	j.notes = append(j.notes, text)
}

var errStuck = errors.New("stuck")

// call calls a step until it succeeds, as the kubelet does. before is what the kubelet
// does each time.
func (j *journey) call(name string, s step, before ...string) error {
	if s == nil {
		return nil
	}
	var failed error
	for i := range tries {
		if err := j.v.kubelet(before...); err != nil {
			return fmt.Errorf("kubelet, before %s: %w", name, err)
		}
		err := s(j.v)
		if err == nil {
			if i > 0 {
				j.note("%s succeeds at call %d, after %s", name, i+1, short(failed))
			}
			return nil
		}
		failed = err
	}
	j.note("%s fails: %s", name, short(failed))
	return errStuck
}

// twice makes two calls, since every step has to be idempotent.
func (j *journey) twice(name string, s step, before ...string) error {
	if err := j.call(name, s, before...); err != nil {
		return err
	}
	return j.call(name+" again", s, before...)
}

// kept is the pod's file.
func (v *visit) kept() string { return v.target + `\kept` }

// holds reports an error unless the pod can still read its file.
func (j *journey) holds(when string) error {
	err := j.v.write(j.v.target)
	if err != nil && !protected(err) {
		j.note("%s the volume cannot be read: %s", when, short(err))
		return errStuck
	}
	if err != nil {
		j.note("%s the volume can only be read", when)
	}
	out, err := j.v.node.Filesystem().PathExists(j.v.ctx, &filesystem.PathExistsRequest{Path: j.v.kept()})
	if err == nil && !out.Exists {
		err = errors.New("no such file")
	}
	if err != nil {
		j.note("%s the pod's file is gone: %s", when, short(err))
		return errStuck
	}
	return nil
}

func (j *journey) grow() error {
	if j.d.expand == nil || j.v.id == "" {
		return nil
	}
	n, err := j.v.number()
	if err != nil {
		return err
	}
	j.v.want = 2 * gib
	if err := j.v.node.GrowDisk(n, simnode.Size(j.v.want)); err != nil {
		return err
	}
	if err := j.twice("expand", j.d.expand); err != nil {
		j.note("the volume keeps its size")
		return nil // the pod keeps running
	}
	// What the driver reported is not what counts.
	list, err := j.v.node.Volume().ListVolumesOnDisk(j.v.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: n})
	if err != nil {
		return err
	}
	size, err := j.v.node.Volume().GetVolumeStats(j.v.ctx, &volume.GetVolumeStatsRequest{VolumeID: list.VolumeIDs[0]})
	if err != nil {
		return err
	}
	if size.TotalBytes < j.v.want-64<<20 {
		j.note("expand succeeds, and the volume keeps its size")
	}
	return nil
}

// life is the whole road, with an event in the middle. step calls a step of the driver.
func (j *journey) life(event func(*visit) error, step func(name string, s step, before ...string) error) error {
	if err := step("stage", j.d.stage, j.v.staging); err != nil {
		return err
	}
	if err := step("publish", j.d.publish, parent(j.v.target)); err != nil {
		return err
	}
	if err := j.v.node.MakeFile(full(j.v.kept())); err != nil {
		j.note("after publish: the volume cannot be written: %s", short(err))
		return errStuck
	}
	if event != nil {
		if err := event(j.v); err != nil {
			return err
		}
		if err := step("stage", j.d.stage, j.v.staging); err != nil {
			return err
		}
		if err := step("publish", j.d.publish, parent(j.v.target)); err != nil {
			return err
		}
		if err := j.holds("after the restart"); err != nil {
			return err
		}
	}
	if err := step("stats", j.d.stats); err != nil {
		return err
	}
	if err := j.grow(); err != nil {
		return err
	}
	if err := j.holds("before unpublish"); err != nil {
		return err
	}
	if err := step("unpublish", j.d.unpublish); err != nil {
		return err
	}
	return step("unstage", j.d.unstage)
}

const leftOnline = "left: the disk is online"

// after notes what a road leaves behind.
func (j *journey) after() error {
	state, err := j.v.node.Show()
	if err != nil {
		return err
	}
	if j.d.volume == nil {
		for range state.SMBMappings {
			j.note("left: the SMB mapping")
		}
		return nil
	}
	for _, m := range state.Mounts {
		if j.d.name != local.name && strings.Contains(strings.ToLower(m.Path), `\kubelet\`) {
			j.note("left: the mount point")
		}
	}
	for _, d := range state.Disks {
		if d.ID == j.v.id && d.Online && j.d.takesOffline() {
			j.note(leftOnline)
		}
	}
	return nil
}

// takesOffline says whether the driver takes a disk offline when it unstages.
func (d driver) takesOffline() bool {
	return d.name == ebs.name || d.name == gce.name || d.name == vsphere.name
}

func (j *journey) result() string {
	if len(j.notes) == 0 {
		return "complete"
	}
	return strings.Join(j.notes, "; ")
}

// walk is one road in one world.
func walk(t *testing.T, d driver, w way, world world) *journey {
	j := &journey{v: arrive(t, d, w, world), d: d}
	if err := j.life(world.event, j.twice); err != nil && !errors.Is(err, errStuck) {
		t.Fatalf("%s, %s, %s: %v", d.name, w.name, world.name, err)
	} else if err == nil {
		if err := j.after(); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// walkWithLoss loses, in each step, the response to call number skip. hit says whether
// any step had so many calls.
func walkWithLoss(t *testing.T, d driver, w way, world world, skip int) (notes []string, hit bool) {
	j := &journey{v: arrive(t, d, w, world), d: d}
	step := func(name string, s step, before ...string) error {
		if s == nil {
			return nil
		}
		if err := j.v.kubelet(before...); err != nil {
			return err
		}
		j.v.lost.arm(skip)
		err := s(j.v)
		lost := j.v.lost.disarm()
		if lost == "" && err == nil {
			return nil
		}
		hit = hit || lost != ""
		had := len(j.notes)
		err = j.call(name, s, before...)
		if len(j.notes) > had && lost != "" {
			j.notes[len(j.notes)-1] += " (response to " + lost + " lost)"
		}
		return err
	}
	if err := j.life(world.event, step); err != nil && !errors.Is(err, errStuck) {
		t.Fatalf("%s, %s, loss of response %d: %v", d.name, w.name, skip, err)
	} else if err == nil {
		if err := j.after(); err != nil {
			t.Fatal(err)
		}
		for i, n := range j.notes {
			if hit && n == leftOnline {
				j.notes[i] += ": the driver, called again, returns before it takes the disk offline"
			}
		}
	}
	return j.notes, hit
}

// wrongOrder calls every step when it is not its turn, then walks the road.
func wrongOrder(t *testing.T, d driver, w way) string {
	j := &journey{v: arrive(t, d, w, world{}), d: d}
	try := func(name string, s step) {
		if s == nil {
			return
		}
		if err := s(j.v); err != nil {
			j.note("%s first: %s", name, short(err))
		}
	}
	try("unstage", d.unstage)
	try("unpublish", d.unpublish)
	try("stats", d.stats)
	try("expand", d.expand)
	if err := j.life(nil, j.call); err != nil && !errors.Is(err, errStuck) {
		t.Fatalf("%s, %s, wrong order: %v", d.name, w.name, err)
	} else if err == nil {
		if err := j.after(); err != nil {
			t.Fatal(err)
		}
	}
	return j.result()
}
