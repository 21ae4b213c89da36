// Package mirror makes the kubelet directory of a simulated node and that of Wine's C:
// one, so that a Windows program sees what CSI Proxy did, and CSI Proxy what the program
// did. Links and mounted volumes are symbolic links of Linux, which Wine follows.
//
// Changes of the program come to the node before each Win32 call of its services, by
// inotify, without a search. Changes of the node come to the program before the Win32 call
// that made them returns, or soon after a disk was detached or a server went down.
//
// # What is mirrored
//
// Directories, links, files by their size, and what becomes of them: made, removed, grown.
// What a program renames is removed, and made elsewhere. A mounted volume is a file system in memory with the size of the volume;
// what a program writes there stays with the volume as long as the mirror runs, or until
// the node formats it, but the node does not see it. A link whose disk or server is away leads nowhere.
package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"

	"github.com/kubernetes-csi/csi-proxy/lab/session"
	"github.com/kubernetes-csi/csi-proxy/lab/shim"
)

// Dir is the directory that is mirrored.
const Dir = `C:\var\lib\kubelet`

// Mirror is a running mirror.
type Mirror struct {
	node    *simnode.Node
	session *session.Session
	log     *slog.Logger
	base    string // Dir on this machine
	stop    func()

	running sync.WaitGroup

	mu      sync.Mutex
	events  *watcher
	have    map[uint64]entry // by ID of the node
	ids     map[string]uint64
	pulled  map[string]bool   // what a program made, and update has not seen on the node yet
	volumes map[string]volume // mounted volumes, by directory in Wine
}

// volume is a volume that was mounted.
type volume struct {
	size       simnode.Size
	fileSystem string
}

// entry is a file or directory as both sides have it.
type entry struct {
	path string // below Dir, with slashes; empty for Dir
	dir  bool
	size simnode.Size
	link string // target in Wine's own file system; empty if it is no link
	name string // what os.Readlink returns, before Windows' prefix is cut
}

