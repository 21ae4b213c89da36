//go:build !windows

package verify

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// runService is about Windows only.
func runService(t *testing.T, _ options) { t.Skip("needs Windows: a simulated node runs no programs") }

func runServedService([]string) error { return node.ErrNoWindows }
