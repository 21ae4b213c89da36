package kernel

import (
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// openHandle is an entry of the handle table.
type openHandle struct {
	object Object
	path   string // the path that was opened
}

// Object is the open object of a handle: a disk, a volume or a file. Its methods
// run inside the transaction of the call. What an object does not support fails
// with Windows' error.
type Object interface {
	Control(t *Tx, code uint32, in, out []byte) (int, error)
	ReadAt(t *Tx, p []byte, off int64) (int, error)
	WriteAt(t *Tx, p []byte, off int64) (int, error)
	Flush(t *Tx) error
	// Close is called once, when the handle is closed.
	Close(t *Tx) error
}

// user is an object that keeps a device in use: an open file, or a device opened for data.
type user interface {
	Uses(d Device) bool
}

// InUse reports whether an open object, other than but, keeps a device in use.
func (n *Kernel) InUse(d Device, but Object) bool {
	for _, h := range n.handles {
		if u, ok := h.object.(user); ok && h.object != but && u.Uses(d) {
			return true
		}
	}
	return false
}

// OpenHandles returns the paths of the open handles, sorted. A test that ends with
// open handles has found a leak.
func (n *Kernel) OpenHandles() []string {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.HandlePaths()
}

// HandlePaths is OpenHandles for a caller that holds the lock.
func (n *Kernel) HandlePaths() []string {
	paths := make([]string, 0, len(n.handles))
	for _, h := range n.handles {
		paths = append(paths, h.path)
	}
	slices.Sort(paths)
	return paths
}

// Insert opens a handle for o. path is for display ([Kernel.OpenHandles]).
func (n *Kernel) Insert(o Object, path string) win32.Handle {
	// Windows' handles are multiples of 4. Numbers are not reused, so that any use
	// after close is noticed.
	n.lastOpen += 4
	n.handles[n.lastOpen] = &openHandle{o, path}
	return n.lastOpen
}

// Lookup returns the open object of h.
func (n *Kernel) Lookup(h win32.Handle) (Object, bool) {
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
func (n *Kernel) CloseHandle(h win32.Handle) error {
	return n.Do(func(t *Tx) error {
		e := n.handles[h]
		if e == nil {
			return win32.ERROR_INVALID_HANDLE
		}
		// As in Windows, the handle is closed even if close fails.
		delete(n.handles, h)
		return e.object.Close(t)
	})
}

// DeviceIoControl implements [win32.Handles].
//
// Source: document, DeviceIoControl.
func (n *Kernel) DeviceIoControl(h win32.Handle, code uint32, in, out []byte) (size int, err error) {
	err = n.Do(func(t *Tx) error {
		size, err = n.ControlDevice(t, h, code, in, out)
		return err
	})
	return size, err
}

// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Kernel) ControlDevice(t *Tx, h win32.Handle, code uint32, in, out []byte) (int, error) {
	o, ok := n.Lookup(h)
	if !ok {
		return 0, win32.ERROR_INVALID_HANDLE
	}
	return o.Control(t, code, in, out)
}

// ReadAt implements [win32.Handles].
//
// Source: document, ReadFile.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Kernel) ReadAt(h win32.Handle, p []byte, off int64) (size int, err error) {
	err = n.Do(func(t *Tx) error {
		o, ok := n.Lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.ReadAt(t, p, off)
		return err
	})
	return size, err
}

// WriteAt implements [win32.Handles].
//
// Source: document, WriteFile.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Kernel) WriteAt(h win32.Handle, p []byte, off int64) (size int, err error) {
	err = n.Do(func(t *Tx) error {
		o, ok := n.Lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.WriteAt(t, p, off)
		return err
	})
	return size, err
}

// FlushFileBuffers implements [win32.Handles].
//
// Source: document, FlushFileBuffers.
// Source of ERROR_INVALID_HANDLE: document, STATUS_INVALID_HANDLE (ZwClose).
func (n *Kernel) FlushFileBuffers(h win32.Handle) error {
	return n.Do(func(t *Tx) error {
		o, ok := n.Lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		return o.Flush(t)
	})
}

// CloseAll closes all handles, and calls also in the same transaction.
func (n *Kernel) CloseAll(also func(*Tx)) error {
	err := n.Transact(func(t *Tx) error {
		also(t)
		for _, h := range n.handles {
			if err := h.object.Close(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	clear(n.handles)
	return nil
}
