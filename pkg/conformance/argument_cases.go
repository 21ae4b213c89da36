package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
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
	return []result{
		{"GetDiskState", errOf(e.online(number))}, {"GetDiskStats", errOf(e.size(number))}, {"ListDiskIDs", errOf(e.ids())}, {"ListDiskLocations", errOf(e.locations())},
		{"PartitionDisk", e.partition(number)}, {"SetDiskState", e.setOnline(number, false)}, {"Rescan", e.rescan()},
		{"IsVolumeFormatted", errOf(e.formatted(id))}, {"GetVolumeStats", errOf(e.stats(id))}, {"GetDiskNumberFromVolumeID", errOf(e.diskOf(id))}, {"ListVolumesOnDisk", errOf(e.listed(number, 0))},
		{"GetVolumeIDFromTargetPath", errOf(e.mountedAt(dir))}, {"GetClosestVolumeIDFromTargetPath", errOf(e.closest(dir))}, {"GetPathKind", errOf(e.kindOf(dir))}, {"GetPathStats", errOf(e.spaceAt(dir))},
		{"FormatVolume", e.format(id)}, {"ResizeVolume", e.resize(id, 0)}, {"WriteVolumeCache", e.flush(id)},
		{"MountVolume", e.mount(id, dir)}, {"UnmountVolume", e.unmount(id, dir)},
		{"PathExists", errOf(e.exists(dir))}, {"IsSymlink", errOf(e.isLink(dir))}, {"Mkdir", e.mkdir(dir + `\new`)}, {"Rmdir", e.rmdir(other, true)},
		{"RmdirContents", e.empty(other)}, {"CreateSymlink", e.link(other, dir+`\link`)},
	}
}

// typed reports whether err is nil, has a kind, or is an error of a context.
func typed(err error) bool {
	return err == nil || hosterr.KindOf(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
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
			for what, err := range map[string]error{
				"IsVolumeFormatted": errOf(e.formatted("")), "FormatVolume": e.format(""), "ResizeVolume": e.resize("", 0), "WriteVolumeCache": e.flush(""),
				"GetVolumeStats": errOf(e.stats("")), "GetDiskNumberFromVolumeID": errOf(e.diskOf("")), "UnmountVolume": e.unmount("", dir),
			} {
				e.wantText(what, err, hosterr.ErrInvalid, "volume id empty")
			}
			e.wantText("UnmountVolume", e.unmount(id, ""), hosterr.ErrInvalid, "target path empty")
			e.wantText("MountVolume", e.mount(id, ""), hosterr.ErrInvalid, "MountVolumeRequest.TargetPath is empty")
			// The library spells the field VolumeID, the API VolumeId.
			if err := e.mount("", dir); !errors.Is(err, hosterr.ErrInvalid) || !strings.EqualFold(err.Error(), "MountVolumeRequest.VolumeID is empty") {
				e.Errorf("MountVolume without volume: %v", err)
			}
			e.wantText("GetVolumeIDFromTargetPath", errOf(e.mountedAt("")), hosterr.ErrInvalid, "target path is empty")
			e.wantText("GetClosestVolumeIDFromTargetPath", errOf(e.closest("")), hosterr.ErrInvalid, "target path is empty")
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
				calls := []result{
					{"IsVolumeFormatted", errOf(e.formatted(text))}, {"GetVolumeStats", errOf(e.stats(text))}, {"GetDiskNumberFromVolumeID", errOf(e.diskOf(text))}, {"FormatVolume", e.format(text)},
					{"ResizeVolume", e.resize(text, 1)}, {"WriteVolumeCache", e.flush(text)},
					{"MountVolume", e.mount(text, e.n.Dir)}, {"MountVolume on the text", e.mount(id, text)}, {"UnmountVolume", e.unmount(text, e.n.Dir)},
					{"GetVolumeIDFromTargetPath", errOf(e.mountedAt(text))}, {"GetClosestVolumeIDFromTargetPath", errOf(e.closest(text))}, {"GetPathKind", errOf(e.kindOf(text))}, {"GetPathStats", errOf(e.spaceAt(text))},
					{"FormatVolume with the file system", e.formatAs(id, text, 0)},
					{"PathExists", errOf(e.exists(text))}, {"IsSymlink", errOf(e.isLink(text))}, {"Mkdir", e.mkdir(text)},
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
				e.refusedQuickly("GetClosestVolumeIDFromTargetPath", func() error { return errOf(e.closest(path)) })
			}
		}},
	}
}
