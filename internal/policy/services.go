package policy

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ServiceFlag is the daemon's flag that allows to start and stop another service.
const ServiceFlag = "service-allow"

// DefaultServices returns the services that are allowed without a flag: drivers need
// MSiSCSI for iSCSI.
func DefaultServices() []string { return []string{"MSiSCSI"} }

// checkService fails if the service must not be started and stopped. It accepts an empty
// name, for which the service returns an error. Dependent services that must be stopped
// first are checked in the host, by the node's AllowedServices.
func (r *Rules) checkService(op, name string) error {
	if name == "" || slices.ContainsFunc(r.Services, func(a string) bool { return winpath.Fold(a) == winpath.Fold(name) }) {
		return nil
	}
	return hosterr.WithHint(op, hosterr.Quote(name),
		hosterr.Text(hosterr.ErrPermissionDenied, "this service must not be started or stopped through csi-proxy; allowed are %s", strings.Join(r.Services, ", ")),
		"start csi-proxy with -"+ServiceFlag+"="+name+" to allow it")
}
