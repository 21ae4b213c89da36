//go:build !windows

package main

import "github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"

// examineInstall finds nothing: only Windows has the service.
func examineInstall(winsvc.Installed) []finding { return nil }

// examineServer finds nothing, for the same reason.
func examineServer(winsvc.Installed, []string) []finding { return nil }

// examineWindows finds nothing, for the same reason.
func examineWindows() []finding { return nil }
