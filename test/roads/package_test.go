package roads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// mounter is the package, as a driver that was just started makes it.
func (v *visit) mounter() *mounter.Mounter {
	m, err := mounter.New(v.host, mounter.Options{Clock: impatient{}, Log: slog.New(slog.DiscardHandler), Local: mounter.Local{
		FreeSpace: func(path string) (total, available int64, err error) {
			if !v.readable(path) {
				err = errors.New("the path cannot be read")
			}
			return gib, gib, err
		},
	}})
	if err != nil {
		panic(err)
	}
	return m
}

// impatient is the clock of a driver that does not wait for a disk: the kubelet calls again.
type impatient struct{}

func (impatient) Now() time.Time { return time.Now() }

func (impatient) Sleep(context.Context, time.Duration) error { return context.DeadlineExceeded }

// withPackage returns a driver whose Windows side is pkg/mounter.
func withPackage(d driver) driver {
	with := func(s func(v *visit, m *mounter.Mounter) error) step {
		return func(v *visit) error { return s(v, v.mounter()) }
	}
	stats := func(at func(*visit) string) step {
		return with(func(v *visit, m *mounter.Mounter) error {
			_, _, _, err := m.Stats(v.ctx, at(v))
			return err
		})
	}
	if d.name == local.name { // the administrator mounts, the kubelet links, and the driver formats
		d.stage = with(func(v *visit, m *mounter.Mounter) error {
			s, err := m.State(v.ctx, found)
			if err == nil && s != mounter.Linked {
				err = fmt.Errorf("the path is not a link: it is %s", s)
			}
			return err
		})
		d.stats = stats(func(*visit) string { return found })
		d.unstage = with(func(v *visit, m *mounter.Mounter) error {
			id, _, err := m.VolumeAt(v.ctx, found)
			if err == nil {
				_, err = v.volume.FormatVolume(v.ctx, &volume.FormatVolumeRequest{VolumeID: id})
			}
			return err
		})
		return d
	}
	if d.identity.AzureLUN != nil {
		d.pipe = "volume/v2alpha1" // of a LUN alone
	}
	d.publish = with(func(v *visit, m *mounter.Mounter) error { return m.Publish(v.ctx, v.staging, v.target) })
	d.unpublish = with(func(v *visit, m *mounter.Mounter) error { return m.Unpublish(v.ctx, v.target) })
	d.stats = stats(func(v *visit) string { return v.target })
	if d.volume == nil {
		d.stage = with(func(v *visit, m *mounter.Mounter) error {
			return m.StageShare(v.ctx, mounter.Share{Remote: share, User: user, Password: password}, v.staging)
		})
		d.unstage = with(func(v *visit, m *mounter.Mounter) error { return m.UnstageShare(v.ctx, v.staging, share) })
		return d
	}
	d.stage = with(func(v *visit, m *mounter.Mounter) error {
		found, err := m.FindDisk(v.ctx, d.identity)
		if err == nil {
			_, err = m.StageDisk(v.ctx, found, v.staging, mounter.StageOptions{Grow: true})
		}
		return err
	})
	d.expand = with(func(v *visit, m *mounter.Mounter) error {
		_, err := m.Expand(v.ctx, v.target, v.want)
		return err
	})
	offline := d.takesOffline()
	d.unstage = with(func(v *visit, m *mounter.Mounter) error {
		var o mounter.UnstageOptions
		if offline {
			o.Offline = &d.identity
		}
		return m.UnstageDisk(v.ctx, v.staging, o)
	})
	return d
}

// A bug is one that the drivers are known for, and the note that shows it.
type bug struct {
	name string
	note *regexp.Regexp
}

var bugs = []bug{
	{"the first stage always fails", regexp.MustCompile(`^stage succeeds at call 2`)},
	{"a grown size is compared with the wrong one", regexp.MustCompile(`the volume keeps its size$`)},
	{"a disk that comes back offline is never staged", regexp.MustCompile(`^stage fails: .*(not found|panics)`)},
	{"a mapping is left", regexp.MustCompile(`^left: the SMB mapping`)},
	{"a disk is left online after a lost answer", regexp.MustCompile(`^left: the disk is online`)},
	{"unstage never succeeds after a lost answer", regexp.MustCompile(`^unstage fails`)},
	{"a directory with a pod's data is removed by force", regexp.MustCompile(`by force`)},
	{"another disk with the LUN is taken", regexp.MustCompile(`takes another disk`)},
}

