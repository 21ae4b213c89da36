//go:build !linux

package mirror

import "errors"

// watcher needs Linux, as Wine sessions do.
type watcher struct{}

func newWatcher() (*watcher, error)            { return nil, errors.New("a mirror needs Linux") }
func (*watcher) close() error                  { return nil }
func (*watcher) wait() bool                    { return false }
func (*watcher) add(_, _ string) (bool, error) { return false, nil }
func (*watcher) read() ([]string, error)       { return nil, nil }
