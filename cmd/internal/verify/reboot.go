package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// kept is what the run before a restart of Windows leaves for the run after it. It is
// stored as a file, and has no secrets.
type kept struct {
	Dir   string          `json:"dir"`  // of what was made, on the node
	Boot  string          `json:"boot"` // when Windows had started
	Notes map[string]note `json:"notes"`
}

// note is what a question about a restart has to remember.
type note map[string]string

// rebootQuestion is a question about what a restart of Windows leaves.
type rebootQuestion struct {
	question
	before func(p *place) note
	after  func(p *place, n note) string // the answer; it takes back what before made
}

func rebootQuestions() []rebootQuestion {
	return []rebootQuestion{
		{
			question{
				name: "SMB mapping after a restart", option: "smbAfterReboot", contract: "smb.md#restart-of-csi-proxy-restart-of-windows", settings: true,
				asks: "What does a restart leave of a global SMB mapping?",
				does: "makes a local account and a share of its own, maps it, and after the restart lists the mapping and opens the share",
			}, mappingBefore, mappingAfter,
		},
		{
			question{
				name: "mapping without WMI after a restart", contract: "smb.md#two-ways-to-a-global-mapping", settings: true, windows: true, native: true,
				asks:   "What does a restart leave of a mapping of NetUseAdd with its two flags?",
				does:   "the same, through NetUseAdd",
				expect: []string{"as for the other way"}, change: "without WMI, a mapping is made again after a restart",
			}, mappingBefore, mappingAfter,
		},
		{
			question{
				name: "iSCSI session after a restart", contract: "iscsi.md#sessions", settings: true,
				asks: "Is an iSCSI session that is not persistent gone after a restart?",
				does: "looks at the sessions that are there; log in to a target first",
			}, sessionBefore, sessionAfter,
		},
		{
			question{
				name: "disk number after a restart", option: "diskNumbers", contract: "disks.md#number",
				asks: "Does a disk have its number after a restart?",
				does: "attaches a virtual disk, and after the restart attaches its file again",
			}, numberBefore, numberAfter,
		},
		{
			question{
				name: "volume name after a restart", contract: "volumes.md#finding-volumes",
				asks: "Does a volume have its name after a restart?",
				does: "the same, with a volume",
			}, nameBefore, nameAfter,
		},
		{
			question{
				name: "mount point after a restart", contract: "volumes.md#mount",
				asks: "Does a folder lead to the volume that was mounted there before a restart?",
				does: "mounts the volume of a virtual disk, and after the restart attaches its file again",
			}, mountBefore, mountAfter,
		},
		{
			question{
				name: "offline disk after a restart", contract: "disks.md#online-offline-read-only",
				asks: "Is a disk offline after a restart that was taken offline before?",
				does: "sets DISK_ATTRIBUTE_OFFLINE persistently on a virtual disk, and after the restart attaches its file again",
			}, offlineDiskBefore, offlineDiskAfter,
		},
		{
			question{
				name: "offline volume after a restart", contract: "disks.md#waiting-for-a-volume",
				asks: "Is a volume offline after a restart that was taken offline before?",
				does: "takes the volume of a virtual disk offline, and after the restart attaches its file again",
			}, offlineVolumeBefore, offlineVolumeAfter,
		},
		{
			question{
				name: "SAN policy after a restart", contract: "disks.md#online-offline-read-only",
				asks: "Does a restart keep the policy for new disks?",
				does: "reads the policy before and after; it does not change it",
			}, policyBefore, policyAfter,
		},
	}
}

