package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// The questions of this file compare what we did or read with what PowerShell says of it,
// which administrators and the existing proxy rely on. Nothing that is installed on nodes
// starts PowerShell.

// powershell runs a script, with the values that it needs in its environment: arguments
// are shown to every program.
func powershell(script string, env ...string) ([]byte, error) {
	c := exec.Command("powershell.exe", "-NoProfile", "-NonInteractive", "-Command", "$ErrorActionPreference = 'Stop'\n"+script)
	c.Env = append(windowsPowerShell(os.Environ()), env...)
	out, err := c.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("powershell: %w", err)
	}
	return out, nil
}

// windowsPowerShell returns an environment without the module path of a PowerShell 7 that
// started this program: Windows PowerShell cannot load its modules
// (https://github.com/PowerShell/PowerShell/issues/18108), and sets a path of its own.
func windowsPowerShell(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(name, "PSModulePath")
	})
}

// objects decodes the properties of what a PowerShell command returns.
func objects[T any](p *place, command string, properties ...string) (all []T) {
	p.Helper()
	// A list of one is put together here, because Windows PowerShell pipes it as its element.
	out, err := powershell("'[' + (@(" + command + " | Select-Object " + strings.Join(properties, ", ") + " | ForEach-Object { ConvertTo-Json -Compress -InputObject $_ }) -join ',') + ']'")
	p.need(err)
	if err := json.Unmarshal(out, &all); err != nil {
		p.Fatalf("%s: %v in %q", command, err, out)
	}
	return all
}

// text makes a property of any type a string.
func text(property string) string {
	return fmt.Sprintf(`@{n='%[1]s'; e={"$($_.%[1]s)".Trim([char]0)}}`, property)
}

// disksOfMachine compares the location and the serial number of each disk of this machine with
// those of Get-Disk. It changes nothing.
func disksOfMachine(p *place) string {
	locations, err := p.services.Disk.ListDiskLocations(p.Context(), &disk.ListDiskLocationsRequest{})
	p.need(err)
	ids, err := p.services.Disk.ListDiskIDs(p.Context(), &disk.ListDiskIDsRequest{})
	p.need(err)
	type shown struct {
		Number                          uint32
		BusType, Location, SerialNumber string
	}
	var answers []string
	for _, d := range objects[shown](p, "Get-Disk", "Number", text("BusType"), text("Location"), text("SerialNumber")) {
		var differ []string
		want, ok := publishedLocation(d.Location)
		if got, listed := locations.DiskLocations[d.Number]; listed != ok || ok && *got != want {
			differ = append(differ, fmt.Sprintf("location %+v, and Get-Disk %q", got, d.Location))
		}
		if got := ids.DiskIDs[d.Number]; got == nil || got.SerialNumber != strings.TrimSpace(d.SerialNumber) {
			differ = append(differ, fmt.Sprintf("identifiers %+v, and Get-Disk %q", got, d.SerialNumber))
		}
		if len(differ) == 0 {
			differ = []string{"the same"}
		}
		if answer := d.BusType + ": " + strings.Join(differ, ", "); !slices.Contains(answers, answer) {
			answers = append(answers, answer)
		}
	}
	return strings.Join(answers, "; ")
}

// publishedLocation parses a location as the existing proxy does: five parts between colons, of
// two words each.
func publishedLocation(text string) (loc disk.DiskLocation, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) < 5 {
		return loc, false
	}
	fields := map[string]*string{"Adapter": &loc.Adapter, "Bus": &loc.Bus, "Target": &loc.Target, "LUN": &loc.LUNID}
	for _, part := range parts {
		if words := strings.Fields(part); len(words) == 2 && fields[words[0]] != nil {
			*fields[words[0]] = words[1]
		}
	}
	return loc, true
}

// partitionsOfOurs partitions disks of both sector sizes.
func partitionsOfOurs(p *place) string {
	var answers []string
	for _, sector := range []uint32{512, 4096} {
		number := p.attach(conformance.Disk{Size: 2 * gib, SectorSize: sector})
		_, err := p.services.Disk.PartitionDisk(p.Context(), &disk.PartitionDiskRequest{DiskNumber: number})
		p.need(err)
		type shown struct {
			Type, DriveLetter string
			Offset            uint64
		}
		got := objects[shown](p, fmt.Sprintf("Get-Partition -DiskNumber %d", number), text("Type"), text("DriveLetter"), "Offset")
		answer := fmt.Sprintf("%+v", got)
		if len(got) == 2 && got[0].Type == "Reserved" && got[1] == (shown{"Basic", "", 16 << 20}) {
			answer = "Reserved, and Basic from 16 MiB without a letter"
		}
		if !slices.Contains(answers, answer) {
			answers = append(answers, answer)
		}
	}
	return strings.Join(answers, "; in sectors of 4096 bytes ")
}

