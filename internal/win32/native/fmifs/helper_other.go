//go:build !windows

package fmifs

import (
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Main is the helper: args are those behind [Command]. It returns the exit code.
// Off Windows there is no fmifs.dll, and it says so.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	return serve(args, stdin, stdout, os.Exit, func(string, win32.FormatOptions, func(uint32, []byte)) error {
		return backend.ErrUnavailable
	})
}
