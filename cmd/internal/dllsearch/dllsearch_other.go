//go:build !windows

package dllsearch

func systemOnly() error { return nil }
