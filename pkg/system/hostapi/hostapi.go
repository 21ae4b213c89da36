// Package api is what is asked of a Windows node as a whole: its services and
// the serial number in its firmware. Package system decides about requests;
// drivers that need one step alone call it here.
//
// Methods may be repeated. They hold no locks: two at once on one service are
// for [github.com/kubernetes-csi/csi-proxy/v2/pkg/system] to keep apart. A service
// that the node does not have is an error that is not-found.
//
// The published package also had ServiceManager, ServiceFactory and
// ServiceManagerImpl, whose signatures were made of WMI objects. There is no WMI
// here, so they are left out.
//
// What has been verified, and on what: docs/evidence/verification.md.
package api

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// HostAPI is what the system service asks of a node.
type HostAPI interface {
	// GetBIOSSerialNumber returns the system's serial number, of the SMBIOS tables.
	GetBIOSSerialNumber() (string, error)
	// GetService describes a service.
	GetService(name string) (*ServiceInfo, error)
	// StartService starts a service and waits until it runs.
	StartService(name string) error
	// StopService stops a service and waits until it has stopped; with force,
	// after the services that depend on it.
	StopService(name string, force bool) error
}

// ServiceInfo describes a service, in the words of WMI's class Win32_Service.
type ServiceInfo struct {
	DisplayName string
	// StartType is Boot, System, Auto, Manual or Disabled.
	StartType string
	// Status is Stopped, Start Pending, Stop Pending, Running, Continue Pending,
	// Pause Pending, Paused or Unknown.
	Status string
}

// SystemAPI is the HostAPI of a node. The zero SystemAPI answers every call with
// an error. It may be used by several goroutines at once.
type SystemAPI struct{ host node.Host }

var _ HostAPI = SystemAPI{}

// New is the HostAPI of the Windows node that the process runs on. Off Windows
// every method answers that there is none.
func New() HostAPI { return SystemAPI{host: node.NativeHost()} }

// On is the HostAPI of a node.
func On(n *node.Node) SystemAPI { return SystemAPI{host: node.HostOf(n)} }

// WithContext is the same HostAPI, whose methods end early, between two calls
// of Windows, when ctx ends.
func (s SystemAPI) WithContext(ctx context.Context) HostAPI {
	return SystemAPI{host: s.host.WithContext(ctx)}
}

// Node is the node that the methods work on; nil where there is none.
func (s SystemAPI) Node() *node.Node { return s.host.Node }
