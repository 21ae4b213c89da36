//go:build !windows

package node

func openNative() (*Node, error) { return nil, ErrNoWindows }
