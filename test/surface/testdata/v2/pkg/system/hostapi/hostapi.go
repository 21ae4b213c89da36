// Package api is the published surface of the system host.
package api

type HostAPI interface {
	GetBIOSSerialNumber() (string, error)
	GetService(name string) (*ServiceInfo, error)
	StartService(name string) error
	StopService(name string, force bool) error
}

func New() HostAPI

type ServiceInfo struct {
	DisplayName string
	StartType   string
	Status      string
}

// The members of these mention types of the published package pkg/wmi.
type (
	ServiceManager     interface{}
	ServiceFactory     interface{}
	ServiceManagerImpl struct{}
)
