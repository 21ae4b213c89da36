package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
)

// A daemon that hangs does not respond, so the hint comes from csi-proxyctl.
func TestDeadlineHasHint(t *testing.T) {
	err := &failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()}
	if got := explain(err); !strings.Contains(got, "\nhint: csi-proxy did not respond within --timeout") {
		t.Errorf("explain = %q, want a hint", got)
	}
}
