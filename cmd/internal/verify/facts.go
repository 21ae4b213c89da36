package verify

import (
	"fmt"
	"strings"
)

// facts are what the program has to know about the machine before it does anything.
type facts struct {
	Elevated bool
	Windows  string // version
	Server   bool
	Wine     bool
	Running  []string // programs of a Kubernetes node that this program could disturb
}

// refusal returns why the program must not run on a machine, and the remedy; "" if it
// may.
func refusal(o options, f facts) string {
	switch {
	case !f.Elevated:
		return "it needs an administrator: start it from an elevated prompt"
	case len(f.Running) > 0 && !o.OnThisNode:
		return fmt.Sprintf("this machine is a node (%s runs): use another machine, or add -on-this-node if nothing on it matters", strings.Join(f.Running, ", "))
	}
	return ""
}
