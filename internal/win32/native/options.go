package native

import (
	"log/slog"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Options describe the program and choose between the two backends. The zero
// Options are those of a driver in process.
type Options struct {
	// Format and SMB are the backends to try first: [backend.WMI] if empty. If
	// Windows lacks one, the other is used, and Log gets one line about it.
	Format, SMB backend.Name
	// FormatHelper is the path of the program's own executable, if the program,
	// like csi-proxy.exe, becomes the format helper for that first argument
	// (package fmifs). It is empty for any other program: such a program starts
	// no process, and formats with WMI only.
	FormatHelper string
	// Log defaults to slog.Default.
	Log *slog.Logger
}