// largestSize grows a volume by ResizeVolume.
func largestSize(p *place) string {
	number, id := p.data(conformance.Disk{})
	p.need(p.Grow(number, 3*gib))
	_, err := p.services.Disk.Rescan(p.Context(), &disk.RescanRequest{})
	p.need(err)
	type supported struct{ SizeMax uint64 }
	largest := objects[supported](p, fmt.Sprintf("Get-PartitionSupportedSize -DiskNumber %d -PartitionNumber 2", number), "SizeMax")
	_, err = p.services.Volume.ResizeVolume(p.Context(), &volume.ResizeVolumeRequest{VolumeID: id})
	p.need(err)
	var length uint64
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
		l, err := d.Layout(ctx)
		data, _ := storage.SingleData(l)
		length = data.Length
		return err
	})
	stats, err := p.services.Volume.GetVolumeStats(p.Context(), &volume.GetVolumeStatsRequest{VolumeID: id})
	p.need(err)
	if len(largest) != 1 || largest[0].SizeMax < length || largest[0].SizeMax-length > 2<<20 || uint64(stats.TotalBytes) > length || length-uint64(stats.TotalBytes) > 64<<10 {
		return fmt.Sprintf("Windows offers %+v, the partition has %d bytes, the file system %d", largest, length, stats.TotalBytes)
	}
	return "yes, to 2 MiB; the file system fills it"
}

// volumeOfReFS formats a volume as no call of ours does.
func volumeOfReFS(p *place) string {
	number := p.attach(conformance.Disk{Size: 8 * gib, Content: nodespec.ContentGPT, Partitions: []conformance.Partition{{}}})
	if _, err := powershell(fmt.Sprintf("Get-Partition -DiskNumber %d -PartitionNumber 2 | Format-Volume -FileSystem ReFS -Confirm:$false", number)); err != nil {
		return err.Error()
	}
	list, err := p.services.Volume.ListVolumesOnDisk(p.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	p.need(err)
	if len(list.VolumeIDs) != 1 {
		p.Fatalf("volumes %q, want one", list.VolumeIDs)
	}
	is, err := p.services.Volume.IsVolumeFormatted(p.Context(), &volume.IsVolumeFormattedRequest{VolumeID: list.VolumeIDs[0]})
	p.need(err)
	if _, err := p.services.Volume.FormatVolume(p.Context(), &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]}); err == nil {
		return fmt.Sprintf("formatted %t, and FormatVolume formats it again", is.Formatted)
	}
	return fmt.Sprintf("formatted %t, and FormatVolume refuses it", is.Formatted)
}

