//go:build !windows

package verify

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

func (p *place) openWindows(node.Backend, func(win32.API) error) error {
	return node.ErrNoWindows
}

// look fails: there is no Windows to look at.
func look() (facts, error) { return facts{}, node.ErrNoWindows }

// undo has nothing to undo: a simulated node ends with its process.
func undo(entry) error { return nil }

// systemDir is the directory for files of programs on the system volume of a simulated node.
func systemDir() (string, error) { return `C:\ProgramData`, nil }

func runIdleService(string) error { return node.ErrNoWindows }
