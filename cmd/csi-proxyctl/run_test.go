package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
)

// A daemon that hangs says nothing, so the hint is not its own.
func TestSilenceHasAHint(t *testing.T) {
	err := &failure{what: "disk/v1 ListDiskIDs", err: status.FromContextError(context.DeadlineExceeded).Err()}
	if got := explain(err); !strings.Contains(got, "\nhint: csi-proxy gave no answer within --timeout") {
		t.Errorf("explain = %q, want a hint", got)
	}
}
