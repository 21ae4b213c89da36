package driver

import (
	"cmp"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const caseDir = `C:\var\lib\kubelet\plugins\contract`

// Reasons why a case cannot run here.
const (
	noFolders = "SetVolumeMountPoint and volumes in folders are stubs in Wine 10"
	noLinks   = "Wine 10 has no reparse points"
	noFiles   = "a driver cannot serve files under Wine, so no directory of the model's volumes can be opened"
	noShares  = "Wine reaches no server, and has no links through which a mapping is used; TestGlobalMappings covers the calls"
	noReasons = "Wine's WMI has no disks, and so no reason why one is offline"
	noModel   = "its subject does not involve the driver; csi-proxy-verify runs it under Wine, too (TestUnderWine)"
)

// groupsNotHere are the groups of cases that cannot run through the driver.
var groupsNotHere = map[string]string{
	"mount": noFolders, "driver": noFolders, "volume_of_a_path": noFolders, "filesystem": noLinks,
	"smb": noShares, "system": noModel,
}

// casesNotHere are such cases of the other groups.
var casesNotHere = map[string]string{
	"volume/superfloppy_has_one_volume":                                  noFolders,
	"volume/volume_IDs_ignore_case":                                      noFolders,
	"format/repeated_format_succeeds_and_formats_once":                   noFiles, // a repeated format checks that the file system is empty
	"format/volume_with_content_is_kept":                                 noFiles,
	"format/volume_gets_the_allocation_units_that_are_asked_for":         noFiles, // as before
	"identity/disk_is_listed_with_the_reason_why_it_is_offline":          noReasons,
	"grow/mounted_volume_grows":                                          noFolders,
	"iscsi/disk_of_a_target_keeps_its_volume_across_logins":              noFolders,
	"concurrency/64_callers_stage,_grow_and_unstage_a_volume_once":       noFolders,
	"concurrency/64_callers_make_and_remove_directory_trees":             noLinks,
	"concurrency/callers_for_different_disks_do_not_wait_for_each_other": noFolders,
	"concurrency/retry_joins_a_format_whose_caller_left":                 noFiles,
	"concurrency/deadlines_hold_while_Windows_hangs":                     noFolders,
	"concurrency/requests_succeed_while_disks_come_and_go":               noFolders,
	"arguments/meaningless_texts_return_typed_errors":                    noLinks,
}

// notHere skips a case that cannot run here, and names the machine that can run
// it.
func notHere(t *testing.T) {
	_, name, _ := strings.Cut(t.Name(), "/")
	group, _, _ := strings.Cut(name, "/")
	if why := cmp.Or(groupsNotHere[group], casesNotHere[name]); why != "" {
		met[group], met[name] = true, true
		t.Skipf("needs real Windows: %s", why)
	}
	if name == "format/volume_that_cannot_be_read_is_an_error" {
		t.Skip("its calls fail before they reach Windows, and each waits: run TestInProcess of pkg/conformance, on Linux")
	}
	for _, content := range []string{"LUKS", "LVM2", "Linux_swap", "XFS", "btrfs", "ext4"} {
		if strings.Contains(name, "_with_"+content+"_") {
			t.Skip("makes the calls of the case with BitLocker: run TestInProcess of pkg/conformance, on Linux, for each content")
		}
	}
}

// met are the groups and cases that were skipped.
var met = map[string]bool{}

// contractNode returns the host for the cases of the contract.
func contractNode(t *testing.T, setup conformance.Setup) *conformance.Node {
	notHere(t)
	config := nodespec.Config{
		Disks:              []nodespec.Disk{{Content: nodespec.ContentSystem}},
		Directories:        []string{caseDir},
		World:              setup.World,
		Windows:            setup.Windows,
		VolumeArrivalDelay: nodespec.Duration(setup.ArrivalDelay),
	}
	if setup.Spanned {
		config.Disks = append(config.Disks, nodespec.Disk{Size: 1 << 30, Content: "gpt"}, nodespec.Disk{Size: 1 << 30, Content: "gpt"})
		config.SpannedVolumes = []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 1, Offset: 64 << 20, Length: 100 << 20}, {Disk: 2, Offset: 64 << 20, Length: 200 << 20}}}}
	}
	h := newHost(t, config)
	if err := os.MkdirAll(caseDir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(caseDir); err != nil {
			t.Error(err)
		}
	})
	return &conformance.Node{
		Disk: h.disk, Volume: h.volume, Filesystem: h.files, ISCSI: h.iscsi, System: h.system,
		Dir:     caseDir,
		Spanned: []uint32{1, 2},
		Attach:  h.attach,
		Detach:  h.detach,
		Grow: func(number uint32, size uint64) error {
			return h.changed(h.model.Grow(number, size))
		},
		Restart:        func() error { return h.changed(h.model.Reboot()) },
		SetISCSITarget: func(t conformance.ISCSITarget) error { return h.changed(h.model.SetISCSITarget(t)) },
		SetService:     h.model.SetService,
		MakeFile:       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		Fail:           h.fail,
		Heal:           h.heal,
		OpenHandles: func() ([]string, error) {
			time.Sleep(time.Millisecond) // a close reaches the model after the call has returned
			return h.openHandles()
		},
	}
}

// The contract of a node, over the disks, volumes and the initiator of the model,
// through Windows' own calls.
func TestContract(t *testing.T) {
	load(t)
	// The thread of WMI stays, so it is there before the goroutines are counted.
	n, err := native()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.API.OfflineReasons(); err != nil {
		t.Logf("ask WMI for reasons: %v", err)
	}
	conformance.Run(t, contractNode)
	for _, names := range []map[string]string{groupsNotHere, casesNotHere} {
		for name := range names {
			if !met[name] {
				t.Errorf("case %q does not exist or did not run", name)
			}
		}
	}
}
