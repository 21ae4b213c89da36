package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

func TestCheckRefusesOtherServices(t *testing.T) {
	r := policy.Rules{Services: append(policy.DefaultServices(), "Own")}
	for _, c := range []struct {
		name    string
		allowed bool
	}{{"MSiSCSI", true}, {"msiscsi", true}, {"own", true}, {"", true}, {"kubelet", false}, {"MSiSCSI ", false}, {"MSiSCSI2", false}, {"M\u017fiSCSI", false}} {
		for op, err := range map[string]error{
			"start service": r.Check(&system.StartServiceRequest{Name: c.name}),
			"stop service":  r.Check(&system.StopServiceRequest{Name: c.name, Force: true}),
		} {
			if c.allowed != (err == nil) || err != nil && (!errors.Is(err, hosterr.ErrPermissionDenied) || !strings.HasPrefix(err.Error(), op)) {
				t.Errorf("%s %q = %v, allowed %t", op, c.name, err, c.allowed)
			}
			if err != nil && !strings.Contains(hosterr.HintOf(err), "-service-allow="+c.name) {
				t.Errorf("%s %q: hint %q does not contain the flag", op, c.name, hosterr.HintOf(err))
			}
		}
	}
}
