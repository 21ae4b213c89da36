package hosterr

import (
	"runtime"
	"slices"
	"strings"
)

const module = "github.com/kubernetes-csi/csi-proxy/v2/internal/"

// These functions give any error of Windows its kind, and the path that it is about. Its place is
// where their packages were called from.
var (
	giveKinds = []string{module + "node.Typed", module + "winfs.typed", module + "winfs.run"}
	helpers   = []string{module + "node.", module + "winfs.", module + "service."}
)

// callerPC returns the program counter of the place that stands for the caller of the function
// that calls it.
func callerPC() uintptr {
	var pcs [64]uintptr
	runtime.Callers(3, pcs[:1])
	if !slices.Contains(giveKinds, function(pcs[0])) {
		return pcs[0]
	}
	n := runtime.Callers(3, pcs[:])
	for _, pc := range pcs[:n] {
		name := function(pc)
		if name != "" && !slices.ContainsFunc(helpers, func(h string) bool { return strings.HasPrefix(name, h) }) {
			return pc
		}
	}
	return pcs[0]
}

// function returns the name of a function, or "".
func function(pc uintptr) string {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return f.Function
}