// runBefore prepares each question in a test of its own, and stores what they have to
// remember.
func runBefore(t *testing.T, o options) {
	k := kept{Dir: o.Dir, Notes: map[string]note{}}
	for _, q := range rebootQuestions() {
		t.Run(q.name, func(t *testing.T) {
			p := newRebootPlace(t, o, q)
			boot, err := p.Boot()
			p.need(err)
			n := q.before(p)
			k.Boot, k.Notes[q.name] = boot, n
		})
	}
	text, err := json.Marshal(k)
	if err == nil {
		err = os.WriteFile(o.Kept, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

func newRebootPlace(t *testing.T, o options, q rebootQuestion) *place {
	t.Helper()
	switch {
	case q.settings && !o.MachineSettings:
		t.Skip("changes a setting of the machine: needs -machine-settings")
	case o.Wine:
		t.Skip("needs Windows: " + wineLacks)
	case o.Simulated && q.windows:
		t.Skip("needs Windows: a simulated node has no such thing")
	case q.native:
		return newPlace(t, o, backends[1])
	}
	return newPlace(t, o, backends[0])
}

// runAfter asks the questions for which there is a note.
func runAfter(t *testing.T, o options) {
	k, err := readKept(o.Kept)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, o, backends[0])
	if err := p.Restarted(k.Boot); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil { // the state of a simulated node has one user at a time
		t.Fatal(err)
	}
	for _, q := range rebootQuestions() {
		n, ok := k.Notes[q.name]
		t.Run(q.name, func(t *testing.T) {
			if !ok {
				t.Skip("not prepared by the run with -before-reboot, whose report says why")
			}
			p := newRebootPlace(t, o, q)
			answer := q.after(p, n)
			t.Attr("answer", strings.ReplaceAll(answer, "\n", " "))
			checkAnswer(t, q.question, answer)
		})
	}
}

func readKept(file string) (k kept, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, errors.New("there is no complete run with -before-reboot")
	}
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal(text, &k)
}

// keep returns a name by which [place.resume] finds a disk after the restart.
func (p *place) keep(number uint32) string {
	p.Helper()
	token, err := p.Keep(number)
	p.need(err)
	return token
}

func (p *place) resume(token string) uint32 {
	p.Helper()
	number, err := p.Resume(token)
	p.need(err)
	return number
}

func numberBefore(p *place) note {
	number := p.attach(conformance.Disk{Size: gib})
	return note{"disk": p.keep(number), "number": fmt.Sprint(number)}
}

func numberAfter(p *place, n note) string {
	if number := fmt.Sprint(p.resume(n["disk"])); number != n["number"] {
		return nodespec.DiskNumbersReassigned
	}
	return nodespec.DiskNumbersKept
}

func nameBefore(p *place) note {
	number, id := p.data(conformance.Disk{})
	return note{"disk": p.keep(number), "volume": id}
}

func nameAfter(p *place, n note) string {
	number := p.resume(n["disk"])
	var list *volume.ListVolumesOnDiskResponse
	p.need(p.wait(func() (err error) {
		list, err = p.services.Volume.ListVolumesOnDisk(p.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
		if err == nil && len(list.VolumeIDs) == 0 {
			err = errors.New("the disk has no volume")
		}
		return err
	}))
	if len(list.VolumeIDs) != 1 || !storage.SameVolume(list.VolumeIDs[0], n["volume"]) {
		return "another"
	}
	return "the same"
}

func mountBefore(p *place) note {
	number, id := p.data(conformance.Disk{})
	target := p.directory("target")
	p.need(p.node.API.SetMountPoint(target+`\`, id))
	return note{"disk": p.keep(number), "volume": id, "target": target + `\`}
}

func mountAfter(p *place, n note) string {
	p.resume(n["disk"])
	p.openVolume(strings.TrimSuffix(n["volume"], `\`), 0) // waits for it
	answer := "yes"
	switch id, err := p.node.API.VolumeNameForMountPoint(n["target"]); {
	case err != nil:
		answer = "no: " + err.Error()
	case !storage.SameVolume(id, n["volume"]):
		answer = "no, to another volume"
	}
	if err := p.node.API.DeleteMountPoint(n["target"]); err != nil {
		p.Errorf("unmount: %v", err)
	}
	return answer
}

func offlineDiskBefore(p *place) note {
	number, _ := p.data(conformance.Disk{})
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
		return d.SetAttributes(ctx, win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_OFFLINE, storage.Remembered)
	})
	return note{"disk": p.keep(number)}
}

func offlineDiskAfter(p *place, n note) string {
	number := p.resume(n["disk"])
	state, err := p.services.Disk.GetDiskState(p.Context(), &disk.GetDiskStateRequest{DiskNumber: number})
	p.need(err)
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error { // else the next disk in its slot is offline
		return d.SetAttributes(ctx, 0, win32.DISK_ATTRIBUTE_OFFLINE, storage.Remembered)
	})
	if state.IsOnline {
		return "no, online"
	}
	return "yes"
}

func offlineVolumeBefore(p *place) note {
	number, id := p.data(conformance.Disk{})
	h := p.openVolume(strings.TrimSuffix(id, `\`), win32.GENERIC_READ|win32.GENERIC_WRITE)
	_, err := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_OFFLINE, nil, nil)
	p.need(err)
	return note{"disk": p.keep(number), "volume": id}
}

func offlineVolumeAfter(p *place, n note) string {
	p.resume(n["disk"])
	h := p.openVolume(strings.TrimSuffix(n["volume"], `\`), 0)
	switch _, err := p.node.API.DeviceIoControl(h, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil); {
	case err == nil:
		return "yes"
	case win32.IsCode(err, win32.ERROR_GEN_FAILURE):
		return "no, online"
	default:
		return "IOCTL_VOLUME_IS_OFFLINE fails: " + err.Error()
	}
}

func policyBefore(p *place) note {
	policy, err := p.SANPolicy()
	p.need(err)
	return note{"policy": policy}
}

func policyAfter(p *place, n note) string {
	policy, err := p.SANPolicy()
	p.need(err)
	if policy != n["policy"] {
		return fmt.Sprintf("no: %s before, %s after", n["policy"], policy)
	}
	return "yes: " + policy
}

// mapShare maps a share that the node can reach.
func (p *place) mapShare() (remote string) {
	p.Helper()
	s, err := p.Share()
	p.need(err)
	p.need(p.KeepMapping(s.remote))
	p.need(p.node.API.UseAdd(win32.NewUse{
		Remote: s.remote, User: s.user, Domain: s.domain, Password: win32.NewSecret(s.password), Flags: win32.REQUIRE_CONNECTION_PRIVACY,
	}))
	return s.remote
}

// mapping returns the mapping of a share.
func (p *place) mapping(remote string) (win32.Use, bool) {
	p.Helper()
	all, err := p.node.API.UseEnum()
	p.need(err)
	for _, u := range all {
		if strings.EqualFold(u.Remote, remote) {
			return u, true
		}
	}
	return win32.Use{}, false
}

func mappingBefore(p *place) note { return note{"remote": p.mapShare()} }

func mappingAfter(p *place, n note) string {
	remote := n["remote"]
	if _, ok := p.mapping(remote); !ok {
		return behavior.SMBAbsent
	}
	defer func() {
		if err := p.node.API.UseDel(remote, win32.USE_LOTS_OF_FORCE); err != nil {
			p.Errorf("remove the mapping: %v", err)
		}
	}()
	h, err := p.node.API.NtCreateFile(0, `\??\UNC`+remote[1:]+`\`, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, 0,
		win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.FILE_OPEN, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	if err != nil {
		p.Logf("the share does not open: %v", err)
		return behavior.SMBDisconnected
	}
	p.need(p.node.API.CloseHandle(h))
	return behavior.SMBWorking
}

// startInitiator starts the iSCSI initiator, if it is stopped.
func (p *place) startInitiator() {
	p.Helper()
	status, err := p.node.API.ServiceStatus(initiator)
	p.need(err)
	if status.State == win32.SERVICE_RUNNING {
		return
	}
	p.need(p.KeepStopped(initiator))
	_, err = p.services.System.StartService(p.Context(), &system.StartServiceRequest{Name: initiator})
	p.need(err)
}

func sessionBefore(p *place) note {
	p.startInitiator()
	if login, ok := p.Target(); ok {
		_, err := p.services.ISCSI.AddTargetPortal(p.Context(), &iscsi.AddTargetPortalRequest{TargetPortal: login.TargetPortal})
		p.need(err)
		_, err = p.services.ISCSI.DiscoverTargetPortal(p.Context(), &iscsi.DiscoverTargetPortalRequest{TargetPortal: login.TargetPortal})
		p.need(err)
		_, err = p.services.ISCSI.ConnectTarget(p.Context(), &login)
		p.need(err)
	}
	sessions, err := p.node.API.GetIScsiSessionList()
	p.need(err)
	persistent, err := p.node.API.ReportIScsiPersistentLogins()
	p.need(err)
	for _, s := range sessions {
		again := false
		for _, l := range persistent {
			again = again || strings.EqualFold(l.TargetName, s.TargetName)
		}
		if !again {
			return note{"target": s.TargetName}
		}
	}
	p.Skip("there is no iSCSI session that is not persistent: log in to a target first")
	return nil
}

func sessionAfter(p *place, n note) string {
	p.startInitiator()
	sessions, err := p.node.API.GetIScsiSessionList()
	p.need(err)
	for _, s := range sessions {
		if strings.EqualFold(s.TargetName, n["target"]) {
			return "no, it is there again"
		}
	}
	return "yes"
}
