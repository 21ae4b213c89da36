package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Which side's deadline ends first is chance; the text is the same.
func TestResetStreamIsTimeout(t *testing.T) {
	reset := status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")
	got := explain(&failure{what: "disk/v1 ListDiskIDs", err: reset})
	if want := explain(&failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()}); got != want {
		t.Errorf("explain = %q, want %q", got, want)
	}
}

// A daemon that hangs does not respond, so the hint comes from csi-proxyctl.
func TestDeadlineHasHint(t *testing.T) {
	err := &failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()}
	if got := explain(err); !strings.Contains(got, "\nhint: csi-proxy did not respond within --timeout") {
		t.Errorf("explain = %q, want a hint", got)
	}
}
