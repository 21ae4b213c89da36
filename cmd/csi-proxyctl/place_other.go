//go:build !windows

package main

// examineInstall finds nothing: only Windows has the service.
func examineInstall(string) []finding { return nil }

// examineServer finds nothing, for the same reason.
func examineServer(string, []string) []finding { return nil }

// serviceArgs returns no arguments, for the same reason.
func serviceArgs(string) ([]string, error) { return nil, nil }

// examineWindows finds nothing, for the same reason.
func examineWindows() []finding { return nil }
