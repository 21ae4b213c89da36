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
	want := explain(&failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()})
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
		reset := status.Error(code, "stream terminated by RST_STREAM with error code: CANCEL")
		if got := explain(&failure{what: "disk/v1 ListDiskIDs", err: reset}); got != want {
			t.Errorf("%v: explain = %q, want %q", code, got, want)
		}
	}
}

// A daemon that hangs does not respond, so the hint comes from csi-proxyctl.
func TestDeadlineHasHint(t *testing.T) {
	err := &failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()}
	if got := explain(err); !strings.Contains(got, "\nhint: csi-proxy did not respond within --timeout") {
		t.Errorf("explain = %q, want a hint", got)
	}
}
