// Package api implements operations on a Windows node as a whole: on its services and on
// the serial number of its firmware. Package system calls them. Drivers that need a single
// step can call it here.
//
// Methods may be repeated. They take no locks: package
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/system] prevents concurrent changes of one
// service. Methods fail with hosterr.ErrNotFound if there is no such service.
//
// ServiceManager, ServiceFactory and ServiceManagerImpl of the published package do not
// exist here: their signatures have WMI objects, and this package does not use WMI.
//
// docs/develop/verification.md says what has been verified, and on which systems.
package api

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// HostAPI is what the system service needs from a node.
type HostAPI interface {
	// GetBIOSSerialNumber returns the system's serial number from the SMBIOS tables.
	GetBIOSSerialNumber() (string, error)
	// GetService describes a service.
	GetService(name string) (*ServiceInfo, error)
	// StartService starts a service and waits until it runs.
	StartService(name string) error
	// StopService stops a service and waits until it has stopped. With force it first
	// stops the services that depend on it.
	StopService(name string, force bool) error
}

// ServiceInfo describes a service, with the texts of WMI's class Win32_Service.
type ServiceInfo struct {
	DisplayName string
	// StartType is Boot, System, Auto, Manual or Disabled.
	StartType string
	// Status is Stopped, Start Pending, Stop Pending, Running, Continue Pending,
	// Pause Pending, Paused or Unknown.
	Status string
}

// SystemAPI is the HostAPI of a node. Its methods may be called concurrently. The methods
// of the zero SystemAPI return errors.
type SystemAPI struct{ host node.Host }

var _ HostAPI = SystemAPI{}

// New returns the HostAPI of the Windows node that the process runs on. On other systems
// all methods fail with [errors.ErrUnsupported].
func New() HostAPI { return SystemAPI{host: node.NativeHost()} }

// On returns the HostAPI of a node.
func On(n *node.Node) SystemAPI { return SystemAPI{host: node.HostOf(n)} }

// WithContext returns the same HostAPI for one context. When ctx ends, its methods stop
// before their next Windows call.
func (s SystemAPI) WithContext(ctx context.Context) HostAPI {
	return SystemAPI{host: s.host.WithContext(ctx)}
}

// Node returns the node that the methods work on, or nil if there is none.
func (s SystemAPI) Node() *node.Node { return s.host.Node }
