package conformance

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// result is the result of a call.
type result struct {
	method string
	err    error
}

// calls calls every method of Disk, Volume and Filesystem: with a disk, a volume,
// an empty directory to mount it on, and another directory.
func (e *env) calls(number uint32, id, dir, other string) []result {
	e.Helper()
	_, state := e.online(number)
	_, size := e.size(number)
	_, ids := e.ids()
	_, locations := e.locations()
	_, formatted := e.formatted(id)
	_, _, stats := e.stats(id)
	_, diskOf := e.diskOf(id)
	_, mounted := e.mountedAt(dir)
	_, closest := e.closest(dir)
	_, kind := e.kindOf(dir)
	_, _, space := e.spaceAt(dir)
	_, exists := e.exists(dir)
	_, isLink := e.isLink(dir)
	_, list := e.n.Volume.ListVolumesOnDisk(e.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	return []result{
		{"GetDiskState", state}, {"GetDiskStats", size}, {"ListDiskIDs", ids}, {"ListDiskLocations", locations},
		{"PartitionDisk", e.partition(number)}, {"SetDiskState", e.setOnline(number, false)}, {"Rescan", e.rescan()},
		{"IsVolumeFormatted", formatted}, {"GetVolumeStats", stats}, {"GetDiskNumberFromVolumeID", diskOf}, {"ListVolumesOnDisk", list},
		{"GetVolumeIDFromTargetPath", mounted}, {"GetClosestVolumeIDFromTargetPath", closest}, {"GetPathKind", kind}, {"GetPathStats", space},
		{"FormatVolume", e.format(id)}, {"ResizeVolume", e.resize(id, 0)}, {"WriteVolumeCache", e.flush(id)},
		{"MountVolume", e.mount(id, dir)}, {"UnmountVolume", e.unmount(id, dir)},
		{"PathExists", exists}, {"IsSymlink", isLink}, {"Mkdir", e.mkdir(dir + `\new`)}, {"Rmdir", e.rmdir(other, true)},
		{"RmdirContents", e.empty(other)}, {"CreateSymlink", e.link(other, dir+`\link`)},
	}
}

// everyMethod calls visit for every method of every Interface that the node has.
func (e *env) everyMethod(visit func(name string, request reflect.Type, call func(request reflect.Value) (reflect.Value, error))) {
	e.Helper()
	methods := 0
	node := reflect.ValueOf(e.n).Elem()
	for i := range node.NumField() {
		field := node.Type().Field(i)
		service := node.Field(i)
		if service.Kind() != reflect.Interface || service.IsNil() {
			continue
		}
		for j := range field.Type.NumMethod() {
			m := field.Type.Method(j)
			methods++
			visit(field.Name+"."+m.Name, m.Type.In(1), func(request reflect.Value) (reflect.Value, error) {
				out := service.MethodByName(m.Name).Call([]reflect.Value{reflect.ValueOf(e.ctx), request})
				err, _ := out[1].Interface().(error)
				return out[0], err
			})
		}
	}
	if methods == 0 {
		e.Error("the node has no Interface")
	}
}

// refusedQuickly checks that a request is refused as invalid within the limit.
// Work that is quadratic in the length of the request would take minutes.
func (e *env) refusedQuickly(what string, call func() error) {
	e.Helper()
	const limit = 20 * time.Second
	start := time.Now()
	err := call()
	if took := time.Since(start); !errors.Is(err, hosterr.ErrInvalid) || took > limit {
		e.Errorf("%s: %.100v after %v, want an error that is %q within %v", what, err, took, hosterr.ErrInvalid, limit)
	}
}

func argumentCases() []testCase {
	return []testCase{
		{name: "nil requests are refused", run: func(e *env) {
			e.everyMethod(func(name string, request reflect.Type, call func(reflect.Value) (reflect.Value, error)) {
				_, err := call(reflect.Zero(request))
				if !errors.Is(err, hosterr.ErrUnimplemented) {
					e.want(name, err, hosterr.ErrInvalid, name[strings.Index(name, ".")+1:]+": the request is nil")
				}
			})
		}},
		{name: "empty requests return a response or a typed error", run: func(e *env) {
			// Their disk number is 0. This case may only run where disk 0 is the
			// system disk, which the node protects.
			if e.n.SystemDisk != 0 {
				e.lacks("run this safely, because its disk 0 is not the system disk")
			}
			before := e.list(e.n.SystemDisk, 0)
			e.everyMethod(func(name string, request reflect.Type, call func(reflect.Value) (reflect.Value, error)) {
				out, err := call(reflect.New(request.Elem()))
				if !typed(err) || err == nil && out.IsNil() {
					e.Errorf("%s = %v, %v, want a response or an error with a kind", name, out, err)
				}
			})
			e.wantOnline(e.n.SystemDisk, true)
			if after := e.list(e.n.SystemDisk, 0); !slices.Equal(before, after) {
				e.Errorf("the system disk had the volumes %q, and has %q", before, after)
			}
		}},
		{name: "empty fields return the published texts", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("m")
			_, formatted := e.formatted("")
			_, _, stats := e.stats("")
			_, diskOf := e.diskOf("")
			for what, err := range map[string]error{
				"IsVolumeFormatted": formatted, "FormatVolume": e.format(""), "ResizeVolume": e.resize("", 0), "WriteVolumeCache": e.flush(""),
				"GetVolumeStats": stats, "GetDiskNumberFromVolumeID": diskOf, "UnmountVolume": e.unmount("", dir),
			} {
				e.wantText(what, err, hosterr.ErrInvalid, "volume id empty")
			}
			e.wantText("UnmountVolume", e.unmount(id, ""), hosterr.ErrInvalid, "target path empty")
			e.wantText("MountVolume", e.mount(id, ""), hosterr.ErrInvalid, "MountVolumeRequest.TargetPath is empty")
			// The library spells the field VolumeID, the API VolumeId.
			if err := e.mount("", dir); !errors.Is(err, hosterr.ErrInvalid) || !strings.EqualFold(err.Error(), "MountVolumeRequest.VolumeID is empty") {
				e.Errorf("MountVolume without volume: %v", err)
			}
			_, mounted := e.mountedAt("")
			e.wantText("GetVolumeIDFromTargetPath", mounted, hosterr.ErrInvalid, "target path is empty")
			_, closest := e.closest("")
			e.wantText("GetClosestVolumeIDFromTargetPath", closest, hosterr.ErrInvalid, "target path is empty")
		}},
		{name: "meaningless texts return typed errors", run: func(e *env) {
			_, id := e.data(gib)
			kinds := []error{hosterr.ErrInvalid, hosterr.ErrNotFound, hosterr.ErrPermissionDenied, hosterr.ErrFailedPrecondition, hosterr.ErrUnavailable}
			for _, text := range []string{
				" ", "\x00", "a\x00b", ".", "..", `\..`, `/..`, `/\`, `\NUL`, `\\`, `\\\`, `\\.\`, `\\?\`, `\\?\UNC\`, `\\.\PhysicalDrive0`, `\\.\pipe\x`, `\\?\GLOBALROOT`,
				`C`, `C:`, `C:x`, `C:\..\..`, `C:\*`, `C:\?`, `C:/x:y`, `//etc/passwd`, `\\localhost\C$\Windows`, `\\server`, `\\server\share`, `NUL`, `C:\NUL`,
				`C:\a:stream`, `C:\a::$INDEX_ALLOCATION`, `%SystemRoot%`, `$(calc)`, "`calc`", `x'; DROP`, "\r\n", "\u202e", "\ufeff", "日本", "\xff\xfe",
				strings.Repeat("a", 100_000), `C:\` + strings.Repeat(`a\`, 50_000), strings.Repeat(`\`, 10_000), `C:\` + strings.Repeat("x", 256),
			} {
				before, err := e.closest(e.n.Dir)
				e.ok(err)
				_, formatted := e.formatted(text)
				_, _, stats := e.stats(text)
				_, diskOf := e.diskOf(text)
				_, mounted := e.mountedAt(text)
				_, closest := e.closest(text)
				_, kind := e.kindOf(text)
				_, _, space := e.spaceAt(text)
				_, exists := e.exists(text)
				_, isLink := e.isLink(text)
				calls := []result{
					{"IsVolumeFormatted", formatted}, {"GetVolumeStats", stats}, {"GetDiskNumberFromVolumeID", diskOf}, {"FormatVolume", e.format(text)},
					{"ResizeVolume", e.resize(text, 1)}, {"WriteVolumeCache", e.flush(text)},
					{"MountVolume", e.mount(text, e.n.Dir)}, {"MountVolume on the text", e.mount(id, text)}, {"UnmountVolume", e.unmount(text, e.n.Dir)},
					{"GetVolumeIDFromTargetPath", mounted}, {"GetClosestVolumeIDFromTargetPath", closest}, {"GetPathKind", kind}, {"GetPathStats", space},
					{"FormatVolume with the file system", e.formatAs(id, text, 0)},
					{"PathExists", exists}, {"IsSymlink", isLink}, {"Mkdir", e.mkdir(text)},
					{"RmdirContents", e.empty(text)}, {"CreateSymlink at the text", e.link(e.n.Dir, text)}, {"CreateSymlink to the text", e.link(text, e.path("link"))},
				}
				for _, c := range calls {
					if len(text) > 1000 {
						text = fmt.Sprintf("%s… of %d bytes", text[:10], len(text))
					}
					// These only look and may succeed: in process, paths are
					// accepted that the daemon refuses.
					if c.err == nil && slices.Contains([]string{"PathExists", "GetPathKind", "GetPathStats", "GetClosestVolumeIDFromTargetPath"}, c.method) {
						continue
					}
					if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(c.err, kind) }) {
						e.Errorf("%s of %q: %v, want an error with a kind", c.method, text, c.err)
					}
				}
				if after, err := e.closest(e.n.Dir); err != nil || after != before {
					e.Fatalf("after %q: %q, %v", text, after, err)
				}
			}
			e.wantExists(true, e.n.Dir)
		}},
		{name: "paths longer than Windows allows are refused quickly", run: func(e *env) {
			_, id := e.data(gib)
			for _, path := range []string{`C:\` + strings.Repeat(`a\`, 200_000), `\\?\C:\` + strings.Repeat(`a\`, 200_000), `C:\` + strings.Repeat("a", 32765)} {
				e.refusedQuickly("MountVolume", func() error { return e.mount(id, path) })
				e.refusedQuickly("UnmountVolume", func() error { return e.unmount(id, path) })
				e.refusedQuickly("GetClosestVolumeIDFromTargetPath", func() error { _, err := e.closest(path); return err })
			}
		}},
		{name: "out-of-range disk numbers are not found", run: func(e *env) {
			for _, number := range []uint32{1000, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
				_, size := e.size(number)
				e.wantText(fmt.Sprintf("GetDiskStats of %d", number), size, hosterr.ErrNotFound, "not found")
				e.wantText(fmt.Sprintf("PartitionDisk of %d", number), e.partition(number), hosterr.ErrNotFound, "not found")
			}
		}},
	}
}