// onWindowsAdapter returns a disk of an Azure machine of generation 2 on the adapter of Windows' own.
func onWindowsAdapter(lun uint32, d simnode.Disk) simnode.Disk {
	d.Bus, d.Vendor, d.Product, d.Address = "sas", "Msft", "Virtual Disk", &simnode.Address{Lun: uint8(lun)}
	d.Location = fmt.Sprintf("Integrated : Bus 0 : Device 63667 : Function 30746 : Adapter 0 : Port 0 : Target 0 : LUN %d", lun)
	return d
}

var temporaryDisk = simnode.Disk{Size: 4 * gib, Content: "mbr", Partitions: []simnode.Partition{{FileSystem: "NTFS", Label: "Temporary Storage", Letter: "D"}}}

// ordeal makes each call while a plain directory with a pod's data is in its place: the pod wrote
// when no volume was mounted there. A driver that looks for a LUN does so before its disk has
// arrived, through a proxy that lists the disks of Windows. It returns what goes wrong.
func ordeal(t *testing.T, d driver, w way) string {
	t.Helper()
	var notes []string
	for _, c := range []struct {
		name, path   string
		before, step step
	}{
		{"stage", staging, nil, d.stage}, {"unstage", staging, nil, d.unstage},
		{"publish", target, d.stage, d.publish}, {"unpublish", target, d.stage, d.unpublish},
	} {
		if d.name == local.name {
			continue // the directories are the administrator's and the kubelet's
		}
		v := arrive(t, d, w, world{})
		j := &journey{v: v, d: d}
		if err := j.call("stage", c.before, staging); err != nil {
			t.Fatalf("%s, %s: %v: %s", d.name, w.name, err, j.result())
		}
		file := full(c.path) + `\precious`
		err := v.kubelet(c.path)
		if err == nil {
			err = v.node.MakeFile(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = c.step(v)
		kept, looked := v.node.Filesystem().PathExists(v.ctx, &filesystem.PathExistsRequest{Path: file})
		if looked != nil {
			t.Fatal(looked)
		}
		if !kept.Exists {
			notes = append(notes, fmt.Sprintf("%s removes a pod's data by force (%v)", c.name, err))
		}
	}
	if d.identity.AzureLUN == nil {
		return strings.Join(notes, "; ")
	}
	w.allDisks = true
	v := arrive(t, d, w, world{node: func(c *simnode.Config) {
		c.Disks = []simnode.Disk{onWindowsAdapter(0, simnode.Disk{Content: "system"}), onWindowsAdapter(azureLUN, temporaryDisk)}
	}})
	v.host.Can = nil // as of the existing proxy, which lists them, too
	number, err := v.number()
	if err == nil {
		err = v.node.DetachDisk(number)
	}
	if err == nil {
		err = v.kubelet(staging)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.stage(v); err == nil || !strings.Contains(err.Error(), "none of 2 disks fits") && !strings.Contains(err.Error(), "lists the disks of Windows") {
		notes = append(notes, fmt.Sprintf("stage takes another disk with its LUN (%v)", err))
	}
	return strings.Join(notes, "; ")
}

// findings are the bugs that roads show, by bug: of the drivers as they are, and with the package.
type findings struct {
	mu    sync.Mutex
	shown map[string][2]map[string]int // how often, by driver
}

// add counts the bugs that the notes of roads show.
func (f *findings) add(d driver, own, with string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shown == nil {
		f.shown = map[string][2]map[string]int{}
	}
	for _, b := range bugs {
		if _, ok := f.shown[b.name]; !ok {
			f.shown[b.name] = [2]map[string]int{{}, {}}
		}
		for i, notes := range []string{own, with} {
			for _, note := range strings.Split(notes, "; ") {
				if b.note.MatchString(note) {
					f.shown[b.name][i][d.name]++
				}
			}
		}
	}
}

// hold checks that each bug is one of drivers as they are, and of none with the package.
func (f *findings) hold(t *testing.T) {
	for _, b := range bugs {
		own, with := f.shown[b.name][0], f.shown[b.name][1]
		t.Logf("%s: of %v as they are", b.name, own)
		if len(own) == 0 || len(with) > 0 {
			t.Errorf("%s: of %v as they are, and of %v with the package; want some, and none", b.name, own, with)
		}
	}
}
