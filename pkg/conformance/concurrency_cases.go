package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// callers is the number of concurrent callers of one request.
const callers = 64

// all calls f from n goroutines at the same time.
func all(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-start; f(i) })
	}
	close(start)
	wg.Wait()
}

// each makes concurrent calls that must all succeed.
func (e *env) each(what string, f func(i int) error) {
	e.Helper()
	all(callers, func(i int) {
		if err := f(i); err != nil {
			e.Errorf("%s, caller %d: %v", what, i, err)
		}
	})
}

// callTimeout is the deadline of a call, and slack how much later it may return on
// a busy machine. Both are much shorter than the delays that the calls wait for.
const (
	callTimeout = 100 * time.Millisecond
	slack       = 10 * time.Second
)

// timesOut checks that a call with a deadline, which waits for something that does
// not end, fails with its deadline's error in time.
func (e *env) timesOut(what string, f func(*env) error) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, callTimeout)
	defer cancel()
	start := time.Now()
	err := f(e.with(ctx))
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > callTimeout+slack {
		e.Errorf("%s = %v after %v, want %q within %v", what, err, took, context.DeadlineExceeded, callTimeout+slack)
	}
}

func concurrencyCases() []testCase {
	return []testCase{
		{name: "64 callers partition a disk once", run: func(e *env) {
			number := e.blank(gib)
			tables, layouts := e.count("DeviceIoControl", createDisk), e.count("DeviceIoControl", setLayout)
			e.each("PartitionDisk", func(int) error { return e.partition(number) })
			if tables() != 1 || layouts() != 1 {
				e.Errorf("%d tables and %d layouts were written, want one of each", tables(), layouts())
			}
			e.volume(number)
		}},
		{name: "64 callers stage, grow and unstage a volume once", run: func(e *env) {
			number := e.attach(Disk{Size: gib, Offline: yes()})
			dir := e.path("m")
			formats, mounts := e.count("Format", 0), e.count("SetMountPoint", 0)
			e.each("stage", func(int) error {
				if err := errors.Join(e.partition(number), e.setOnline(number, true)); err != nil {
					return err
				}
				id := e.volume(number)
				return errors.Join(e.rescan(), e.format(id), e.mkdir(dir), e.mount(id, dir))
			})
			if formats() != 1 || mounts() != 1 {
				e.Errorf("%d formats and %d mounts, want one of each", formats(), mounts())
			}
			id := e.volume(number)
			e.wantMounted(dir, id)
			e.grow(number, 3*gib)
			extends := e.count("DeviceIoControl", extendVolume)
			e.each("grow", func(int) error { return errors.Join(e.rescan(), e.resize(id, 0)) })
			if extends() != 1 {
				e.Errorf("the file system was extended %d times, want once", extends())
			}
			e.wantTotal(id, 3*gib-16*mib)
			e.each("unstage", func(int) error {
				return errors.Join(e.unmount(id, dir), e.rmdir(dir, true), e.setOnline(number, false))
			})
			e.wantExists(false, dir)
			e.wantOnline(number, false)
		}},
		{name: "64 callers make and remove directory trees", run: func(e *env) {
			e.each("make", func(i int) error {
				own := e.path("tree", fmt.Sprintf("own %d", i))
				return errors.Join(e.mkdir(e.path("tree", "common", "deep")), e.mkdir(own), e.link(e.path("tree", "common"), own+`\link`),
					e.link(e.path("tree", "common"), e.path("tree", "link")))
			})
			e.wantLink(e.path("tree", "link"), true)
			e.each("remove", func(int) error { return e.rmdir(e.path("tree"), true) })
			e.wantExists(false, e.path("tree"))
		}},
		{name: "callers for different disks do not wait for each other", run: func(e *env) {
			_, slow := e.fresh(gib)
			formats := e.fail(Fault{Call: "Format", Delay: time.Hour, Times: 1})
			done := make(chan error, 1)
			go func() { done <- e.format(slow) }()
			e.until("the other format begins", func() bool { return formats() == 1 })
			number := e.blank(gib)
			dir := e.dir("m")
			e.ok(e.partition(number))
			id := e.volume(number)
			e.ok(e.format(id))
			e.ok(e.mount(id, dir))
			e.timesOut("IsVolumeFormatted of the other volume", func(e *env) error { return errOf(e.formatted(slow)) })
			e.n.Heal()
			e.ok(<-done)
		}},
		{name: "retry joins a format whose caller left", run: func(e *env) {
			_, id := e.fresh(gib)
			e.ok(e.rescan()) // so that the first format knows the volume
			formats := e.fail(Fault{Call: "Format", Delay: time.Hour})
			ctx, cancel := context.WithCancel(e.ctx)
			first := make(chan error, 1)
			go func() { first <- e.with(ctx).format(id) }()
			e.until("the format begins", func() bool { return formats() == 1 })
			cancel()
			e.want("FormatVolume after its caller left", <-first, context.Canceled)

			e.timesOut("FormatVolume that joins it", func(e *env) error { return e.format(id) })
			retries := make(chan error, 8)
			for range cap(retries) {
				go func() { retries <- e.format(id) }()
			}
			time.Sleep(callTimeout)
			if n := formats(); n != 1 {
				e.Errorf("%d formats are running, want one", n)
			}
			e.n.Heal()
			after := e.count("Format", 0)
			for range cap(retries) {
				e.ok(<-retries)
			}
			if n := after(); n != 0 {
				e.Errorf("the volume was formatted again %d times", n)
			}
			e.wantFormatted(id, true)
		}},
		{name: "deadlines hold while waiting for a lock", run: func(e *env) {
			number, id := e.fresh(gib)
			formats := e.fail(Fault{Call: "Format", Delay: time.Hour})
			first := make(chan error, 1)
			go func() { first <- e.format(id) }()
			e.until("the format begins", func() bool { return formats() == 1 })
			dir := e.dir("m")
			for what, f := range sorted(map[string]func(*env) error{
				"IsVolumeFormatted": func(e *env) error { return errOf(e.formatted(id)) },
				"GetVolumeStats":    func(e *env) error { return errOf(e.stats(id)) },
				"FormatVolume":      func(e *env) error { return e.format(id) },
				"ResizeVolume":      func(e *env) error { return e.resize(id, 0) },
				"WriteVolumeCache":  func(e *env) error { return e.flush(id) },
				"MountVolume":       func(e *env) error { return e.mount(id, dir) },
				"UnmountVolume":     func(e *env) error { return e.unmount(id, dir) },
				"SetDiskState":      func(e *env) error { return e.setOnline(number, false) },
				"PartitionDisk":     func(e *env) error { return e.partition(number) },
			}) {
				e.timesOut(what, f)
			}
			e.wantOnline(number, true)
			e.n.Heal()
			e.ok(<-first)
			e.wantFormatted(id, true)
			e.wantLink(dir, false)
		}},
		{name: "deadlines hold while Windows hangs", run: func(e *env) {
			number := e.blank(gib)
			_, id := e.data(gib)
			dir := e.dir("m")
			for call, f := range sorted(map[string]func(*env) error{
				"CreateFile":        func(e *env) error { return e.partition(number) },
				"DeviceIoControl":   func(e *env) error { return errOf(e.size(number)) },
				"Interfaces":        func(e *env) error { return errOf(e.ids()) },
				"Reenumerate":       func(e *env) error { return e.rescan() },
				"VolumeInformation": func(e *env) error { return errOf(e.formatted(id)) },
				"FreeSpace":         func(e *env) error { return errOf(e.stats(id)) },
				"FlushFileBuffers":  func(e *env) error { return e.flush(id) },
				"SetMountPoint":     func(e *env) error { return e.mount(id, dir) },
				"NtCreateFile":      func(e *env) error { return errOf(e.exists(dir)) },
			}) {
				e.fail(Fault{Call: call, Delay: time.Hour})
				e.timesOut(call+" hangs", f)
				e.n.Heal()
			}
			e.ok(e.partition(number))
			e.ok(e.rescan())
			e.ok(e.mount(id, dir))
			e.wantMounted(dir, id)
		}},
		{name: "rescan requested during a rescan runs after it", run: func(e *env) {
			scans := e.fail(Fault{Call: "Reenumerate", Delay: time.Hour, Times: 1})
			first := make(chan error, 1)
			go func() { first <- e.rescan() }()
			e.until("the rescan begins", func() bool { return scans() == 1 })
			e.timesOut("Rescan behind one that hangs", func(e *env) error { return e.rescan() })
			e.n.Heal()
			e.ok(<-first)
			e.ok(e.rescan())
		}},
		{name: "canceled context changes nothing", run: func(e *env) {
			number := e.blank(gib)
			e.ok(e.setOnline(number, true))
			_, id := e.fresh(gib)
			_, formatted := e.data(gib)
			dir, kept := e.dir("m"), e.dir("kept")
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			ended := e.with(ctx)
			for _, c := range ended.calls(number, id, dir, kept) {
				e.want(c.method, c.err, context.Canceled)
			}
			if got := e.list(number, 0); len(got) != 0 {
				e.Errorf("the disk has the volumes %q", got)
			}
			e.wantOnline(number, true)
			e.wantFormatted(id, false)
			e.wantLink(dir, false)
			e.wantExists(true, kept)
			e.wantExists(false, dir+`\new`)
			e.wantFormatted(formatted, true)
		}},
		{name: "disk removed during a format is not found", run: func(e *env) {
			number, id := e.fresh(gib)
			formats := e.fail(Fault{Call: "Format", Delay: time.Hour})
			done := make(chan error, 1)
			go func() { done <- e.format(id) }()
			e.until("the format begins", func() bool { return formats() == 1 })
			back := e.detach(number)
			e.n.Heal()
			e.want("FormatVolume", <-done, hosterr.ErrNotFound)
			number = back()
			e.ok(e.format(e.volume(number)))
		}},
		{name: "requests succeed while disks come and go", run: func(e *env) {
			dir := e.dir("m")
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for range 15 {
						number := e.blank(100 * mib)
						if err := e.partition(number); err != nil {
							e.Errorf("PartitionDisk: %v", err)
						}
						if _, err := e.n.Detach(number); err != nil {
							e.Errorf("remove disk %d: %v", number, err)
						}
					}
				})
			}
			if e.n.Detach == nil {
				e.lacks("remove disks")
			}
			_, id := e.data(gib)
			for i := range 20 {
				formatted, err := e.formatted(id)
				if err := errors.Join(errOf(e.ids()), errOf(e.locations()), err, e.mount(id, dir), e.unmount(id, dir)); err != nil || !formatted {
					e.Errorf("round %d: %t, %v", i, formatted, err)
				}
			}
			wg.Wait()
			if err := e.rescan(); err != nil && !errors.Is(err, hosterr.ErrUnavailable) {
				e.Errorf("Rescan: %v", err)
			}
		}},
	}
}
