package storage

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Partitions of these types are of no use to a driver, and their loss may be the loss of
// another disk's data.
func TestPartitionsOfDisksThatAreNotChanged(t *testing.T) {
	const spaces, cluster, recovery, dynamic = "a Storage Spaces partition", "a partition of a failover cluster", "a recovery partition", "a dynamic-disk partition"
	for id, want := range map[win32.GUID]string{
		win32.PARTITION_BASIC_DATA_GUID:             "",
		win32.PARTITION_MSFT_RESERVED_GUID:          "",
		win32.PARTITION_SYSTEM_GUID:                 "an EFI system partition",
		win32.PARTITION_MSFT_RECOVERY_GUID:          recovery,
		win32.PARTITION_LDM_DATA_GUID:               dynamic,
		win32.PARTITION_LDM_METADATA_GUID:           dynamic,
		win32.PARTITION_SPACES_GUID:                 spaces,
		win32.PARTITION_SPACES_DATA_GUID:            spaces,
		win32.PARTITION_SBL_CACHE_SSD_GUID:          spaces,
		win32.PARTITION_SBL_CACHE_SSD_RESERVED_GUID: spaces,
		win32.PARTITION_SBL_CACHE_HDD_GUID:          spaces,
		win32.PARTITION_CLUSTER_GUID:                cluster,
	} {
		if got := systemEntry(win32.Layout{Style: win32.PARTITION_STYLE_GPT}, win32.Partition{Type: id}); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	// winioctl.h
	for kind, want := range map[byte]string{0x07: "", 0x0C: "", 0x27: recovery, 0x42: dynamic, 0xD7: spaces, 0xE7: spaces} {
		if got := systemEntry(win32.Layout{Style: win32.PARTITION_STYLE_MBR}, win32.Partition{MBRType: kind}); got != want {
			t.Errorf("MBR type %#x: %q, want %q", kind, got, want)
		}
	}
}
