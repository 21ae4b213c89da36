package native

import (
	"log/slog"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Options are what a program says about itself and how it wants done what can be
// done in two ways. The zero Options are those of a driver in process.
type Options struct {
	// Format and SMB are the backends to begin with: [backend.WMI] if empty. Where
	// Windows does not have one the other is used, and Log says so, once.
	Format, SMB backend.Name
	// FormatHelper is the path of the program's own executable if, like
	// csi-proxy.exe, it becomes the format helper when its first argument says so
	// (package fmifs). Empty for any other program: then nothing starts a process,
	// and only WMI formats.
	FormatHelper string
	// Log is slog's default if nil.
	Log *slog.Logger
}
