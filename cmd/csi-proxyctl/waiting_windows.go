package main

import (
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// examineServer checks whether a running service serves the pipes that exist.
func examineServer(service winsvc.Installed, paths []string) []finding {
	running, err := winsvc.Processes()
	if err != nil {
		return checkFailed("install", err)
	}
	pid, ok := running[service.Name]
	if !ok {
		return nil
	}
	owners := ownersOf(paths, pipes.ServerOf)
	for name, p := range running {
		for i := range owners {
			if owners[i].pid == p {
				owners[i].service = name
			}
		}
	}
	if service.Manager != "" { // which has started csi-proxy
		for i := range owners {
			if strings.EqualFold(owners[i].image, service.Program) {
				owners[i].pid = pid
			}
		}
	}
	return examineWaiting(service.Name, pid, owners)
}
