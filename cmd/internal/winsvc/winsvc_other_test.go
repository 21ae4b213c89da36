//go:build !windows

package winsvc_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
)

func TestRunFailsWithoutWindows(t *testing.T) {
	_, err := winsvc.Run(func(context.Context, string, func()) int {
		t.Error("the program ran")
		return 0
	}, nil)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "csiproxy") {
		t.Errorf("Run = %v, want ErrUnsupported with the service", err)
	}
}
