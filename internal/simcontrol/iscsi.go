package simcontrol

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// showServices is the part of Show about services and iSCSI.
func showServices(out *ShowResponse, state simnode.State) {
	ms := func(d simnode.Duration) int64 { return time.Duration(d).Milliseconds() }
	for _, s := range state.Services {
		out.Services = append(out.Services, &Service{
			Name: s.Name, DisplayName: s.DisplayName, StartType: s.StartType, State: s.Status, DependsOn: s.DependsOn,
			StartDelayMilliseconds: ms(s.StartDelay), StopDelayMilliseconds: ms(s.StopDelay), WaitHintMilliseconds: ms(s.WaitHint),
			StartError: s.StartError, Dies: s.Dies, RefusesStop: s.RefusesStop, Hangs: s.Hangs,
		})
	}
	for _, t := range state.ISCSITargets {
		out.IscsiTargets = append(out.IscsiTargets, &IscsiTarget{
			Iqn: t.IQN, Portals: portalTexts(t.Portals), Luns: uint32(t.LUNs), ChapUser: t.CHAP,
			Session: t.Session, Through: t.Through, DiskNumbers: t.Disks, State: t.State,
		})
	}
	out.IscsiPortals = portalTexts(state.ISCSIPortals)
}

func portalTexts(portals []simnode.ISCSIPortal) []string {
	var texts []string
	for _, p := range portals {
		port := p.Port
		if port == 0 {
			port = 3260
		}
		texts = append(texts, net.JoinHostPort(p.Address, strconv.FormatUint(uint64(port), 10)))
	}
	return texts
}

// parsePortal reads ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func parsePortal(text string) (simnode.ISCSIPortal, error) {
	host, port := text, ""
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	p := simnode.ISCSIPortal{Address: strings.Trim(host, "[]")}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return p, fmt.Errorf("portal %q: port %q, want 1 to 65535: %w", text, port, hosterr.ErrInvalid)
		}
		p.Port = uint16(n)
	}
	return p, nil
}

// duration is a number of milliseconds that a request gave.
func duration(what string, ms int64) (simnode.Duration, error) {
	const most = int64(24 * time.Hour / time.Millisecond)
	if ms < 0 || ms > most {
		return 0, fmt.Errorf("%s of %d ms, want 0 to a day: %w", what, ms, hosterr.ErrInvalid)
	}
	return simnode.Duration(time.Duration(ms) * time.Millisecond), nil
}

// SetService implements [NodeServer].
func (s *Server) SetService(_ context.Context, in *SetServiceRequest) (*SetServiceResponse, error) {
	d := in.Service
	if d == nil {
		return nil, fmt.Errorf("set service: no service given: %w", hosterr.ErrInvalid)
	}
	out := simnode.Service{
		Name: d.Name, DisplayName: d.DisplayName, StartType: d.StartType, State: d.State, DependsOn: d.DependsOn,
		StartError: d.StartError, Dies: d.Dies, RefusesStop: d.RefusesStop, Hangs: d.Hangs,
	}
	for _, f := range []struct {
		what string
		ms   int64
		to   *simnode.Duration
	}{
		{"start delay", d.StartDelayMilliseconds, &out.StartDelay}, {"stop delay", d.StopDelayMilliseconds, &out.StopDelay},
		{"wait hint", d.WaitHintMilliseconds, &out.WaitHint},
	} {
		var err error
		if *f.to, err = duration(f.what, f.ms); err != nil {
			return nil, hosterr.Wrap("set service", hosterr.Quote(d.Name), err)
		}
	}
	if err := s.node.SetService(out); err != nil {
		return nil, err
	}
	return &SetServiceResponse{}, nil
}

// SetIscsiTarget implements [NodeServer].
func (s *Server) SetIscsiTarget(_ context.Context, in *SetIscsiTargetRequest) (*SetIscsiTargetResponse, error) {
	wrap := func(err error) error { return hosterr.Wrap("set iSCSI target", hosterr.Quote(in.Iqn), err) }
	t := simnode.ISCSITarget{IQN: in.Iqn, Refuses: in.Refuses, Unreachable: in.Unreachable, Busy: in.Busy, Persistent: in.Persistent}
	for _, text := range in.Portals {
		p, err := parsePortal(text)
		if err != nil {
			return nil, wrap(err)
		}
		t.Portals = append(t.Portals, p)
	}
	for _, size := range in.LunBytes {
		t.LUNs = append(t.LUNs, simnode.LUN{Disk: simnode.Disk{Size: simnode.Size(size)}})
	}
	if in.ChapUser != "" || in.ChapSecret != "" {
		t.CHAP = &simnode.CHAP{User: in.ChapUser, Secret: in.ChapSecret, MutualSecret: in.MutualSecret}
	}
	var err error
	if t.ArrivalDelay, err = duration("arrival delay", in.ArrivalDelayMilliseconds); err != nil {
		return nil, wrap(err)
	}
	if err := s.node.SetISCSITarget(t); err != nil {
		return nil, wrap(err)
	}
	return &SetIscsiTargetResponse{}, nil
}

// RemoveIscsiTarget implements [NodeServer].
func (s *Server) RemoveIscsiTarget(_ context.Context, in *RemoveIscsiTargetRequest) (*RemoveIscsiTargetResponse, error) {
	if err := s.node.RemoveISCSITarget(in.Iqn); err != nil {
		return nil, err
	}
	return &RemoveIscsiTargetResponse{}, nil
}