// bothFormats formats volumes of the sizes at which defaults change, in both ways.
func bothFormats(p *place) string {
	var differ []string
	for _, d := range []conformance.Disk{{Size: 100 << 20}, {Size: gib}, {Size: gib, SectorSize: 4096}, {Size: 3 << 40}, {Size: 32 << 40}} {
		d.Content, d.Partitions = nodespec.ContentGPT, []conformance.Partition{{}}
		var made []string
		for _, b := range backends {
			other := newPlace(p.T, p.o, b)
			number := other.attach(d)
			list, err := other.services.Volume.ListVolumesOnDisk(p.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
			p.need(err)
			if len(list.VolumeIDs) != 1 {
				p.Fatalf("volumes %q, want one", list.VolumeIDs)
			}
			id := list.VolumeIDs[0]
			_, err = other.services.Volume.FormatVolume(p.Context(), &volume.FormatVolumeRequest{VolumeID: id})
			p.need(err)
			info, err := other.node.API.VolumeInformation(id)
			p.need(err)
			info.SerialNumber = 0 // of each format its own
			h := other.openVolume(strings.TrimSuffix(id, `\`), win32.GENERIC_READ)
			b := make([]byte, win32.SizeofNTFSVolumeData)
			n, err := other.node.API.DeviceIoControl(h, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, b)
			p.need(err)
			// Sectors and clusters; the sizes of sectors, clusters and file records.
			made = append(made, fmt.Sprintf("%x %x %+v", b[8:24], b[40:min(n, 56)], info))
		}
		if made[0] != made[1] {
			differ = append(differ, fmt.Sprintf("%d bytes in sectors of %d: %s makes %s, %s makes %s", d.Size, max(d.SectorSize, 512), backends[0], made[0], backends[1], made[1]))
		}
	}
	if len(differ) == 0 {
		return "the same"
	}
	return strings.Join(differ, "; ")
}

// bothMappings maps a share in each way, reads a file through the link, and removes the mapping in
// the other way.
func bothMappings(p *place) string {
	s, err := p.Share()
	p.need(err)
	p.need(p.KeepMapping(s.remote))
	type shown struct {
		RemotePath, Status string
		RequirePrivacy     bool
	}
	listed := func() (shown, bool) {
		all := objects[shown](p, "Get-SmbGlobalMapping", text("RemotePath"), text("Status"), "RequirePrivacy")
		i := slices.IndexFunc(all, func(m shown) bool { return strings.EqualFold(m.RemotePath, s.remote) })
		if i < 0 {
			return shown{}, false
		}
		return all[i], true
	}
	var answers []string
	for i, b := range backends {
		one, other := newPlace(p.T, p.o, b), newPlace(p.T, p.o, backends[1-i])
		link := one.dir + `\mount`
		request := smb.NewSMBGlobalMappingRequest{RemotePath: s.remote, LocalPath: link, Username: s.domain + `\` + s.user, Password: "not " + s.password}
		_, wrong := one.services.SMB.NewSMBGlobalMapping(p.Context(), &request)
		request.Password = s.password
		_, err := one.services.SMB.NewSMBGlobalMapping(p.Context(), &request)
		p.need(err)
		m, ok := listed()
		_, read := os.ReadDir(link)
		target, err := os.Readlink(link)
		answer := fmt.Sprintf("%s: a wrong password is one %t, listed %t, status %s, encrypted %t, the link reads %t", b, errors.Is(wrong, hosterr.ErrPermissionDenied), ok, m.Status, m.RequirePrivacy, read == nil)
		p.Logf("%s: the link's target is %q, %v", b, target, err)
		p.need(os.Remove(link))
		_, err = other.services.SMB.RemoveSMBGlobalMapping(p.Context(), &smb.RemoveSMBGlobalMappingRequest{RemotePath: s.remote})
		p.need(err)
		_, still := listed()
		answers = append(answers, fmt.Sprintf("%s, removed by the other %t", answer, !still))
	}
	return strings.Join(answers, "; ")
}

// loginToTarget logs in to the target of -iscsi-target, twice, and out again.
func loginToTarget(p *place) string {
	login, ok := p.Target()
	if !ok {
		p.Skip("needs -iscsi-target, a target that this Windows can reach")
	}
	p.startInitiator()
	ctx, i := p.Context(), p.services.ISCSI
	_, err := i.AddTargetPortal(ctx, &iscsi.AddTargetPortalRequest{TargetPortal: login.TargetPortal})
	p.need(err)
	defer func() {
		if _, err := i.RemoveTargetPortal(ctx, &iscsi.RemoveTargetPortalRequest{TargetPortal: login.TargetPortal}); err != nil {
			p.Errorf("RemoveTargetPortal: %v", err)
		}
	}()
	found, err := i.DiscoverTargetPortal(ctx, &iscsi.DiscoverTargetPortalRequest{TargetPortal: login.TargetPortal})
	p.need(err)
	var answers []string
	if login.AuthType != iscsi.NONE {
		wrong := login
		wrong.ChapSecret = "not-the-secret"
		_, err := i.ConnectTarget(ctx, &wrong)
		answers = append(answers, fmt.Sprintf("a wrong secret is one %t", errors.Is(err, hosterr.ErrPermissionDenied)))
	}
	for range 2 {
		_, err := i.ConnectTarget(ctx, &login)
		p.need(err)
	}
	start := time.Now()
	disks, err := i.GetTargetDisks(ctx, &iscsi.GetTargetDisksRequest{TargetPortal: login.TargetPortal, IQN: login.IQN})
	p.need(err)
	answers = append(answers, fmt.Sprintf("discovered %t, %d disks after %v", slices.Contains(found.IQNs, login.IQN), len(disks.DiskIDs), time.Since(start).Round(100*time.Millisecond)))
	for _, id := range disks.DiskIDs {
		number, err := strconv.ParseUint(id, 10, 32)
		p.need(err)
		stats, err := p.services.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: uint32(number)})
		p.need(err)
		answers = append(answers, fmt.Sprintf("%d bytes", stats.TotalBytes))
	}
	type session struct {
		TargetNodeAddress string
		IsPersistent      bool
	}
	for _, s := range objects[session](p, "Get-IscsiSession", text("TargetNodeAddress"), "IsPersistent") {
		if strings.EqualFold(s.TargetNodeAddress, login.IQN) {
			answers = append(answers, fmt.Sprintf("persistent %t", s.IsPersistent))
		}
	}
	for range 2 {
		if _, err := i.DisconnectTarget(ctx, &iscsi.DisconnectTargetRequest{TargetPortal: login.TargetPortal, IQN: login.IQN}); err != nil && !errors.Is(err, hosterr.ErrNotFound) {
			p.Errorf("DisconnectTarget: %v", err)
		}
	}
	return strings.Join(answers, ", ")
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
