package translation

import (
	"context"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar registers a driver with the kubelet.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, socket string
}

// GetInfo implements [registration.RegistrationServer].
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.name, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements [registration.RegistrationServer].
func (r *registrar) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}
