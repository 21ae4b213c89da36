package main

import (
	"fmt"
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

// If no volume answers, that is one problem of the node, and no reason to touch a disk.
func TestSilentNode(t *testing.T) {
	node := &admin.DescribeResponse{Disks: []*admin.Disk{{Number: 0, Online: true}, {Number: 1, Online: true}}}
	for i, at := range []string{`C:\`, `C:\k\1\globalmount\`, `C:\k\2\globalmount\`} {
		node.Volumes = append(node.Volumes, &admin.Volume{Id: fmt.Sprint(i), Disks: []uint32{uint32(i)}, MountedAt: []string{at}, FileSystem: "NTFS", Error: "I/O"})
	}
	expectFindings(t, examineVolumes(node), "problem none of the 3 volumes of the node answers: I/O")
	node.Volumes[0].Error = ""
	expectFindings(t, examineVolumes(node), `problem at C:\k\1\globalmount\, the volume 1 does not answer: I/O`, `problem at C:\k\2\globalmount\, the volume 2 does not answer: I/O`)
}

// The worst result decides the exit code.
func TestWorst(t *testing.T) {
	for result, than := range map[string]string{resultNote: resultOK, resultUnknown: resultNote, resultProblem: resultUnknown} {
		if !worse(result, than) || worse(than, result) || worse(result, result) {
			t.Errorf("%s is not worse than %s", result, than)
		}
	}
}

// A call that could not undo something, because a program uses it, is a problem; that others
// failed is a note.
func TestExamineFailed(t *testing.T) {
	failed := func(method, code, text string) *admin.FailedCall {
		return &admin.FailedCall{Call: &admin.Call{Method: method, Target: `target_path=C:\k\globalmount`, Changes: !strings.HasPrefix(method, "Get")}, Code: code, Error: text, Times: 2}
	}
	const held = "The process cannot access the file because it is being used by another process."
	pod := &admin.Way{Path: `C:\k\pods\7f2c\mount`, Hops: []*admin.Hop{{Path: `C:\k\pods\7f2c\mount`}, {Path: `C:\k\globalmount`}}}
	found := examineFailed([]*admin.FailedCall{failed("UnmountVolume", "Unavailable", held)}, []*admin.Way{pod, {Path: `C:\k\globalmount`, Hops: pod.Hops[1:]}})
	expectFindings(t, found, "problem UnmountVolume failed 0s ago, 2 times: "+held)
	if want := `delete the pods that still link to it: C:\k\pods\7f2c\mount; then end the programs`; !strings.HasPrefix(found[0].Hint, want) {
		t.Errorf("%q, want %q", found[0].Hint, want)
	}
	expectFindings(t, examineFailed([]*admin.FailedCall{
		failed("MountVolume", "Internal", held), failed("GetVolumeStats", "Unavailable", "x"), failed("GetVolumeStats", "NotFound", "x"),
	}, nil), "note 4 calls failed within 10 minutes, and no later one succeeded instead; the last is MountVolume: "+held)
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
