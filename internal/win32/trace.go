package win32

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// TraceLevel is the level of [Trace]'s lines. The daemon shows them with -v=6.
const TraceLevel = slog.Level(-6)

// Trace returns api with a log line after every call: its arguments, the lengths
// of its buffers, how much was filled, and its error. It does not log the
// contents of buffers, so no line can hold a secret.
func Trace(api API, log *slog.Logger) API {
	return Observe(api, func(c *Call) error {
		ctx := context.Background()
		if !log.Enabled(ctx, TraceLevel) {
			return c.Do()
		}
		begin := time.Now()
		err := c.Do()
		took := time.Since(begin)

		attrs := []slog.Attr{slog.String("call", c.Name)}
		if c.Path != "" {
			attrs = append(attrs, slog.String("path", c.Path))
		}
		if c.Handle != 0 {
			attrs = append(attrs, slog.Uint64("handle", uint64(c.Handle)))
		}
		if c.Name == "DeviceIoControl" {
			attrs = append(attrs, slog.String("code", ControlCodeName(c.Code)))
		} else if c.Code != 0 {
			attrs = append(attrs, slog.Uint64("code", uint64(c.Code)))
		}
		if c.In != nil {
			attrs = append(attrs, slog.Int("in", len(c.In)))
		}
		if c.Out != nil {
			attrs = append(attrs, slog.Int("out", len(c.Out)), slog.Int("filled", c.N))
		}
		if err != nil {
			attrs = append(attrs, slog.Any("err", err))
		}
		log.LogAttrs(ctx, TraceLevel, "Called Win32", append(attrs, slog.Duration("took", took))...)
		return err
	})
}

// ControlCodeName returns the name of a control code of this package, or any
// other code in hex.
func ControlCodeName(code uint32) string {
	switch code {
	case IOCTL_STORAGE_GET_DEVICE_NUMBER:
		return "IOCTL_STORAGE_GET_DEVICE_NUMBER"
	case IOCTL_STORAGE_QUERY_PROPERTY:
		return "IOCTL_STORAGE_QUERY_PROPERTY"
	case IOCTL_SCSI_GET_ADDRESS:
		return "IOCTL_SCSI_GET_ADDRESS"
	case IOCTL_DISK_GET_LENGTH_INFO:
		return "IOCTL_DISK_GET_LENGTH_INFO"
	case IOCTL_DISK_GET_DRIVE_GEOMETRY_EX:
		return "IOCTL_DISK_GET_DRIVE_GEOMETRY_EX"
	case IOCTL_DISK_GET_DRIVE_LAYOUT_EX:
		return "IOCTL_DISK_GET_DRIVE_LAYOUT_EX"
	case IOCTL_DISK_SET_DRIVE_LAYOUT_EX:
		return "IOCTL_DISK_SET_DRIVE_LAYOUT_EX"
	case IOCTL_DISK_CREATE_DISK:
		return "IOCTL_DISK_CREATE_DISK"
	case IOCTL_DISK_GROW_PARTITION:
		return "IOCTL_DISK_GROW_PARTITION"
	case IOCTL_DISK_UPDATE_DRIVE_SIZE:
		return "IOCTL_DISK_UPDATE_DRIVE_SIZE"
	case IOCTL_DISK_UPDATE_PROPERTIES:
		return "IOCTL_DISK_UPDATE_PROPERTIES"
	case IOCTL_DISK_IS_WRITABLE:
		return "IOCTL_DISK_IS_WRITABLE"
	case IOCTL_DISK_GET_DISK_ATTRIBUTES:
		return "IOCTL_DISK_GET_DISK_ATTRIBUTES"
	case IOCTL_DISK_SET_DISK_ATTRIBUTES:
		return "IOCTL_DISK_SET_DISK_ATTRIBUTES"
	case IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS:
		return "IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS"
	case IOCTL_VOLUME_ONLINE:
		return "IOCTL_VOLUME_ONLINE"
	case IOCTL_VOLUME_OFFLINE:
		return "IOCTL_VOLUME_OFFLINE"
	case IOCTL_VOLUME_IS_OFFLINE:
		return "IOCTL_VOLUME_IS_OFFLINE"
	case FSCTL_GET_NTFS_VOLUME_DATA:
		return "FSCTL_GET_NTFS_VOLUME_DATA"
	case FSCTL_EXTEND_VOLUME:
		return "FSCTL_EXTEND_VOLUME"
	case FSCTL_GET_REPARSE_POINT:
		return "FSCTL_GET_REPARSE_POINT"
	case FSCTL_SET_REPARSE_POINT:
		return "FSCTL_SET_REPARSE_POINT"
	case FSCTL_DELETE_REPARSE_POINT:
		return "FSCTL_DELETE_REPARSE_POINT"
	}
	return fmt.Sprintf("%#x", code)
}
