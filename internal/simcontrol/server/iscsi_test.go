package server_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol/server"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

const iqn = "iqn.2003-01.org.example:disk1"

// connectISCSI gives a node a service and a target in whose descriptions every
// field is set, and connects the target.
func connectISCSI(ctx context.Context, t *testing.T, n *simnode.Node, s *server.Server) error {
	t.Helper()
	portal := &iscsi.TargetPortal{TargetAddress: "fd00::1", TargetPort: 3261}
	_, service := s.SetService(ctx, description(t, nodespec.Service{
		Name: "agent", DisplayName: "Agent", StartType: "manual", State: "stopped", DependsOn: []string{"MSiSCSI"},
		StartDelay: 1e6, StopDelay: 2e6, WaitHint: 3e6, StartError: 1069, Dies: 1067, RefusesStop: true, Hangs: "stop",
	}))
	_, target := s.SetIscsiTarget(ctx, &simcontrol.SecretDescription{SecretJson: text(t, nodespec.ISCSITarget{
		IQN: iqn, Portals: []nodespec.ISCSIPortal{{Address: "fd00::1", Port: 3261}, {Address: "10.0.0.1"}},
		LUNs: []nodespec.LUN{{Disk: nodespec.Disk{Size: 1 << 30}}, {Disk: nodespec.Disk{Size: 2 << 30}}},
		CHAP: &nodespec.CHAP{User: "csi", Secret: "secret-of-16-byt"}, Busy: true,
	})})
	_, start := n.System().StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"})
	_, add := n.ISCSI().AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal})
	_, connect := n.ISCSI().ConnectTarget(ctx, &iscsi.ConnectTargetRequest{
		TargetPortal: portal, IQN: iqn, AuthType: iscsi.ONE_WAY_CHAP, ChapUsername: "csi", ChapSecret: "secret-of-16-byt",
	})
	return cmp.Or(service, target, start, add, connect)
}

func TestServicesAndTargetsThatCannotBe(t *testing.T) {
	s := newServer(t, simnode.Config{})
	service := func(json string) error {
		return second(s.SetService(t.Context(), &simcontrol.Description{Json: json}))
	}
	target := func(json string) error {
		return second(s.SetIscsiTarget(t.Context(), &simcontrol.SecretDescription{SecretJson: json}))
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no service", service(``), "empty"},
		{"a service without a name", service(`{}`), "service name"},
		{"a start type", service(`{"name": "a", "startType": "sometimes"}`), "sometimes"},
		{"a state", service(`{"name": "a", "state": "start pending"}`), "start pending"},
		{"a negative delay", service(`{"name": "a", "stopDelay": "-1ms"}`), "stop delay"},
		{"a delay beyond a day", service(`{"name": "a", "waitHint": "24h1ms"}`), "wait hint"},
		{"a delay without a unit", service(`{"name": "a", "startDelay": 3}`), "duration 3"},
		{"where it hangs", service(`{"name": "a", "hangs": "always"}`), "always"},
		{"a target without a name", target(`{"portals": ["10.0.0.1"]}`), "not a valid iSCSI name"},
		{"a target without portals", target(`{"iqn": "` + iqn + `"}`), "portal"},
		{"a port", target(`{"iqn": "` + iqn + `", "portals": ["10.0.0.1:68796"]}`), "68796"},
		{"a LUN", target(`{"iqn": "` + iqn + `", "portals": ["a"], "luns": [{"disk": {"size": 1}}]}`), "1 bytes"},
		{"an arrival delay", target(`{"iqn": "` + iqn + `", "portals": ["a"], "arrivalDelay": "2540400h"}`), "arrival delay"},
	} {
		if !errors.Is(c.err, hosterr.ErrInvalid) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want an invalid argument with %q", c.name, c.err, c.want)
		}
	}
}
