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
// contents of buffers, so no line can hold a secret. The calls are counted in counts, if
// that is not nil. noted, if it is not nil, gets each call that failed ([Failed]) or has changed
// the node ([Call.Changed]), with its name, path and code; it must not keep the call.
func Trace(api API, log *slog.Logger, counts *Counts, noted func(c *Call, err error)) API {
	ctx := context.Background()
	traced := func() bool { return log.Enabled(ctx, TraceLevel) }
	note := func(c *Call, err error) {
		if noted != nil && (Failed(err) || c.Changed(err)) {
			noted(c, err)
		}
	}
	hook := func(c *Call) (err error) {
		defer func() { note(c, err) }()
		if !traced() {
			return counts.count(c.Name, c.do)
		}
		begin := time.Now()
		err = counts.count(c.Name, c.do)
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
	}
	return &observed{api: api, hook: hook, wanted: func() bool { return counts != nil || traced() }, note: note, opened: &opened{paths: map[Handle]string{}}}
}

// Failed reports whether err is more than the answer that a list has ended or that there is
// more to read.
func Failed(err error) bool {
	return err != nil && !IsCode(err, ERROR_NO_MORE_FILES, ERROR_MORE_DATA, ERROR_INSUFFICIENT_BUFFER)
}

// NamedCode is a control code or an information class, and its name.
type NamedCode struct {
	Name string
	Code uint32
}

// ControlCodes returns the control codes of DeviceIoControl.
func ControlCodes() []NamedCode {
	return []NamedCode{
		{"IOCTL_STORAGE_GET_DEVICE_NUMBER", IOCTL_STORAGE_GET_DEVICE_NUMBER},
		{"IOCTL_STORAGE_QUERY_PROPERTY", IOCTL_STORAGE_QUERY_PROPERTY},
		{"IOCTL_SCSI_GET_ADDRESS", IOCTL_SCSI_GET_ADDRESS},
		{"IOCTL_DISK_GET_LENGTH_INFO", IOCTL_DISK_GET_LENGTH_INFO},
		{"IOCTL_DISK_GET_DRIVE_GEOMETRY_EX", IOCTL_DISK_GET_DRIVE_GEOMETRY_EX},
		{"IOCTL_DISK_GET_DRIVE_LAYOUT_EX", IOCTL_DISK_GET_DRIVE_LAYOUT_EX},
		{"IOCTL_DISK_SET_DRIVE_LAYOUT_EX", IOCTL_DISK_SET_DRIVE_LAYOUT_EX},
		{"IOCTL_DISK_CREATE_DISK", IOCTL_DISK_CREATE_DISK},
		{"IOCTL_DISK_GROW_PARTITION", IOCTL_DISK_GROW_PARTITION},
		{"IOCTL_DISK_UPDATE_DRIVE_SIZE", IOCTL_DISK_UPDATE_DRIVE_SIZE},
		{"IOCTL_DISK_UPDATE_PROPERTIES", IOCTL_DISK_UPDATE_PROPERTIES},
		{"IOCTL_DISK_IS_WRITABLE", IOCTL_DISK_IS_WRITABLE},
		{"IOCTL_DISK_IS_CLUSTERED", IOCTL_DISK_IS_CLUSTERED},
		{"IOCTL_DISK_GET_DISK_ATTRIBUTES", IOCTL_DISK_GET_DISK_ATTRIBUTES},
		{"IOCTL_DISK_SET_DISK_ATTRIBUTES", IOCTL_DISK_SET_DISK_ATTRIBUTES},
		{"IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS", IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS},
		{"IOCTL_VOLUME_ONLINE", IOCTL_VOLUME_ONLINE},
		{"IOCTL_VOLUME_OFFLINE", IOCTL_VOLUME_OFFLINE},
		{"IOCTL_VOLUME_IS_OFFLINE", IOCTL_VOLUME_IS_OFFLINE},
		{"IOCTL_VOLUME_UPDATE_PROPERTIES", IOCTL_VOLUME_UPDATE_PROPERTIES},
		{"FSCTL_LOCK_VOLUME", FSCTL_LOCK_VOLUME},
		{"FSCTL_DISMOUNT_VOLUME", FSCTL_DISMOUNT_VOLUME},
		{"FSCTL_GET_NTFS_VOLUME_DATA", FSCTL_GET_NTFS_VOLUME_DATA},
		{"FSCTL_EXTEND_VOLUME", FSCTL_EXTEND_VOLUME},
		{"FSCTL_GET_REPARSE_POINT", FSCTL_GET_REPARSE_POINT},
		{"FSCTL_SET_REPARSE_POINT", FSCTL_SET_REPARSE_POINT},
		{"FSCTL_DELETE_REPARSE_POINT", FSCTL_DELETE_REPARSE_POINT},
	}
}

// InformationClasses returns the classes of QueryInformation, SetInformation and
// QueryDirectory.
func InformationClasses() []NamedCode {
	return []NamedCode{
		{"FileFullDirectoryInformation", FileFullDirectoryInformation},
		{"FileBasicInformation", FileBasicInformation},
		{"FileStandardInformation", FileStandardInformation},
		{"FileDispositionInformation", FileDispositionInformation},
		{"FileAttributeTagInformation", FileAttributeTagInformation},
		{"FileDispositionInformationEx", FileDispositionInformationEx},
	}
}

// ControlCodeName returns the name of a control code of this package, or any
// other code in hex.
func ControlCodeName(code uint32) string { return nameOf(ControlCodes(), code) }

// CodeName returns the name of the code of a call, or the code in hex if it has no name.
func CodeName(call string, code uint32) string {
	switch call {
	case "DeviceIoControl":
		return ControlCodeName(code)
	case "QueryInformation", "SetInformation", "QueryDirectory":
		return nameOf(InformationClasses(), code)
	}
	return nameOf(nil, code)
}

func nameOf(known []NamedCode, code uint32) string {
	for _, k := range known {
		if k.Code == code {
			return k.Name
		}
	}
	return fmt.Sprintf("%#x", code)
}
