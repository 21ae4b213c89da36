package mirror

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watcher is an inotify instance. The kernel queues an event before the system call that
// causes it returns, so all that has happened is in the queue.
type watcher struct {
	file   *os.File
	conn   syscall.RawConn
	dirs   map[int32]string // watched directories, below the root of the mirror
	buffer []byte
}

// change is a path that may have changed, or a rename from another one.
type change struct {
	path, from string
	leaves     uint32 // cookie of a rename away from path
}

func newWatcher() (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &watcher{file, conn, map[int32]string{}, make([]byte, 64<<10)}, nil
}

func (w *watcher) close() error { return w.file.Close() }

// wait waits until something has changed. It returns false after close.
func (w *watcher) wait() bool {
	return w.conn.Read(func(fd uintptr) bool {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
		return err != nil || n > 0
	}) == nil
}

// add watches a directory. It returns false if the directory is gone: there is an event for
// that.
func (w *watcher) add(below, host string) (bool, error) {
	const mask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	id := -1
	var err error
	if closed := w.conn.Control(func(fd uintptr) { id, err = unix.InotifyAddWatch(int(fd), host, mask) }); closed != nil {
		return true, closed
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("inotify: %w", err)
	}
	w.dirs[int32(id)] = below
	return true, nil
}

// renamed gives watched directories their new paths.
func (w *watcher) renamed(from, to string) {
	for id, dir := range w.dirs {
		w.dirs[id] = moved(dir, from, to)
	}
}

// secondHalf is how long after the first event of a rename the second one may come: the
// kernel queues them one after the other, inotify(7) says. A rename to a place that is not
// watched has no second event.
const secondHalf = 100 * time.Millisecond

// read returns what has changed since the last read, in order. It waits only for the second
// event of a rename.
func (w *watcher) read() ([]change, error) {
	var changes []change
	halves := map[uint32]string{} // what renames moved, by cookie, until their second event
	var latest time.Time          // for the second event
	for {
		n := 0
		var err error
		if closed := w.conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), w.buffer) }); closed != nil {
			return changes, nil
		}
		if errors.Is(err, unix.EAGAIN) && len(halves) > 0 && time.Now().Before(latest) {
			time.Sleep(time.Millisecond)
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return changes, nil
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return changes, err
		}
		for rest := w.buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			le := binary.LittleEndian
			id, mask, cookie, length := int32(le.Uint32(rest)), le.Uint32(rest[4:]), le.Uint32(rest[8:]), le.Uint32(rest[12:])
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
			rest = rest[unix.SizeofInotifyEvent+length:]
			dir, known := w.dirs[id]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				return changes, errors.New("too many changes at once; some are lost")
			case mask&unix.IN_IGNORED != 0: // the directory was removed
				delete(w.dirs, id)
				continue
			case !known || name == "":
				continue
			}
			c := change{path: path.Join(dir, name)}
			if from, ok := halves[cookie]; ok && mask&unix.IN_MOVED_TO != 0 {
				c.from = from
				delete(halves, cookie)
				i := slices.Index(changes, change{path: from, leaves: cookie})
				changes = slices.Delete(changes, i, i+1)
			}
			if mask&unix.IN_MOVED_FROM != 0 {
				c.leaves = cookie
				halves[cookie], latest = c.path, time.Now().Add(secondHalf)
			}
			changes = append(changes, c)
		}
	}
}
