package mirror

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"

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

// read returns the paths that have changed since the last read, each once. It does not wait.
func (w *watcher) read() ([]string, error) {
	var changes []string
	seen := map[string]bool{}
	for {
		n := 0
		var err error
		if closed := w.conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), w.buffer) }); closed != nil || errors.Is(err, unix.EAGAIN) {
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
			id, mask, length := int32(le.Uint32(rest)), le.Uint32(rest[4:]), le.Uint32(rest[12:])
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
			rest = rest[unix.SizeofInotifyEvent+length:]
			dir, known := w.dirs[id]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				return changes, errors.New("too many changes at once; some are lost")
			case mask&unix.IN_IGNORED != 0: // the directory was removed
				delete(w.dirs, id)
			case known && name != "" && !seen[path.Join(dir, name)]:
				changes = append(changes, path.Join(dir, name))
				seen[path.Join(dir, name)] = true
			}
		}
	}
}
