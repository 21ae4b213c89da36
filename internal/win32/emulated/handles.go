package emulated

import (
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// openHandle is an entry of the handle table.
type openHandle struct {
	object object
	path   string // the path that was opened
}

// object is the open object of a handle: a disk, a volume or a file. Its methods
// run inside the transaction of the call. What an object does not support fails
// with Windows' error.
type object interface {
	control(t *tx, code uint32, in, out []byte) (int, error)
	readAt(t *tx, p []byte, off int64) (int, error)
	writeAt(t *tx, p []byte, off int64) (int, error)
	flush(t *tx) error
	// close is called once, when the handle is closed.
	close(t *tx) error
}

// volumeUser is an object that keeps a volume in use: an open file, or the volume's
// own device opened for data.
type volumeUser interface {
	usedVolume() *volume
}

// OpenHandles returns the paths of the open handles, sorted. A test that ends with
// open handles has found a leak.
func (n *Node) OpenHandles() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.openHandles()
}

func (n *Node) openHandles() []string {
	paths := make([]string, 0, len(n.handles))
	for _, h := range n.handles {
		paths = append(paths, h.path)
	}
	slices.Sort(paths)
	return paths
}

// insert opens a handle for o. path is for display ([Node.OpenHandles]).
func (n *Node) insert(o object, path string) win32.Handle {
	// Windows' handles are multiples of 4. Numbers are not reused, so that any use
	// after close is noticed.
	n.lastOpen += 4
	n.handles[n.lastOpen] = &openHandle{o, path}
	return n.lastOpen
}

// lookup returns the open object of h.
func (n *Node) lookup(h win32.Handle) (object, bool) {
	e := n.handles[h]
	if e == nil {
		return nil, false
	}
	return e.object, true
}

// CloseHandle implements [win32.Handles].
//
// Source: document, CloseHandle.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Node) CloseHandle(h win32.Handle) error {
	return n.do(func(t *tx) error {
		e := n.handles[h]
		if e == nil {
			return win32.ERROR_INVALID_HANDLE
		}
		// As in Windows, the handle is closed even if close fails.
		delete(n.handles, h)
		return e.object.close(t)
	})
}

// DeviceIoControl implements [win32.Handles].
//
// Source: document, DeviceIoControl.
func (n *Node) DeviceIoControl(h win32.Handle, code uint32, in, out []byte) (size int, err error) {
	err = n.do(func(t *tx) error {
		size, err = n.deviceIoControl(t, h, code, in, out)
		return err
	})
	return size, err
}

// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Node) deviceIoControl(t *tx, h win32.Handle, code uint32, in, out []byte) (int, error) {
	o, ok := n.lookup(h)
	if !ok {
		return 0, win32.ERROR_INVALID_HANDLE
	}
	return o.control(t, code, in, out)
}

// ReadAt implements [win32.Handles].
//
// Source: document, ReadFile.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Node) ReadAt(h win32.Handle, p []byte, off int64) (size int, err error) {
	err = n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.readAt(t, p, off)
		return err
	})
	return size, err
}

// WriteAt implements [win32.Handles].
//
// Source: document, WriteFile.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Node) WriteAt(h win32.Handle, p []byte, off int64) (size int, err error) {
	err = n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.writeAt(t, p, off)
		return err
	})
	return size, err
}

// FlushFileBuffers implements [win32.Handles].
//
// Source: document, FlushFileBuffers.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Node) FlushFileBuffers(h win32.Handle) error {
	return n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		return o.flush(t)
	})
}
