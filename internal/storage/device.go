package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Access rights for opening a device. Bits 14 and 15 of a control code are the
// access that it needs. With no access at all, a device can be queried but not
// read or written, and no file system is mounted.
const (
	Query     uint32 = 0
	Read             = win32.GENERIC_READ
	ReadWrite        = win32.GENERIC_READ | win32.GENERIC_WRITE
)

// How long Retry and others try, and their pauses: the first one, which doubles up to the
// longest. Most devices are ready a few milliseconds after the first try.
const (
	retryFor  = 5 * time.Second
	layoutFor = 750 * time.Millisecond
	rescanFor = time.Second

	shortest = 10 * time.Millisecond
	longest  = 250 * time.Millisecond
)

// tryFor returns a pace whose pauses take so long together.
func tryFor(limit time.Duration) node.Pace {
	return node.Pace{Pause: shortest, Longest: longest, Left: &limit}
}

// transient reports whether err is one that goes away by itself soon after a
// device arrives (docs/develop/contract/calls.md#transient-errors).
func transient(err error) bool {
	return win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_NOT_READY,
		win32.ERROR_BUSY, win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_SEM_TIMEOUT, win32.ERROR_MEDIA_CHANGED)
}

// Retry calls f until it succeeds, fails with an error that is not transient, or
// has failed for five seconds. If ctx ends, Retry stops early with an error that wraps
// ctx's error.
func Retry(ctx context.Context, n *node.Node, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var last error
	err := node.Poll(ctx, n.Clock, tryFor(retryFor), func() (bool, error) {
		last = f()
		return !transient(last), last
	})
	if ended := ctx.Err(); ended != nil && transient(last) {
		return fmt.Errorf("%w while retrying after: %w", ended, last)
	}
	return err
}

// Gone converts the errors of a missing device to hosterr.ErrNotFound.
func Gone(err error) error {
	if win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_DRIVE,
		win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_DEVICE_NOT_CONNECTED, win32.ERROR_DEV_NOT_EXIST, win32.ERROR_DEVICE_REMOVED) {
		return hosterr.ErrNotFound
	}
	return err
}

// device is an open disk or volume.
type device struct {
	node    *node.Node
	h       win32.Handle
	noRetry bool // for listings, and for callers with their own retries
}

func open(ctx context.Context, n *node.Node, path string, access uint32) (device, error) {
	var h win32.Handle
	err := Retry(ctx, n, func() (err error) {
		h, err = openOnce(n, path, access)
		return err
	})
	return device{node: n, h: h}, Gone(err)
}

func openOnce(n *node.Node, path string, access uint32) (win32.Handle, error) {
	return n.API.CreateFile(path, access, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
}

// Close closes the device. Close it before you wait for anything: an open handle
// keeps Windows from removing the device.
func (d device) Close() {
	if err := d.node.API.CloseHandle(d.h); err != nil {
		d.node.Log.Warn("Failed to close a device handle", "err", err)
	}
}

// retry is [Retry], unless the device was opened without.
func (d device) retry(ctx context.Context, f func() error) error {
	if d.noRetry {
		return f()
	}
	return Retry(ctx, d.node, f)
}

// control sends a control code. It retries transient failures.
func (d device) control(ctx context.Context, code uint32, in, out []byte) (n int, err error) {
	err = d.retry(ctx, func() (err error) {
		n, err = d.node.API.DeviceIoControl(d.h, code, in, out)
		return err
	})
	if err == nil && n > len(out) {
		return 0, fmt.Errorf("control code %#x: %w: %d bytes in a buffer of %d", code, win32.ErrLayout, n, len(out))
	}
	return n, err
}

// maxOutput limits the output of a control code, whatever size the driver asks for.
const maxOutput = 1 << 20

// query sends a control code with an output buffer of size bytes, and doubles the
// buffer while it is too small.
func (d device) query(ctx context.Context, code uint32, in []byte, size int) ([]byte, error) {
	for {
		out := make([]byte, size)
		n, err := d.control(ctx, code, in, out)
		if err == nil {
			return out[:n], nil
		}
		if !win32.IsCode(err, win32.ERROR_INSUFFICIENT_BUFFER, win32.ERROR_MORE_DATA) || size >= maxOutput {
			return nil, err
		}
		size *= 2
	}
}

// Number returns the device number: which disk, and which partition of it.
func (d device) Number(ctx context.Context) (win32.DeviceNumber, error) {
	out, err := d.query(ctx, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, win32.SizeofDeviceNumber)
	if err != nil {
		return win32.DeviceNumber{}, err
	}
	return win32.DecodeDeviceNumber(out)
}

// Length returns the size of the disk or volume in bytes. It needs [Read].
func (d device) Length(ctx context.Context) (uint64, error) {
	out, err := d.query(ctx, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8)
	if err != nil {
		return 0, hosterr.Wrap("get the length", "", err)
	}
	return win32.DecodeLength(out)
}

// readAt reads len(b) bytes at an offset. It needs [Read].
func (d device) readAt(ctx context.Context, b []byte, offset uint64) error {
	for done := 0; done < len(b); {
		err := d.retry(ctx, func() error {
			n, err := d.node.API.ReadAt(d.h, b[done:], int64(offset)+int64(done))
			if err == nil && n <= 0 {
				err = win32.ERROR_HANDLE_EOF
			}
			if err == nil {
				done += n
			}
			return err
		})
		if err != nil {
			return hosterr.Wrap(fmt.Sprintf("read %d bytes at %d", len(b), offset), "", err)
		}
	}
	return nil
}
