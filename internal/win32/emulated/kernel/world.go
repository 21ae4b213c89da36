package kernel

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"

// Chosen logs that the node did what one of its options says and Windows does not always
// do, such as refusing a call. The message names the value with which it would not have.
func (n *Kernel) Chosen(key, what, target string) {
	for _, o := range behavior.All() {
		if o.Key == key {
			n.Log.Info("Behave as the option says", "what", what, "target", target,
				"option", key, "value", *o.Of(&n.Windows), "otherwise", o.Values[len(o.Values)-1].Name)
		}
	}
}
