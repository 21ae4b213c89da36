package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// everyCall returns a fault for each Windows call that the disk, volume and
// filesystem services make. Error is left for the caller to set.
func everyCall() []Fault {
	faults := []Fault{{Call: "CreateFile"}, {Call: "Interfaces"}, {Call: "Reenumerate"}, {Call: "VolumeNames"}, {Call: "VolumeInformation"},
		{Call: "VolumeNameForMountPoint"}, {Call: "VolumePathName"}, {Call: "WindowsDirectory"}, {Call: "SetMountPoint"}, {Call: "DeleteMountPoint"},
		{Call: "FreeSpace"}, {Call: "Format"}, {Call: "FlushFileBuffers"}, {Call: "WriteAt"}, {Call: "ReadAt"}, {Call: "NtCreateFile"},
		{Call: "QueryDirectory"}, {Call: "QueryInformation"}, {Call: "SetInformation"}, {Call: "FinalPath"}, {Call: "Attributes"}}
	for _, code := range []uint32{createDisk, setLayout, getLayout, updateProperties, updateSize, setAttributes, getAttributes, growPartition, extendVolume,
		volumeExtents, deviceName, queryPoints, getDeviceNumber, getLength, getReparsePoint, setReparsePoint, ntfsData, 0} {
		faults = append(faults, Fault{Call: "DeviceIoControl", Code: code})
	}
	return faults
}

