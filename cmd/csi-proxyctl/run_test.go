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
	want, wantHint := explain(&failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()})
	if !strings.Contains(wantHint, "csi-proxy did not respond within --timeout") {
		t.Errorf("the hint is %q", wantHint)
	}
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
		reset := status.Error(code, "stream terminated by RST_STREAM with error code: CANCEL")
		if got, hint := explain(&failure{what: "disk/v1 ListDiskIDs", err: reset}); got != want || hint != wantHint {
			t.Errorf("%v: explain = %q, %q; want %q, %q", code, got, hint, want, wantHint)
		}
	}
}
