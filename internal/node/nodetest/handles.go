package nodetest

import (
	"slices"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Handles are the handles that Win32 calls have opened and not closed, for a node that
// does not report them itself. It is safe for concurrent use.
type Handles struct {
	mu   sync.Mutex
	open map[win32.Handle]string
}

// Hook makes a call and records it.
func (h *Handles) Hook(c *win32.Call) error {
	err := c.Do()
	h.Record(c, err)
	return err
}

// Record records a call that was made and returned err.
func (h *Handles) Record(c *win32.Call, err error) {
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c.Name {
	case "CloseHandle":
		delete(h.open, c.Handle)
	case "CreateFile", "NtCreateFile":
		if h.open == nil {
			h.open = map[win32.Handle]string{}
		}
		h.open[c.Handle] = c.Path
	}
}

// Open returns the paths of the open handles, sorted.
func (h *Handles) Open() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var paths []string
	for _, p := range h.open {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}
