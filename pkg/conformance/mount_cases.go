package conformance

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// names returns file names that are easy to handle incorrectly.
func names() []string {
	return []string{
		"two words", "it's", `a'b''c`, "50% of $HOME & more;", "[x] (y) {z}", "ünïcødé", "日本語", "файл", "e\u0301", "🙂", "-n", "a.b.c", "CON1",
		"#", "~tilde", "`tick`", "^caret", "kubernetes.io~csi", "pvc-6e1f3a48-0000", strings.Repeat("n", 100),
	}
}

func mountCases() []testCase {
	return []testCase{
		{name: "volume is mounted on an empty directory and unmounted", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("m")
			for range 2 {
				e.ok(e.mount(id, dir))
				e.wantMounted(dir, id)
				e.wantMounted(dir+`\`, id)
				e.wantLink(dir, true)
			}
			e.ok(e.mkdir(dir + `\inside`))
			for range 2 {
				e.ok(e.unmount(id, dir))
				e.wantLink(dir, false)
				e.wantExists(true, dir)
				e.wantExists(false, dir+`\inside`)
			}
			e.wantText("GetVolumeIDFromTargetPath", errOf(e.mountedAt(dir)), hosterr.ErrFailedPrecondition, "not a mounted folder")
			e.ok(e.mount(id, dir))
			e.wantExists(true, dir+`\inside`)
		}},
		{name: "Rmdir of a mounted directory flushes the volume", run: func(e *env) {
			_, id := e.data(gib)
			flushes := e.count("FlushFileBuffers", 0)
			for _, force := range []bool{false, true} {
				dir := e.dir("m")
				e.ok(e.mount(id, dir))
				before := flushes()
				e.ok(e.rmdir(dir, force))
				if flushes() == before {
					e.Errorf("Rmdir with force %t did not flush the volume", force)
				}
				e.wantExists(false, dir)
			}
		}},
		{name: "AWS EBS recognizes a directory without a volume and a missing one", run: func(e *env) {
			goesOn := regexp.MustCompile(`(Get-Item -Path \S+).Target, output: , error: <nil>|because it does not exist`)
			_, err := e.mountedAt(e.dir("plain dir"))
			e.wantText("GetVolumeIDFromTargetPath of a plain directory", err, hosterr.ErrFailedPrecondition, "not a mounted folder")
			if err != nil && !goesOn.MatchString(err.Error()) {
				e.Errorf("a plain directory: %v, want a match of %v", err, goesOn)
			}
			_, err = e.mountedAt(e.path("missing"))
			e.want("GetVolumeIDFromTargetPath of a missing path", err, hosterr.ErrNotFound, "The system cannot find the file specified.")
			if err != nil && !goesOn.MatchString(err.Error()) {
				e.Errorf("a missing path: %v, want a match of %v", err, goesOn)
			}
		}},
		{name: "what is at a path", run: func(e *env) {
			number, id := e.data(gib)
			dir, file, link, gone := e.dir("m"), e.path("file"), e.path("link"), e.path("gone")
			e.file(file)
			for path, want := range map[string]volume.PathKind{
				e.path("none"): volume.PATH_KIND_ABSENT, e.path("none", "x"): volume.PATH_KIND_ABSENT, file + `\x`: volume.PATH_KIND_ABSENT,
				file: volume.PATH_KIND_FILE, dir: volume.PATH_KIND_DIRECTORY,
			} {
				e.wantKind(path, want, "")
			}
			e.ok(e.mount(id, dir))
			e.ok(e.link(dir, link))
			e.ok(e.link(e.dir("d"), gone))
			e.wantKind(dir, volume.PATH_KIND_VOLUME, id)
			e.wantKind(link, volume.PATH_KIND_LINK, "")
			e.wantKind(gone, volume.PATH_KIND_LINK, "")
			e.ok(e.rmdir(e.path("d"), false))
			e.wantKind(gone, volume.PATH_KIND_BROKEN, "")

			back := e.detach(number)
			e.wantKind(dir, volume.PATH_KIND_BROKEN, id)
			e.wantKind(link, volume.PATH_KIND_LINK, "") // its target is a mount point
			back()
			e.wantKind(dir, volume.PATH_KIND_VOLUME, id)
		}},
		{name: "mount point of a volume without a file system is that of a volume", run: func(e *env) {
			_, id := e.fresh(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.wantKind(dir, volume.PATH_KIND_VOLUME, id)
		}},
		{name: "space at a path is that of the volume there", run: func(e *env) {
			_, id := e.data(gib)
			dir, link := e.dir("m"), e.path("link")
			e.ok(e.mount(id, dir))
			e.ok(e.link(dir, link))
			e.ok(e.mkdir(dir + `\inside`))
			e.file(dir + `\file`)
			want, err := e.stats(id)
			e.ok(err)
			for _, path := range []string{dir, link, dir + `\inside`, link + `\inside`, dir + `\file`} {
				if got, err := e.spaceAt(path); err != nil || got != want {
					e.Errorf("space at %s: %+v, %v, want %+v", path, got, err, want)
				}
			}
			if got, err := e.spaceAt(e.n.Dir); err != nil || got.total == want.total {
				e.Errorf("space at a plain directory: %+v, %v, want that of the system volume", got, err)
			}
			e.want("GetPathStats of a missing path", errOf(e.spaceAt(e.path("none"))), hosterr.ErrNotFound)
		}},
		{name: "volume is mounted at two paths", run: func(e *env) {
			_, id := e.data(gib)
			a, b := e.dir("a"), e.dir("b")
			e.ok(e.mount(id, a))
			e.ok(e.mount(id, b))
			e.wantMounted(a, id)
			e.wantMounted(b, id)
			e.ok(e.mkdir(a + `\x`))
			e.wantExists(true, b+`\x`)
			e.ok(e.unmount(id, a))
			e.wantMounted(b, id)
		}},
		{name: "directory with content is refused", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("m")
			e.dir("m", "x")
			e.want("MountVolume", e.mount(id, dir), hosterr.ErrFailedPrecondition, "The directory is not empty.")
			e.wantLink(dir, false)
			e.wantExists(true, dir+`\x`)
		}},
		{name: "file is refused", run: func(e *env) {
			_, id := e.data(gib)
			file := e.path("file")
			e.file(file)
			e.want("MountVolume", e.mount(id, file), hosterr.ErrFailedPrecondition)
			e.want("UnmountVolume", e.unmount(id, file), hosterr.ErrFailedPrecondition)
			e.want("MountVolume below it", e.mount(id, file+`\m`), hosterr.ErrFailedPrecondition)
			e.wantExists(true, file)
		}},
		{name: "missing directory is not found", run: func(e *env) {
			_, id := e.data(gib)
			e.want("MountVolume", e.mount(id, e.path("missing")), hosterr.ErrNotFound)
			e.want("MountVolume", e.mount(id, e.path("missing", "too")), hosterr.ErrNotFound)
			e.wantExists(false, e.path("missing"))
		}},
		{name: "mount point of another volume is refused", run: func(e *env) {
			_, one := e.data(gib)
			_, two := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(one, dir))
			e.want("MountVolume", e.mount(two, dir), hosterr.ErrFailedPrecondition)
			e.want("UnmountVolume", e.unmount(two, dir), hosterr.ErrFailedPrecondition)
			e.wantMounted(dir, one)
			e.ok(e.unmount(one, dir))
			e.ok(e.mount(two, dir))
			e.wantMounted(dir, two)
		}},
		{name: "link is refused", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("dir")
			e.ok(e.link(dir, e.path("link")))
			e.want("MountVolume", e.mount(id, e.path("link")), hosterr.ErrFailedPrecondition)
			e.want("UnmountVolume", e.unmount(id, e.path("link")), hosterr.ErrFailedPrecondition)
			e.wantLink(dir, false)
			e.wantLink(e.path("link"), true)
			e.ok(e.mount(id, dir))
			e.want("UnmountVolume of a link to a mount point", e.unmount(id, e.path("link")), hosterr.ErrFailedPrecondition)
			e.wantMounted(dir, id)
		}},
		{name: "volume is mounted below a link", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("dir")
			e.dir("dir", "m")
			e.ok(e.link(dir, e.path("link")))
			e.ok(e.mount(id, e.path("link", "m")))
			e.wantMounted(dir+`\m`, id)
			e.ok(e.unmount(id, dir+`\m`))
			e.wantLink(e.path("link", "m"), false)
		}},
		{name: "volume is mounted inside a mounted volume", run: func(e *env) {
			_, outer := e.data(gib)
			_, inner := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(outer, dir))
			e.ok(e.mkdir(dir + `\a\m`))
			e.ok(e.mount(inner, dir+`\a\m`))
			e.wantMounted(dir+`\a\m`, inner)
			e.ok(e.unmount(outer, dir))
			e.wantExists(false, dir+`\a`)
			e.ok(e.mount(outer, dir))
			e.wantMounted(dir+`\a\m`, inner)
			e.ok(e.unmount(inner, dir+`\a\m`))
			e.wantMounted(dir, outer)
		}},
		{name: "volume without a file system is mounted", run: func(e *env) {
			_, id := e.fresh(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.wantMounted(dir, id)
			e.wantLink(dir, true)
			e.ok(e.format(id))
			e.ok(e.mkdir(dir + `\x`))
			e.ok(e.unmount(id, dir))
		}},
		{name: "system volume is refused", run: func(e *env) {
			dir := e.dir("m")
			for _, id := range e.list(e.n.SystemDisk, 0) {
				e.want("MountVolume", e.mount(id, dir), hosterr.ErrFailedPrecondition)
			}
			e.wantLink(dir, false)
		}},
		{name: "volume is mounted on directories with unusual names", run: func(e *env) {
			_, id := e.data(gib)
			for _, name := range names() {
				dir := e.dir(name)
				if err := e.mount(id, dir); err != nil {
					e.Errorf("MountVolume on %q: %v", name, err)
					continue
				}
				e.wantMounted(dir, id)
				e.wantClosest(dir, id)
				e.ok(e.unmount(id, dir))
				e.wantLink(dir, false)
			}
		}},
		{name: "volume is mounted on a long path", run: func(e *env) {
			_, id := e.data(gib)
			long := e.path()
			for len(long) < 260-61 {
				long += `\` + strings.Repeat("d", 40)
			}
			long += `\` + strings.Repeat("e", 260-len(long)-1)
			e.ok(e.mkdir(long))
			e.ok(e.mount(id, long))
			e.wantMounted(long, id)
			e.wantLink(long, true)
			e.ok(e.unmount(id, long))
			e.wantLink(long, false)
			e.ok(e.rmdir(long, false))
		}},
		{name: "unmounting a directory without a volume succeeds", run: func(e *env) {
			_, id := e.data(gib)
			e.ok(e.unmount(id, e.dir("m")))
			e.ok(e.unmount(id, e.path("missing")))
			e.ok(e.unmount(id, e.path("missing", "too")))
			e.wantExists(true, e.path("m"))
		}},
		{name: "volume of a removed disk is unmounted", run: func(e *env) {
			number, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			back := e.detach(number)
			e.wantExists(true, dir)
			e.wantLink(dir, false) // its target no longer exists
			e.wantMounted(dir, id)
			e.wantClosest(dir, id)
			for range 2 {
				e.ok(e.unmount(id, dir))
			}
			e.wantText("GetVolumeIDFromTargetPath", errOf(e.mountedAt(dir)), hosterr.ErrFailedPrecondition, "not a mounted folder")
			back()
			e.wantLink(dir, false)
			e.ok(e.mount(id, dir))
			e.wantMounted(dir, id)
		}},
		{name: "mount point of a removed disk is removed", run: func(e *env) {
			number, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.detach(number)
			e.ok(e.rmdir(dir, true))
			e.wantExists(false, dir)
		}},
		{name: "volume of an offline disk is unmounted", run: func(e *env) {
			number, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.ok(e.setOnline(number, false))
			e.ok(e.unmount(id, dir))
			e.ok(e.setOnline(number, true))
			e.wantLink(dir, false)
		}},
		{name: "unmount flushes the cache and ignores a failure to", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			flushes := e.fail(Fault{Call: "FlushFileBuffers", Error: "ERROR_IO_DEVICE"})
			e.ok(e.unmount(id, dir))
			if flushes() == 0 {
				e.Error("the cache was not flushed")
			}
			e.wantLink(dir, false)
		}},
		{name: "paths outside the working directories are refused", run: func(e *env) {
			if !e.n.Confined {
				e.Skip("this node accepts every path; the daemon, which has working directories, runs the case")
			}
			_, id := e.data(gib)
			for _, path := range []string{`C:\m`, `C:\Windows`, `C:\`, `D:\m`, e.n.Dir + `-evil`} {
				for what, err := range map[string]error{
					"MountVolume": e.mount(id, path), "UnmountVolume": e.unmount(id, path),
					"GetVolumeIDFromTargetPath": errOf(e.mountedAt(path)), "GetClosestVolumeIDFromTargetPath": errOf(e.closest(path)),
					"GetPathKind": errOf(e.kindOf(path)), "GetPathStats": errOf(e.spaceAt(path)),
				} {
					if path != e.n.Dir+`-evil` { // may still be in the working directory that contains Dir
						e.want(what+" "+path, err, hosterr.ErrPermissionDenied, "path: "+path+" is not within the working directories: [")
					}
				}
			}
		}},
	}
}

func pathCases() []testCase {
	return []testCase{
		{name: "nested mount points return their own volumes", run: func(e *env) {
			_, outer := e.data(gib)
			_, inner := e.data(gib)
			system, err := e.closest(e.n.Dir)
			e.ok(err)
			dir := e.dir("m")
			e.ok(e.mount(outer, dir))
			e.ok(e.mkdir(dir + `\a\m`))
			e.ok(e.mount(inner, dir+`\a\m`))
			e.ok(e.mkdir(dir + `\a\m\b\c`))
			for path, want := range map[string]string{
				e.n.Dir: system, dir: outer, dir + `\`: outer, dir + `\a`: outer, dir + `\a\m`: inner, dir + `\a\m\b\c`: inner,
				strings.ToUpper(dir): outer, strings.ToLower(dir + `\A\M\B`): inner,
			} {
				e.wantClosest(path, want)
			}
			for _, path := range []string{e.n.Dir, dir + `\a`, dir + `\a\m\b`} {
				e.wantText("GetVolumeIDFromTargetPath "+path, errOf(e.mountedAt(path)), hosterr.ErrFailedPrecondition, "not a mounted folder")
			}
		}},
		{name: "links return the volume of their target", run: func(e *env) {
			_, id := e.data(gib)
			system, err := e.closest(e.n.Dir)
			e.ok(err)
			dir := e.dir("m")
			e.dir("plain", "sub")
			e.ok(e.mount(id, dir))
			e.ok(e.mkdir(dir + `\a\b`))
			e.ok(e.link(dir, e.path("to-mount")))
			e.ok(e.link(e.path("to-mount"), e.path("to-link")))
			e.ok(e.link(dir+`\a`, e.path("into")))
			e.ok(e.link(e.path("plain"), e.path("to-plain")))
			e.ok(e.link(e.path("plain"), dir+`\out`))
			for path, want := range map[string]string{
				e.path("to-mount"): id, e.path("to-link"): id, e.path("to-link", "a", "b"): id, e.path("into"): id, e.path("into", "b"): id,
				e.path("to-plain"): system, e.path("to-plain", "sub"): system, dir + `\out`: system, dir + `\out\sub`: system,
			} {
				e.wantClosest(path, want)
			}
			e.wantMounted(e.path("to-mount"), id)
			e.wantMounted(e.path("to-link"), id)
			// What is done to the volume would be done to everything else on it.
			for _, path := range []string{e.path("into"), e.path("to-plain"), dir + `\out`} {
				e.wantText("GetVolumeIDFromTargetPath "+path, errOf(e.mountedAt(path)), hosterr.ErrFailedPrecondition, "not a mounted folder")
				e.wantLink(path, true)
			}
		}},
		{name: "link loops are refused", run: func(e *env) {
			e.ok(e.link(e.path("b"), e.path("a")))
			e.ok(e.link(e.path("a"), e.path("b")))
			e.ok(e.link(e.path("self"), e.path("self")))
			for _, path := range []string{e.path("a"), e.path("b"), e.path("self"), e.path("a", "below"), e.path("self", "x", "y")} {
				e.want("GetClosestVolumeIDFromTargetPath "+path, errOf(e.closest(path)), hosterr.ErrFailedPrecondition)
				e.want("GetVolumeIDFromTargetPath "+path, errOf(e.mountedAt(path)), hosterr.ErrFailedPrecondition)
			}
			e.wantLink(e.path("a"), true) // one step leads to b, which exists
		}},
		{name: "link chains are followed as far as Windows does", run: func(e *env) {
			_, id := e.data(gib)
			last := e.dir("m")
			e.ok(e.mount(id, last))
			var err error
			for i := 1; err == nil && i < 80; i++ {
				next := e.path(fmt.Sprintf("link %d", i))
				if err = e.link(last, next); err != nil {
					break
				}
				last = next
				if i <= 60 {
					e.wantClosest(last, id)
				}
			}
			// Either making the link fails, or following it does.
			if err == nil {
				_, err = e.closest(last)
			}
			e.want("after 63 links", err, hosterr.ErrFailedPrecondition)
		}},
		{name: "missing path is not found", run: func(e *env) {
			e.ok(e.link(e.path("missing"), e.path("dangling")))
			for _, path := range []string{e.path("missing"), e.path("missing", "too"), e.path("dangling", "x")} {
				e.want("GetClosestVolumeIDFromTargetPath "+path, errOf(e.closest(path)), hosterr.ErrNotFound)
				e.want("GetVolumeIDFromTargetPath "+path, errOf(e.mountedAt(path)), hosterr.ErrNotFound)
			}
		}},
		{name: "drive letters return their volume", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{FileSystem: "NTFS", Letter: "E"}}})
			id := e.volume(number)
			for _, root := range []string{`E:\`, `e:\`} {
				e.wantClosest(root, id)
				e.ok(e.mkdir(root + `dir\sub`))
				e.wantClosest(root+`dir\sub`, id)
				e.wantText("GetVolumeIDFromTargetPath "+root, errOf(e.mountedAt(root)), hosterr.ErrFailedPrecondition, "not a mounted folder")
			}
			e.ok(e.mount(id, e.dir("m")))
			e.wantExists(true, e.path("m", "dir"))
			e.ok(e.unmount(id, e.path("m")))
			system, err := e.closest(strings.ToLower(e.n.Dir))
			if err != nil || system == id {
				e.Errorf("the volume of %s: %q, %v", strings.ToLower(e.n.Dir), system, err)
			}
			for _, path := range []string{`E:\missing`, `E:\dir\missing`} {
				e.want("GetClosestVolumeIDFromTargetPath "+path, errOf(e.closest(path)), hosterr.ErrNotFound)
			}
		}},
		{name: "missing drive is not found", run: func(e *env) {
			if e.n.Confined {
				e.Skip("this node refuses paths outside its working directories; the node in process runs the case")
			}
			e.want("GetClosestVolumeIDFromTargetPath", errOf(e.closest(`X:\`)), hosterr.ErrNotFound)
			e.want("GetClosestVolumeIDFromTargetPath", errOf(e.closest(`X:\a`)), hosterr.ErrNotFound)
		}},
	}
}
