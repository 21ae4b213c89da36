package conformance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func filesystemCases() []testCase {
	return []testCase{
		{name: "directories are made and removed", run: func(e *env) {
			dir := e.path("a", "b", "c")
			e.wantExists(false, dir)
			for range 2 {
				e.ok(e.mkdir(dir))
				e.wantExists(true, dir, e.path("a"), strings.ToUpper(dir), dir+`\`)
			}
			e.want("Rmdir of a directory with content", e.rmdir(e.path("a"), false), hosterr.ErrFailedPrecondition, "The directory is not empty.")
			e.ok(e.rmdir(dir, false))
			e.wantExists(false, dir)
			e.want("Rmdir of a missing directory", e.rmdir(dir, false), hosterr.ErrNotFound, "The system cannot find the file specified.")
			e.want("Rmdir below a missing directory", e.rmdir(dir+`\x`, false), hosterr.ErrNotFound)
			for range 2 {
				e.ok(e.rmdir(e.path("a"), true))
				e.wantExists(false, e.path("a"))
			}
			e.ok(e.rmdir(e.path("never", "was"), true))
		}},
		{name: "files are found and removed", run: func(e *env) {
			e.file(e.path("file"))
			e.wantExists(true, e.path("file"))
			e.wantExists(false, e.path("file", "x"))
			e.wantLink(e.path("file"), false)
			e.want("Mkdir", e.mkdir(e.path("file")), hosterr.ErrAlreadyExists)
			if err := e.mkdir(e.path("file", "x")); err == nil {
				e.Error("Mkdir below a file succeeded")
			}
			e.want("RmdirContents", e.empty(e.path("file")), hosterr.ErrFailedPrecondition)
			e.ok(e.link(e.path("file"), e.path("link")))
			e.wantLink(e.path("link"), true)
			e.ok(e.rmdir(e.path("link"), false))
			e.wantExists(true, e.path("file"))
			e.ok(e.rmdir(e.path("file"), false))
			e.wantExists(false, e.path("file"))
			e.dir("d")
			e.file(e.path("d", "f"))
			e.ok(e.rmdir(e.path("d"), true))
			e.wantExists(false, e.path("d"))
		}},
		{name: "directory is emptied", run: func(e *env) {
			e.dir("d", "a", "b", "c")
			e.dir("d", "two")
			e.dir("target", "kept")
			e.ok(e.link(e.path("target"), e.path("d", "link")))
			e.ok(e.link(e.path("target"), e.path("d", "a", "link")))
			for range 2 {
				e.ok(e.empty(e.path("d")))
				e.wantExists(true, e.path("d"), e.path("target", "kept"))
				e.wantExists(false, e.path("d", "a"), e.path("d", "two"), e.path("d", "link"))
			}
			e.want("RmdirContents of a missing directory", e.empty(e.path("missing")), hosterr.ErrNotFound)
			e.ok(e.link(e.path("target"), e.path("link")))
			e.want("RmdirContents of a link", e.empty(e.path("link")), hosterr.ErrFailedPrecondition)
			e.wantExists(true, e.path("target", "kept"))
		}},
		{name: "directory with many entries is emptied", run: func(e *env) {
			for i := range 300 {
				e.dir("d", fmt.Sprintf("entry with a rather long name, number %d", i))
			}
			e.ok(e.empty(e.path("d")))
			e.ok(e.rmdir(e.path("d"), false))
		}},
		{name: "links are made and removed", run: func(e *env) {
			source := e.dir("source")
			e.dir("source", "kept")
			link := e.path("link")
			for range 2 {
				e.ok(e.link(source, link))
				e.wantLink(link, true)
				e.wantExists(true, link, link+`\kept`)
			}
			e.want("CreateSymlink over another link", e.link(e.dir("other"), link), hosterr.ErrAlreadyExists)
			e.want("CreateSymlink over a directory", e.link(source, e.path("other")), hosterr.ErrAlreadyExists)
			e.want("CreateSymlink in a missing directory", e.link(source, e.path("missing", "link")), hosterr.ErrNotFound)
			e.wantLink(source, false)
			e.ok(e.rmdir(link, true))
			e.wantExists(false, link)
			e.wantExists(true, source, source+`\kept`)
			e.ok(e.link(source, link))
			e.ok(e.rmdir(link, false))
			e.wantExists(true, source+`\kept`)
			e.want("IsSymlink of a missing path", errOf(e.isLink(link)), hosterr.ErrNotFound, "The system cannot find the file specified.")
		}},
		{name: "link without a target exists and is not reported as a link", run: func(e *env) {
			link := e.path("link")
			e.ok(e.link(e.path("missing"), link))
			e.wantExists(true, link)
			e.wantLink(link, false)
			e.dir("missing")
			e.wantLink(link, true)
			e.ok(e.rmdir(e.path("missing"), false))
			e.wantLink(link, false)
			e.ok(e.rmdir(link, true))
			e.wantExists(false, link)
		}},
		{name: "mount point of a removed disk is not reported as a link", run: func(e *env) {
			number, id := e.data(gib)
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.ok(e.link(dir, e.path("link")))
			e.wantLink(dir, true)
			e.wantLink(e.path("link"), true)
			e.detach(number)
			e.wantExists(true, dir, e.path("link"))
			e.wantLink(dir, false)
			e.wantLink(e.path("link"), true) // one step leads to the mount point, which exists
		}},
		{name: "removal does not enter a mounted volume", run: func(e *env) {
			_, id := e.data(gib)
			dir := e.dir("pod", "volumes", "m")
			e.ok(e.mount(id, dir))
			e.ok(e.mkdir(dir + `\precious`))
			e.want("Rmdir", e.rmdir(e.path("pod"), true), hosterr.ErrFailedPrecondition)
			e.want("RmdirContents", e.empty(e.path("pod")), hosterr.ErrFailedPrecondition)
			e.want("RmdirContents of the mount point", e.empty(dir), hosterr.ErrFailedPrecondition)
			e.wantExists(true, dir+`\precious`)
			e.ok(e.rmdir(dir, true)) // removes the mount point and keeps the volume's files
			e.wantExists(false, dir)
			again := e.dir("again")
			e.ok(e.mount(id, again))
			e.wantExists(true, again+`\precious`)
		}},
		{name: "unusual names are accepted", run: func(e *env) {
			for _, name := range names() {
				dir, link := e.dir(name, name), e.path(name+" link")
				e.ok(e.link(dir, link))
				e.wantLink(link, true)
				e.wantExists(true, dir)
				e.ok(e.rmdir(link, false))
				e.ok(e.empty(e.path(name)))
				e.wantExists(false, dir)
				e.ok(e.rmdir(e.path(name), false))
			}
		}},
		{name: "paths of up to 260 bytes are accepted", run: func(e *env) {
			long := e.path()
			for len(long) < 200 {
				long += `\` + strings.Repeat("d", 20)
			}
			long += `\` + strings.Repeat("x", 259-len(long))
			e.ok(e.mkdir(long))
			e.wantExists(true, long)
			e.ok(e.link(e.n.Dir, long[:len(long)-1]))
			e.wantLink(long[:len(long)-1], true)
			e.ok(e.rmdir(long, false))
			e.want("PathExists of a path that is one byte longer", errOf(e.exists(long+"y")), hosterr.ErrInvalid, "path length 261 exceeds maximum characters: 260")
			e.ok(e.empty(e.n.Dir))
		}},
		{name: "deep trees are removed", run: func(e *env) {
			dir := e.path("d")
			for range 60 {
				if len(dir) > 255 {
					break
				}
				dir += `\e`
			}
			e.ok(e.mkdir(dir))
			e.ok(e.rmdir(e.path("d"), true))
			e.wantExists(false, e.path("d"))
		}},
		{name: "paths without a drive and with forward slashes are on C:", run: func(e *env) {
			dir, ok := strings.CutPrefix(e.dir("d"), "C:")
			if !ok {
				e.Skip("the directory of this node is not on drive C:; a node in which it is runs the case")
			}
			slashes := strings.ReplaceAll(dir, `\`, "/")
			e.ok(e.mkdir(dir + `\a`))
			e.ok(e.mkdir("c:" + slashes + "/b"))
			e.wantExists(true, e.path("d", "a"), e.path("d", "b"), dir+`\b`, slashes+"/a")
			e.ok(e.link(slashes+"/a", dir+`\link`))
			e.wantLink(e.path("d", "link"), true)
			e.wantLink(slashes+"/link", true)
			e.ok(e.link(e.path("d", "a"), e.path("d", "link"))) // it is that link
			e.ok(e.rmdir(slashes+"/link", false))
			e.ok(e.empty(dir))
			e.wantExists(false, e.path("d", "a"), e.path("d", "b"))
			e.ok(e.rmdir(dir, false))
			e.wantExists(false, e.path("d"))
		}},
		{name: "paths that break the rules", run: func(e *env) {
			for _, c := range []struct{ path, text string }{
				{"", "not an absolute Windows path: "},
				{`pods\x`, `not an absolute Windows path: pods\x`},
				{"C:", "path contains invalid characters: C:"},
				{`\\server\share\x`, `invalid character \ at beginning of path: \\server\share\x`},
				{`\\?\` + e.n.Dir, `invalid character \ at beginning of path: \\?\` + e.n.Dir},
				{e.path("a..b"), "path contains invalid characters: " + e.path("a..b")},
				{e.path("..", "x"), "path contains invalid characters: " + e.path("..", "x")},
				{`//server/share/x`, `invalid character \ at beginning of path: //server/share/x`},
				{e.path("a:b"), "path contains invalid characters: " + e.path("a:b")},
				{e.path("a*"), "path contains invalid characters: " + e.path("a*")},
				{e.path("a?"), "path contains invalid characters: " + e.path("a?")},
				{e.path("a|b"), "path contains invalid characters: " + e.path("a|b")},
				{e.path(`a"b`), "path contains invalid characters: " + e.path(`a"b`)},
				{e.path(strings.Repeat("long", 100)), fmt.Sprintf("path length %d exceeds maximum characters: 260", len(e.n.Dir)+1+400)},
				{e.path("a<b"), "a<b"}, {e.path("NUL"), "NUL"}, {e.path("com1.txt"), "com1.txt"}, {e.path("dot."), "dot."}, {e.path("blank "), "blank "}, {e.path("a\x01b"), ""}, {e.path("a\x00b"), ""},
			} {
				for what, err := range map[string]error{
					"PathExists": errOf(e.exists(c.path)), "IsSymlink": errOf(e.isLink(c.path)), "Mkdir": e.mkdir(c.path), "Rmdir": e.rmdir(c.path, true), "RmdirContents": e.empty(c.path),
					"CreateSymlink at the path": e.link(e.n.Dir, c.path), "CreateSymlink to the path": e.link(c.path, e.path("link")),
				} {
					e.want(fmt.Sprintf("%s %q", what, c.path), err, hosterr.ErrInvalid, c.text)
				}
			}
			e.wantExists(false, e.path("link"))
		}},
		{name: "volume roots are not removed", run: func(e *env) {
			number := e.attach(Disk{Content: nodespec.ContentGPT, Size: gib, Partitions: []Partition{{FileSystem: "NTFS", Letter: "E"}}})
			e.ok(e.mkdir(`E:\kept`))
			for what, err := range map[string]error{"Rmdir": e.rmdir(`E:\`, true), "RmdirContents": e.empty(`E:\`)} {
				if !errors.Is(err, hosterr.ErrInvalid) && !errors.Is(err, hosterr.ErrPermissionDenied) {
					e.Errorf("%s of a volume root: %v, want an error that is %q or %q", what, err, hosterr.ErrInvalid, hosterr.ErrPermissionDenied)
				}
			}
			e.wantExists(true, `E:\kept`)
			e.volume(number)
		}},
		{name: "paths outside the working directories are refused", run: func(e *env) {
			if !e.n.Confined {
				e.Skip("this node accepts every path; the daemon, which has working directories, runs the case")
			}
			for _, path := range []string{`C:\`, `C:\Windows\x`, `C:\var`, `D:\x`, e.n.Dir[:3] + "elsewhere"} {
				for what, err := range map[string]error{
					"PathExists": errOf(e.exists(path)), "IsSymlink": errOf(e.isLink(path)), "Mkdir": e.mkdir(path), "Rmdir": e.rmdir(path, true), "RmdirContents": e.empty(path),
					"CreateSymlink at the path": e.link(e.n.Dir, path), "CreateSymlink to the path": e.link(path, e.path("link")),
				} {
					e.want(what+" "+path, err, hosterr.ErrPermissionDenied, "path: "+path+" is not within the working directories: [")
				}
			}
		}},
		{name: "PathValid reports whether a path can be reached", run: func(e *env) {
			valid := func(path string) (bool, error) {
				out, err := e.n.Filesystem.PathValid(e.ctx, &filesystem.PathValidRequest{Path: path})
				if errors.Is(err, hosterr.ErrUnimplemented) {
					e.Skip("no version of the API has PathValid; the node in process runs the case")
				}
				if out == nil {
					e.Fatalf("PathValid(%q) = nil", path)
				}
				return out.Valid, err
			}
			e.ok(e.link(e.path("missing"), e.path("dangling")))
			e.ok(e.link(e.dir("d"), e.path("link")))
			for path, want := range map[string]bool{
				e.n.Dir: true, e.path("d"): true, e.path("link"): true, e.path("missing"): false, e.path("missing", "x"): false, e.path("link", "x"): false,
				e.path("a*b"): false, "": false,
			} {
				if got, err := valid(path); err != nil || got != want {
					e.Errorf("PathValid(%q) = %t, %v, want %t", path, got, err, want)
				}
			}
			if got, err := valid("C:\\a\x00b"); got || !errors.Is(err, hosterr.ErrInvalid) {
				e.Errorf("PathValid with NUL = %t, %v, want an error that is %q", got, err, hosterr.ErrInvalid)
			}
		}},
	}
}
