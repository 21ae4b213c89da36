//go:build !windows

package node

func openNative(NativeOptions) (*Node, error) { return nil, ErrNoWindows }
