package kernel

import (
	"fmt"
	"sync"
	"time"
)

// watch is what [Kernel.Watch] set.
type watch struct {
	before, after func()
	signal        chan struct{} // a change outside of a Win32 call
}

// Watch calls before ahead of each Win32 call, and after when the state of the node has
// changed: before the Win32 call that changed it returns, or soon after another change.
// Both may call the methods for programs outside of the node, and no others. There is one watcher at a time.
func (n *Kernel) Watch(before, after func()) (stop func(), err error) {
	w := &watch{before, after, make(chan struct{}, 1)}
	if !n.watch.CompareAndSwap(nil, w) {
		return nil, fmt.Errorf("watch: the files of this node are watched already")
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-w.signal:
				after()
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		n.watch.CompareAndSwap(w, nil)
		close(done)
		running.Wait()
	}), nil
}

// changed is called when the stored state has changed, with the node's lock.
func (n *Kernel) changed() {
	n.changes.Add(1)
	if w := n.watch.Load(); w != nil {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	}
}

// ChangesIn says that the time will come, after a delay, for something that is stored now.
func (n *Kernel) ChangesIn(delay time.Duration) {
	if delay > 0 && n.watch.Load() != nil {
		time.AfterFunc(delay, func() {
			n.Mu.Lock()
			defer n.Mu.Unlock()
			n.changed()
		})
	}
}

// Change runs a change that comes from outside of the node.
func (n *Kernel) Change(change func(t *Tx) error) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	return n.Cause(n.Transact(change))
}

// Outside is Change, whose error names what it is and the path.
func (n *Kernel) Outside(what, path string, change func(t *Tx) error) error {
	if err := n.Change(change); err != nil {
		return fmt.Errorf("%s %q: %w", what, path, err)
	}
	return nil
}
