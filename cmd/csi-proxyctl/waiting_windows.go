package main

import (
	"strings"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// examineServer checks whether a running service serves the pipes that exist.
func examineServer(service string, paths []string) []finding {
	running, err := winsvc.Processes()
	if err != nil {
		return checkFailed("install", err)
	}
	pid, ok := running[service]
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
	if program := childOf(service); program != "" {
		for i := range owners {
			if strings.EqualFold(owners[i].image, program) {
				owners[i].pid = pid
			}
		}
	}
	return examineWaiting(service, pid, owners)
}

// childOf returns the path of csi-proxy if the service starts it by another program.
func childOf(service string) string {
	command, _, err := configOf(service)
	if err != nil {
		return "" // examineInstall reports it
	}
	args, err := windows.DecomposeCommandLine(command)
	if err != nil || len(args) == 0 {
		return ""
	}
	if child := winsvc.Child(service, args[0]); child != nil {
		return child[0]
	}
	return ""
}
