package simnode

import "github.com/kubernetes-csi/csi-proxy/v2/internal/faults"

// ActiveFault is a fault that [Node.Fail] added.
type ActiveFault struct{ active *faults.Active }

// Hits returns how many calls the fault affected. With 0 hits the test did not test the
// fault.
func (a *ActiveFault) Hits() uint32 { return a.active.Hits() }

// Clear removes the fault and releases the calls that it delays.
func (a *ActiveFault) Clear() { a.active.Clear() }

// Fail makes Win32 calls fail or take longer. If several faults match a call, the first one
// that is not used up applies.
func (n *Node) Fail(f Fault) (*ActiveFault, error) {
	active, err := n.faults.Add(f)
	if err != nil {
		return nil, err
	}
	return &ActiveFault{active}, nil
}

// ClearFaults removes all faults and releases the calls that they delay.
func (n *Node) ClearFaults() { n.faults.Clear() }
