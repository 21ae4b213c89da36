package system_test

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
)

// oneService is a HostAPI with one service.
type oneService struct {
	systemapi.HostAPI
	info systemapi.ServiceInfo
}

func (o oneService) GetService(string) (*systemapi.ServiceInfo, error) { return &o.info, nil }

// 0 is a start type, so an unknown one must be an error.
func TestUnknownStartType(t *testing.T) {
	for _, start := range []string{"", "Delayed"} {
		s, err := system.New(oneService{info: systemapi.ServiceInfo{DisplayName: "A", StartType: start, Status: "Running"}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.GetService(t.Context(), &system.GetServiceRequest{Name: "a"})
		if out != nil || err == nil || !strings.Contains(err.Error(), `unknown start type "`+start+`"`) {
			t.Errorf("start type %q: %+v, %v; want an error", start, out, err)
		}
	}
}
