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
	api := Trace(&recorder{}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})))
	failing := Trace(&recorder{err: ERROR_ACCESS_DENIED}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})))
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
