package policy_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// reached is a system service that notes which services a request got to.
type reached struct {
	system.Interface
	names []string
}

func (r *reached) StartService(_ context.Context, in *system.StartServiceRequest) (*system.StartServiceResponse, error) {
	if in != nil {
		r.names = append(r.names, in.Name)
	}
	return &system.StartServiceResponse{}, nil
}

func (r *reached) StopService(_ context.Context, in *system.StopServiceRequest) (*system.StopServiceResponse, error) {
	if in != nil {
		r.names = append(r.names, in.Name)
	}
	return &system.StopServiceResponse{}, nil
}

func (r *reached) GetService(_ context.Context, in *system.GetServiceRequest) (*system.GetServiceResponse, error) {
	r.names = append(r.names, in.Name)
	return &system.GetServiceResponse{}, nil
}

func TestOnlyAllowedServicesAreStartedAndStopped(t *testing.T) {
	behind := &reached{}
	s := policy.System(behind, append(policy.DefaultServices(), "Own"))
	for _, c := range []struct {
		name    string
		allowed bool
	}{{"MSiSCSI", true}, {"msiscsi", true}, {"own", true}, {"", true}, {"kubelet", false}, {"MSiSCSI ", false}, {"MSiSCSI2", false}, {"M\u017fiSCSI", false}} {
		_, start := s.StartService(t.Context(), &system.StartServiceRequest{Name: c.name})
		_, stop := s.StopService(t.Context(), &system.StopServiceRequest{Name: c.name, Force: true})
		for op, err := range map[string]error{"start": start, "stop": stop} {
			if c.allowed != (err == nil) || err != nil && !errors.Is(err, hosterr.ErrPermissionDenied) {
				t.Errorf("%s %q = %v, allowed %t", op, c.name, err, c.allowed)
			}
			if err != nil && !strings.Contains(hosterr.HintOf(err), "-service-allow="+c.name) {
				t.Errorf("%s %q: hint %q does not name the flag", op, c.name, hosterr.HintOf(err))
			}
		}
	}
	if len(behind.names) != 8 {
		t.Errorf("requests that went through: %q, want the allowed ones", behind.names)
	}
	if _, err := s.GetService(t.Context(), &system.GetServiceRequest{Name: "kubelet"}); err != nil {
		t.Errorf("GetService kubelet = %v: every service may be asked about", err)
	}
	if _, err := s.StartService(t.Context(), nil); err != nil {
		t.Errorf("a nil request is the service's to refuse, got %v", err)
	}
}
