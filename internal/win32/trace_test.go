package win32

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

func TestTrace(t *testing.T) {
	var log bytes.Buffer
	level := &slog.LevelVar{}
	level.Set(TraceLevel)
	api := Trace(&recorder{}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})), nil, nil)
	failing := Trace(&recorder{err: ERROR_ACCESS_DENIED}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})), nil, nil)
	h, _ := api.CreateFile(`\\.\PhysicalDrive1`, 0, 3, OPEN_EXISTING, 0)
	_, _ = api.DeviceIoControl(h, IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, make([]byte, 8))
	_, _ = failing.DeviceIoControl(h, 0x12345, []byte("a secret"), nil)
	_ = api.Reenumerate()
	level.Set(TraceLevel + 1)
	_ = api.Reenumerate() // not logged

	const drive = `path=\\.\PhysicalDrive1`
	want := []string{
		"call=CreateFile " + drive + " handle=11",
		"call=DeviceIoControl " + drive + " handle=11 code=IOCTL_DISK_GET_DRIVE_LAYOUT_EX out=8 filled=2",
		`call=DeviceIoControl handle=11 code=0x12345 in=8 err="Access is denied."`,
		"call=Reenumerate",
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log.String())
	}
	for i, line := range lines {
		_, line, _ = strings.Cut(line, `msg="Called Win32" `)
		line = regexp.MustCompile(` took=\S+$`).ReplaceAllString(line, "")
		if line != want[i] {
			t.Errorf("line %d:\n%s\nwant\n%s", i, line, want[i])
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Error("the log has the contents of a buffer")
	}
}

// A handle that was closed while nothing was logged does not leave its path to the next file
// that gets its number.
func TestTraceForgetsClosedHandles(t *testing.T) {
	var log bytes.Buffer
	level := &slog.LevelVar{}
	api := Trace(&recorder{}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})), nil, nil)
	h, _ := api.CreateFile(`\\.\PhysicalDrive1`, 0, 3, OPEN_EXISTING, 0)
	_ = api.CloseHandle(h)
	if paths := api.(*observed).paths; len(paths) != 0 {
		t.Errorf("paths of closed handles: %q", paths)
	}
	level.Set(TraceLevel)
	_, _ = api.DeviceIoControl(h, IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, nil)
	if got := log.String(); got == "" || strings.Contains(got, "PhysicalDrive1") {
		t.Errorf("a call on the next file: %q, want a line without the path of the closed one", got)
	}
}
