package policy

import (
	"context"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// ServiceFlag is the daemon's flag that adds to the services which may be
// started and stopped.
const ServiceFlag = "service-allow"

// DefaultServices are allowed without a flag: a driver needs MSiSCSI for iSCSI.
func DefaultServices() []string { return []string{"MSiSCSI"} }

// System is next for callers that may start and stop the services in allowed
// only. They may ask about all. Services that have to stop because another does
// are checked below, by the node's AllowedServices.
func System(next system.Interface, allowed []string) system.Interface {
	return &systems{next, allowed}
}

type systems struct {
	system.Interface
	allowed []string
}

// check leaves an empty name to the service, which says what is wrong with it.
func (s *systems) check(op, name string) error {
	if name == "" || slices.ContainsFunc(s.allowed, func(a string) bool { return winpath.Fold(a) == winpath.Fold(name) }) {
		return nil
	}
	return hosterr.WithHint(op, hosterr.Quote(name),
		hosterr.Text(hosterr.ErrPermissionDenied, "this service may not be started and stopped through csi-proxy; allowed are %s", strings.Join(s.allowed, ", ")),
		"start csi-proxy with -"+ServiceFlag+"="+name+" to allow it")
}

func (s *systems) StartService(ctx context.Context, in *system.StartServiceRequest) (*system.StartServiceResponse, error) {
	if in != nil {
		if err := s.check("start service", in.Name); err != nil {
			return nil, err
		}
	}
	return s.Interface.StartService(ctx, in)
}

func (s *systems) StopService(ctx context.Context, in *system.StopServiceRequest) (*system.StopServiceResponse, error) {
	if in != nil {
		if err := s.check("stop service", in.Name); err != nil {
			return nil, err
		}
	}
	return s.Interface.StopService(ctx, in)
}
