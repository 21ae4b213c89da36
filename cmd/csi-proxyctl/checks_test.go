package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// harms matches advice that destroys or detaches something.
var harms = regexp.MustCompile(`(?i)\bdetach|disk clear|FormatVolume|disconnect|RemoveSmbGlobalMapping|diskpart|is_online=false|chkdsk`)

// harmful reports whether a remedy destroys or detaches something that it must not.
func harmful(s standing, remedy string) bool {
	at := harms.FindStringIndex(remedy)
	first := strings.Index(remedy, "delete the pods that use it first")
	return at != nil && (s == ofWindows || s == used && (first < 0 || first > at[0]))
}

// Whatever is wrong, no advice about a disk or volume of Windows destroys or detaches it, and none
// about one that a pod uses, unless the pod is deleted first.
func TestAdviceDoesNoHarm(t *testing.T) {
	const id, other = `\\?\Volume{11111111-90ab-4cde-8f01-234567890abc}\`, `\\?\Volume{22222222-90ab-4cde-8f01-234567890abc}\`
	uses := map[string]struct {
		want    standing
		volumes func(v *admin.Volume) []*admin.Volume
	}{
		"free": {free, func(v *admin.Volume) []*admin.Volume { return []*admin.Volume{v} }},
		"of a pod": {used, func(v *admin.Volume) []*admin.Volume {
			v.MountedAt = []string{`C:\k\globalmount\`}
			return []*admin.Volume{v}
		}},
		"of Windows": {ofWindows, func(v *admin.Volume) []*admin.Volume { v.MountedAt = []string{`C:\`}; return []*admin.Volume{v} }},
		"on the disk of Windows": {ofWindows, func(v *admin.Volume) []*admin.Volume {
			return []*admin.Volume{{Id: other, Disks: []uint32{1}, MountedAt: []string{`C:\`}}, v}
		}},
		"somewhere, as Windows is": {ofWindows, func(v *admin.Volume) []*admin.Volume {
			v.Disks = nil
			return []*admin.Volume{{Id: other, MountedAt: []string{`C:\`}, Error: "silent"}, v}
		}},
	}
	faults := map[string]func(d *admin.Disk, v *admin.Volume){
		"the disk is silent":          func(d *admin.Disk, _ *admin.Volume) { d.Error = "no answer" },
		"the disk is read-only":       func(d *admin.Disk, _ *admin.Volume) { d.ReadOnly = true },
		"the disk is write-protected": func(d *admin.Disk, _ *admin.Volume) { d.WriteProtected = true },
		"the volume is silent":        func(_ *admin.Disk, v *admin.Volume) { v.Error = "no answer" },
		"the volume is offline":       func(_ *admin.Disk, v *admin.Volume) { v.Offline = true },
		"the volume has no content":   func(_ *admin.Disk, v *admin.Volume) { v.FileSystem = "" },
		"the volume is full":          func(_ *admin.Disk, v *admin.Volume) { v.FreeBytes = 0 },
	}
	advised := 0
	for use, u := range uses {
		for fault, break_ := range faults {
			d := &admin.Disk{Number: 1, Online: true, Style: "GPT", Partitions: []*admin.Partition{{Number: 1}}}
			v := &admin.Volume{Id: id, Disks: []uint32{1}, FileSystem: "NTFS", SizeBytes: 1000, FreeBytes: 500}
			node := &admin.DescribeResponse{Disks: []*admin.Disk{d}, Volumes: u.volumes(v)}
			break_(d, v)
			ofVolume := volumeTrouble(node, v).remedy
			ofDisk := diskTrouble(node, d, "disk 1").remedy
			remedies := []string{ofVolume, ofDisk}
			for _, f := range slices.Concat(examineDisks(node, nil), examineVolumes(node), examineTargets(node, false)) {
				remedies = append(remedies, f.Hint)
			}
			for _, remedy := range remedies {
				if harms.MatchString(remedy) {
					advised++
				}
				is := u.want
				if is == free && v.Error != "" { // it may be mounted
					is = used
				}
				if harmful(is, remedy) {
					t.Errorf("%s, %s: %s", use, fault, remedy)
				}
			}
		}
	}
	if advised == 0 {
		t.Error("no advice destroys or detaches anything: the test looks for the wrong words")
	}
	for _, status := range []string{"ok", "disconnected", "connection lost"} {
		for _, f := range examineSMB([]smbMapping{{Remote: `\\nas\data`, Status: status, UsedBy: []string{`C:\k\globalmount`}}}) {
			if harms.MatchString(f.Hint) {
				t.Errorf("a share in use is %s: %s", status, f.Hint)
			}
		}
	}
}

func TestDidYouMeanName(t *testing.T) {
	at := []string{`C:\var\lib\kubelet\pods\7f2c\volumes\kubernetes.io~csi\data-2\mount`, `C:\var\lib\kubelet\plugins\kubernetes.io\csi\disk.example\pvc-10\globalmount`}
	for name, want := range map[string]string{
		"data": `did you mean "data-2"?`, "pvc-1": `did you mean "pvc-10"?`, "pvc-11": `did you mean "pvc-10"?`, "globalmount": "", "other": "",
	} {
		if got := didYouMeanName(name, at); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
