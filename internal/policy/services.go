package policy

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ServiceFlag is the daemon's flag that adds to the services which may be
// started and stopped.
const ServiceFlag = "service-allow"

// DefaultServices are allowed without a flag: a driver needs MSiSCSI for iSCSI.
func DefaultServices() []string { return []string{"MSiSCSI"} }

// checkService refuses to start or stop a service that is not allowed; callers may
// ask about all. It leaves an empty name to the service, which says what is wrong with
// it. Services that have to stop because another does are checked below, by the
// node's AllowedServices.
func (r *Rules) checkService(op, name string) error {
	if name == "" || slices.ContainsFunc(r.Services, func(a string) bool { return winpath.Fold(a) == winpath.Fold(name) }) {
		return nil
	}
	return hosterr.WithHint(op, hosterr.Quote(name),
		hosterr.Text(hosterr.ErrPermissionDenied, "this service may not be started and stopped through csi-proxy; allowed are %s", strings.Join(r.Services, ", ")),
		"start csi-proxy with -"+ServiceFlag+"="+name+" to allow it")
}
