//go:build !windows

package fmifs

import (
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Main runs the helper with the arguments that follow [Command], and returns the
// exit code. Without Windows there is no fmifs.dll, and it reports that.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	return serve(args, stdin, stdout, os.Exit, func(string, uint32, func(uint32, []byte)) error {
		return backend.ErrUnavailable
	})
}