// typed reports whether err is nil, has a kind, or is an error of a context.
func typed(err error) bool {
	return err == nil || hosterr.KindOf(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func faultCases() []testCase {
	var cases []testCase
	for _, failure := range []string{"ERROR_GEN_FAILURE", "ERROR_INVALID_FUNCTION", "ERROR_INVALID_PARAMETER", "ERROR_CRC"} {
		cases = append(cases, testCase{name: "Windows calls that fail with " + failure + " cause no wrong results", run: func(e *env) { e.failEveryCall(failure) }})
	}
	return append(cases, testCase{name: "data survives random calls in random order", run: func(e *env) {
		for seed := range uint64(4) {
			e.randomCalls(seed)
		}
	}})
}

// failEveryCall makes the calls of drivers while one Windows call after the other fails. A
// response may be an error, but not wrong.
func (e *env) failEveryCall(failure string) {
	e.Helper()
	_, full := e.data(gib)
	at := e.dir("full")
	e.ok(e.mount(full, at))
	e.ok(e.mkdir(at + `\precious`))
	e.ok(e.link(at, e.path("link")))
	for i, f := range everyCall() {
		f.Error = failure
		name := fmt.Sprintf("%s %#x fails with %s", f.Call, f.Code, failure)
		blank := e.blank(gib)
		number, id := e.fresh(gib)
		grown, small := e.data(gib)
		e.grow(grown, 3*gib)
		e.ok(e.rescan())
		dir := e.dir(fmt.Sprintf("m%d%s", i, failure))
		e.fail(f)

		if got, err := e.formatted(full); err == nil && !got {
			e.Errorf("%s: a formatted volume is reported as not formatted", name)
		}
		if got, err := e.stats(full); err == nil && got.total == 0 {
			e.Errorf("%s: a formatted volume is reported with 0 bytes", name)
		}
		if err := e.format(full); err == nil {
			e.Errorf("%s: a volume with content was formatted", name)
		}
		for _, path := range []string{at, at + `\precious`, e.path("link")} {
			if got, err := e.exists(path); err == nil && !got {
				e.Errorf("%s: %s is reported as missing", name, path)
			}
		}
		for _, path := range []string{at, e.path("link")} {
			if got, err := e.isLink(path); err == nil && !got {
				e.Errorf("%s: %s is not reported as a link", name, path)
			}
			if got, err := e.mountedAt(path); err == nil && got != full {
				e.Errorf("%s: volume %q is reported at %s", name, got, path)
			}
			if got, err := e.closest(path); err == nil && got != full {
				e.Errorf("%s: %s is reported on volume %q", name, path, got)
			}
		}
		// With ERROR_INVALID_FUNCTION a volume says that it lies on no disk.
		if got, err := e.brief().listed(number, 0); err == nil && failure != "ERROR_INVALID_FUNCTION" && !slices.Equal(got, []string{id}) {
			e.Errorf("%s: volumes %q of disk %d, want %q", name, got, number, id)
		}
		if got, err := e.online(number); err == nil && !got {
			e.Errorf("%s: disk %d is reported as offline", name, number)
		}
		if got, err := e.size(number); err == nil && got != gib {
			e.Errorf("%s: disk %d is reported with %d bytes", name, number, got)
		}
		if got, err := e.diskOf(id); err == nil && got != number {
			e.Errorf("%s: the volume of disk %d is reported on disk %d", name, number, got)
		}

		// A call that reports success must have done its work. The caller of
		// PartitionDisk is impatient, because some faults hide the volume that
		// it waits for.
		partitioned, formatted, mounted := e.brief().partition(blank), e.format(id), e.mount(id, dir)
		resized, made, linked := e.resize(small, 0), e.mkdir(dir+"new"), e.link(dir, dir+"link")
		e.n.Heal()
		if partitioned == nil {
			e.volume(blank)
		}
		if formatted == nil {
			e.wantFormatted(id, true)
		}
		if mounted == nil {
			e.wantMounted(dir, id)
		}
		if resized == nil {
			e.wantTotal(small, 3*gib-16*mib)
		}
		if made == nil {
			e.wantExists(true, dir+"new")
		}
		if linked == nil {
			e.wantLink(dir+"link", true)
		}
		e.ok(e.mount(id, dir))
		e.fail(f)
		unmounted, removed, offline := e.unmount(id, dir), e.rmdir(dir+"link", false), e.setOnline(blank, false)
		e.n.Heal()
		if unmounted == nil {
			e.wantLink(dir, false)
		}
		if removed == nil {
			e.wantExists(false, dir+"link")
		}
		if offline == nil {
			e.wantOnline(blank, false)
		}
		e.ok(e.unmount(id, dir))
		for _, n := range []uint32{blank, number, grown} {
			e.detach(n)
		}
	}
	e.wantExists(true, at+`\precious`)
	e.wantMounted(at, full)
}

// randomCalls makes random concurrent calls on three disks, some with short
// deadlines. The content of the volumes must still be there at the end, and the
// disks must still be usable.
func (e *env) randomCalls(seed uint64) {
	e.Helper()
	type target struct {
		number uint32
		id     string
	}
	var targets []target
	var dirs []string
	for i := range 3 {
		number, id := e.data(gib)
		keep := e.dir(fmt.Sprintf("keep %d %d", seed, i))
		e.ok(e.mount(id, keep))
		e.ok(e.mkdir(fmt.Sprintf(`%s\precious %d`, keep, i)))
		e.ok(e.unmount(id, keep))
		targets = append(targets, target{number, id})
		dirs = append(dirs, e.dir(fmt.Sprintf("d %d %d", seed, i)))
	}
	// Calls disturb each other and may fail, but every error must have a kind.
	check := func(what string, err error) {
		if !typed(err) {
			e.Errorf("seed %d: %s: %v, want an error with a kind", seed, what, err)
		}
	}
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, worker))
			for range 60 {
				x, dir := targets[r.IntN(len(targets))], dirs[r.IntN(len(dirs))]
				caller, cancel := e, context.CancelFunc(func() {})
				if r.IntN(4) == 0 {
					var ctx context.Context
					ctx, cancel = context.WithTimeout(e.ctx, time.Duration(r.IntN(2000))*time.Microsecond)
					caller = e.with(ctx)
				}
				switch r.IntN(16) {
				case 0:
					check("PartitionDisk", caller.partition(x.number))
				case 1:
					check("SetDiskState", caller.setOnline(x.number, false))
				case 2, 3, 4:
					check("SetDiskState", caller.setOnline(x.number, true))
				case 5:
					if err := caller.format(x.id); err == nil {
						e.Errorf("seed %d: a volume with content was formatted", seed)
					} else {
						check("FormatVolume", err)
					}
				case 6:
					check("ResizeVolume", caller.resize(x.id, 0))
				case 7, 8:
					check("MountVolume", caller.mount(x.id, dir))
				case 9:
					check("UnmountVolume", caller.unmount(x.id, dir))
				case 10:
					check("Rmdir", caller.rmdir(dir, true))
				case 11:
					check("RmdirContents", caller.empty(dir))
				case 12:
					check("Mkdir", caller.mkdir(dir))
				case 13:
					formatted, err := caller.formatted(x.id)
					if err == nil && !formatted {
						e.Errorf("seed %d: a formatted volume is reported as not formatted", seed)
					}
					check("IsVolumeFormatted", err)
				case 14:
					_, err := caller.closest(dir)
					check("GetClosestVolumeIDFromTargetPath", err)
				case 15:
					check("Rescan", caller.rescan())
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for i, x := range targets {
		e.ok(e.setOnline(x.number, true))
		for _, dir := range dirs {
			if at, err := e.mountedAt(dir); err == nil && slices.ContainsFunc(targets, func(x target) bool { return x.id == at }) {
				e.ok(e.unmount(at, dir))
			}
		}
		keep := e.path(fmt.Sprintf("keep %d %d", seed, i))
		e.ok(e.mount(x.id, keep))
		e.wantExists(true, fmt.Sprintf(`%s\precious %d`, keep, i))
		e.ok(e.unmount(x.id, keep))
	}
}
