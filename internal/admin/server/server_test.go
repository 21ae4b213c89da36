package server

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Field 3 asked for a dry run once. A caller that sends it must not destroy the disk.
func TestClearDiskRefusesUnknownFields(t *testing.T) {
	in := &admin.ClearDiskRequest{DiskNumber: 1, Serial: "S"}
	in.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 1))
	if _, err := (&Server{}).ClearDisk(t.Context(), in); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("ClearDisk = %v, want %v", err, hosterr.ErrInvalid)
	}
}