// Start mirrors until Close. In the session, package shim is installed. log gets what could not be
// mirrored.
func Start(s *session.Session, n *simnode.Node, log *slog.Logger) (*Mirror, error) {
	m := &Mirror{node: n, session: s, log: log, base: s.OnLinux(Dir), have: map[uint64]entry{}, ids: map[string]uint64{}, pulled: map[string]bool{}, volumes: map[string]volume{}}
	if err := os.MkdirAll(m.base, 0o755); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	var err error
	if m.events, err = newWatcher(); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	if _, err := m.events.add("", m.base); err != nil {
		return nil, errors.Join(fmt.Errorf("mirror: %w", err), m.events.close())
	}
	if _, err := m.events.add(links, s.OnLinux(shim.Dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("mirror: %w", err), m.events.close())
	}
	if m.stop, err = n.WatchFiles(m.pull, m.push); err != nil {
		return nil, errors.Join(err, m.events.close())
	}
	m.running.Go(func() {
		for m.events.wait() {
			m.pull()
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pullPath("") // what the session had before
	m.update()
	return m, nil
}

// Close ends the mirror. Both sides keep what they have.
func (m *Mirror) Close() error {
	m.stop()
	err := m.events.close()
	m.running.Wait()
	return err
}

func (m *Mirror) failed(what, path string, err error) {
	if err != nil {
		m.log.Error("Failed to mirror", "what", what, "path", path, "err", err)
	}
}

// windows returns the path of an entry on the node.
func windows(below string) string {
	return strings.TrimSuffix(Dir+`\`+strings.ReplaceAll(below, "/", `\`), `\`)
}

// pull brings what programs changed to the node.
func (m *Mirror) pull() {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes, err := m.events.read()
	m.failed("read the changes of programs", m.base, err)
	if len(changes) == 0 {
		return
	}
	defer m.update() // learns the IDs of what is new
	for _, below := range changes {
		if file, ok := strings.CutPrefix(below, links+"/"); ok {
			m.pullLink(file)
		} else {
			m.pullPath(below)
		}
	}
}

// links is the name of shim.Dir among watched directories. It is no path below Dir.
const links = "*links"

// pullLink removes a link whose file a program has removed.
func (m *Mirror) pullLink(file string) {
	for id, e := range m.have {
		if e.link == "" || shim.File(windows(e.path)) != file {
			continue
		}
		if _, err := os.Stat(filepath.Join(m.session.OnLinux(shim.Dir), file)); !errors.Is(err, os.ErrNotExist) {
			return
		}
		m.failed("remove", e.path, errors.Join(m.node.RemoveFile(windows(e.path)), os.Remove(m.host(e)), shim.Removed(m.session, windows(e.path))))
		m.forget(id)
		return
	}
}

// pullPath brings the state of one path to the node.
func (m *Mirror) pullPath(below string) {
	host := filepath.Join(m.base, below)
	id, known := m.ids[below]
	e := m.have[id]
	info, err := os.Lstat(host)
	if known && err == nil && e.link == "" && e.dir != info.IsDir() { // a file in place of a directory, or the reverse
		m.removed(below)
		known = false
	}
	switch {
	case errors.Is(err, os.ErrNotExist) && known:
		m.removed(below)
	case err != nil:
		return
	case info.Mode()&os.ModeSymlink != 0:
		return // only the mirror makes these
	case info.IsDir():
		there, err := m.events.add(below, host)
		m.failed("watch", below, err)
		if !there {
			return
		}
		if !known {
			m.put(below, true, 0)
		}
		entries, err := os.ReadDir(host)
		m.failed("list", below, err)
		here := map[string]bool{}
		for _, child := range entries {
			p := path.Join(below, child.Name())
			here[p] = true
			m.pullPath(p)
		}
		for child := range m.ids {
			if err == nil && !here[child] && path.Dir("/"+child) == path.Join("/", below) {
				m.pullPath(child)
			}
		}
	case !known || !e.dir && e.size != simnode.Size(info.Size()):
		m.put(below, false, info.Size())
		if known { // a program may write more before update, which must not cut that off
			e.size = simnode.Size(info.Size())
			m.have[id] = e
		}
	}
}

// removed removes from the node what a program has removed, with all that was below it.
func (m *Mirror) removed(below string) {
	var gone []uint64
	for id, e := range m.have {
		if e.path == below || strings.HasPrefix(e.path, below+"/") {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, func(a, b uint64) int { return len(m.have[b].path) - len(m.have[a].path) }) // the deepest first
	for _, id := range gone {
		e := m.have[id]
		m.failed("remove", e.path, m.node.RemoveFile(windows(e.path)))
		m.forget(id)
		if e.link != "" {
			m.failed("remove the link", e.path, shim.RemoveLink(m.session, windows(e.path)))
		}
	}
}

// put puts a file or directory on the node. The next update learns its ID.
func (m *Mirror) put(below string, dir bool, size int64) {
	m.pulled[below] = true
	m.failed("put", below, m.node.PutFile(windows(below), dir, size))
}

func (m *Mirror) forget(id uint64) {
	delete(m.ids, m.have[id].path)
	delete(m.have, id)
}

// push shows what changed on the node.
func (m *Mirror) push() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.update()
}

func (m *Mirror) update() {
	files, err := m.node.Files(Dir)
	if err != nil {
		return // the node is closed
	}
	now := map[uint64]bool{}
	for _, f := range files {
		now[f.ID] = true
	}
	var gone []entry
	for id, e := range m.have {
		if !now[id] {
			gone = append(gone, e)
			m.forget(id)
		}
	}
	slices.SortFunc(gone, func(a, b entry) int { return len(b.path) - len(a.path) }) // the deepest first
	for _, e := range gone {
		m.failed("remove", e.path, m.removeHost(e))
	}
	for _, f := range files {
		if f.Path == Dir {
			continue
		}
		want := m.entry(f)
		have, known := m.have[f.ID]
		if known && have == want {
			continue
		}
		// A program may have renamed or removed what it made: then it must not come back.
		if known || !m.pulled[want.path] {
			m.failed("show", want.path, m.show(have, known, want))
		}
		m.have[f.ID], m.ids[want.path] = want, f.ID
	}
	clear(m.pulled)
}

func (m *Mirror) host(e entry) string { return filepath.Join(m.base, e.path) }

func (m *Mirror) removeHost(e entry) error {
	err := os.Remove(m.host(e))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if e.link != "" {
		err = errors.Join(err, shim.RemoveLink(m.session, windows(e.path)))
	}
	return err
}

// show makes an entry on this side what it is on the node.
func (m *Mirror) show(have entry, known bool, want entry) error {
	host := m.host(want)
	if known && (have.dir != want.dir || have.link != want.link) {
		if err := m.removeHost(have); err != nil {
			return err
		}
	}
	switch {
	case want.link != "":
		if err := shim.SetLink(m.session, windows(want.path), want.name); err != nil {
			return err
		}
		if have.link == want.link {
			return nil
		}
		return os.Symlink(want.link, host)
	case want.dir:
		if err := os.Mkdir(host, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		_, err := m.events.add(want.path, host)
		return err
	}
	mode := os.O_RDWR | os.O_CREATE
	if !known {
		mode |= os.O_EXCL
	}
	f, err := os.OpenFile(host, mode, 0o644)
	if !known && errors.Is(err, os.ErrExist) {
		return nil // a program made it, and may have written more since
	}
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() != int64(want.size) {
		err = f.Truncate(int64(want.size))
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// entry returns what this side must have for a file of the node.
func (m *Mirror) entry(f simnode.File) entry {
	e := entry{path: strings.ReplaceAll(f.Path[len(Dir)+1:], `\`, "/"), dir: f.Dir, size: f.Size}
	if f.Link != nil {
		e.link, e.name, e.dir, e.size = m.target(*f.Link), f.Link.Target, true, 0
	}
	return e
}

// nowhere is the target of links whose disk or server is away.
const nowhere = "/lab/away"

// target returns the path in Wine's own file system that stands for what a link leads to.
func (m *Mirror) target(l simnode.Link) string {
	name := strings.TrimRight(strings.TrimPrefix(l.Target, `\??\`), `\`)
	lower := strings.ToLower(name)
	switch {
	case !l.Exists:
		return nowhere
	case strings.HasPrefix(lower, "volume{"):
		dir := "/lab/volumes/" + strings.Trim(lower[len("volume"):], "{}")
		m.failed("mount", dir, m.mount(dir, volume{l.VolumeSize, l.FileSystem}))
		return dir
	case strings.HasPrefix(lower, `unc\`):
		dir := "/lab/shares/" + strings.ReplaceAll(lower[len(`unc\`):], `\`, "/")
		m.failed("make the share's directory", dir, os.MkdirAll(m.session.Host(dir), 0o755))
		return dir
	case strings.HasPrefix(lower, `c:\`):
		return m.session.InWine(name)
	}
	return nowhere
}

// mount shows a volume at a directory of Wine's own file system. After a format it is empty.
func (m *Mirror) mount(dir string, v volume) error {
	have, there := m.volumes[dir]
	if there && have == v {
		return nil
	}
	if there && have.fileSystem != v.fileSystem {
		delete(m.volumes, dir)
		if err := m.session.Unmount(dir); err != nil {
			return err
		}
		there = false
	}
	m.volumes[dir] = v
	return m.session.Mount(dir, int64(v.size), there)
}
