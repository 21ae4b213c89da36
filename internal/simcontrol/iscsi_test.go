package simcontrol_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

const iqn = "iqn.2003-01.org.example:disk1"

// connectISCSI gives a node a service and a target with everything that can be
// said about them, and connects the target.
func connectISCSI(ctx context.Context, n *simnode.Node, s *simcontrol.Server) error {
	portal := &iscsi.TargetPortal{TargetAddress: "fd00::1", TargetPort: 3261}
	_, service := s.SetService(ctx, &simcontrol.SetServiceRequest{Service: &simcontrol.Service{
		Name: "agent", DisplayName: "Agent", StartType: "manual", State: "stopped", DependsOn: []string{"MSiSCSI"},
		StartDelayMilliseconds: 1, StopDelayMilliseconds: 2, WaitHintMilliseconds: 3, StartError: 1069, Dies: 1067, RefusesStop: true, Hangs: "stop",
	}})
	_, target := s.SetIscsiTarget(ctx, &simcontrol.SetIscsiTargetRequest{
		Iqn: iqn, Portals: []string{"[fd00::1]:3261", "10.0.0.1"}, LunBytes: []uint64{1 << 30, 2 << 30},
		ChapUser: "csi", ChapSecret: "secret-of-16-byt", Busy: true,
	})
	_, start := n.System().StartService(ctx, &system.StartServiceRequest{Name: "MSiSCSI"})
	_, add := n.ISCSI().AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: portal})
	_, connect := n.ISCSI().ConnectTarget(ctx, &iscsi.ConnectTargetRequest{
		TargetPortal: portal, IQN: iqn, AuthType: iscsi.ONE_WAY_CHAP, ChapUsername: "csi", ChapSecret: "secret-of-16-byt",
	})
	return cmp.Or(service, target, start, add, connect)
}

func TestTargetsComeAndGo(t *testing.T) {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := simcontrol.NewServer(n)
	if err := connectISCSI(t.Context(), n, s); err != nil {
		t.Fatal(err)
	}
	state, err := s.Show(t.Context(), &simcontrol.ShowRequest{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(state.IscsiTargets, func(t *simcontrol.IscsiTarget) bool { return t.Iqn == iqn })
	if i < 0 {
		t.Fatalf("no target in %v", state.IscsiTargets)
	}
	got := state.IscsiTargets[i]
	if !slices.Equal(got.Portals, []string{"[fd00::1]:3261", "10.0.0.1:3260"}) || !slices.Equal(got.DiskNumbers, []uint32{3, 4}) || !slices.Equal(got.State, []string{"busy"}) {
		t.Errorf("target = %v", got)
	}
	if strings.Contains(state.String(), "secret-of") {
		t.Errorf("Show tells a secret: %v", state)
	}
	if _, err := s.RemoveIscsiTarget(t.Context(), &simcontrol.RemoveIscsiTargetRequest{Iqn: iqn}); err != nil {
		t.Fatal(err)
	}
	if state, err = s.Show(t.Context(), &simcontrol.ShowRequest{}); err != nil || len(state.Disks) != 3 || len(state.IscsiTargets) != 1 {
		t.Errorf("after the target went: %v, %v", state, err)
	}
}

func TestServicesAndTargetsThatCannotBe(t *testing.T) {
	s := newServer(t, simnode.Config{})
	service := func(d *simcontrol.Service) error {
		_, err := s.SetService(t.Context(), &simcontrol.SetServiceRequest{Service: d})
		return err
	}
	target := func(in *simcontrol.SetIscsiTargetRequest) error {
		_, err := s.SetIscsiTarget(t.Context(), in)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no service", service(nil), "no service"},
		{"a service without a name", service(&simcontrol.Service{}), "service name"},
		{"a start type", service(&simcontrol.Service{Name: "a", StartType: "sometimes"}), "sometimes"},
		{"a state", service(&simcontrol.Service{Name: "a", State: "start pending"}), "start pending"},
		{"a delay", service(&simcontrol.Service{Name: "a", StopDelayMilliseconds: math.MinInt64}), "stop delay"},
		{"where it hangs", service(&simcontrol.Service{Name: "a", Hangs: "always"}), "always"},
		{"a target without a name", target(&simcontrol.SetIscsiTargetRequest{Portals: []string{"10.0.0.1"}}), "not an iSCSI name"},
		{"a target without portals", target(&simcontrol.SetIscsiTargetRequest{Iqn: iqn}), "portal"},
		{"a port", target(&simcontrol.SetIscsiTargetRequest{Iqn: iqn, Portals: []string{"10.0.0.1:68796"}}), "68796"},
		{"a LUN", target(&simcontrol.SetIscsiTargetRequest{Iqn: iqn, Portals: []string{"a"}, LunBytes: []uint64{1}}), "1 bytes"},
		{"an arrival delay", target(&simcontrol.SetIscsiTargetRequest{Iqn: iqn, Portals: []string{"a"}, ArrivalDelayMilliseconds: math.MaxInt64}), "arrival delay"},
	} {
		if !errors.Is(c.err, hosterr.ErrInvalid) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want an invalid argument with %q", c.name, c.err, c.want)
		}
	}
}
