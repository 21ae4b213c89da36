package native

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32"

// Format is FormatEx2 of fmifs.dll in a child process (package fmifs). It blocks
// for as long as the format takes.
func (a *API) Format(vol string, o win32.FormatOptions) error { return a.formats.Format(vol, o) }
