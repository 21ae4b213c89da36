package main

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// Problems that a simulated node does not have.
func TestWhyChecks(t *testing.T) {
	const id = `\\?\Volume{12345678-90ab-4cde-8f01-234567890abc}\`
	disk := func(change func(*admin.Disk)) *admin.DescribeResponse {
		d := &admin.Disk{Number: 1, Style: "GPT", Online: true}
		change(d)
		return &admin.DescribeResponse{Disks: []*admin.Disk{d}, Volumes: []*admin.Volume{{Id: id, Disks: []uint32{1}, FileSystem: "NTFS", SizeBytes: 1000, FreeBytes: 500}}}
	}
	volume := func(change func(*admin.Volume)) *admin.DescribeResponse {
		n := disk(func(*admin.Disk) {})
		change(n.Volumes[0])
		return n
	}
	for _, c := range []struct {
		name, want string
		node       *admin.DescribeResponse
	}{
		{"a cluster's disk", "disk 1 is offline: a failover cluster manages it", disk(func(d *admin.Disk) { d.Online, d.Clustered = false, true })},
		{"a full volume", "the volume " + id + " is full: 9 B of 1000 B are free", volume(func(v *admin.Volume) { v.FreeBytes = 9 })},
		{"an offline volume", "the volume " + id + " is offline", volume(func(v *admin.Volume) { v.Offline = true })},
		{"a silent volume", "the volume " + id + " does not answer: not ready", volume(func(v *admin.Volume) { v.Error = "not ready" })},
		{"a disk explains its volume", "disk 1 refuses writes", func() *admin.DescribeResponse {
			n := disk(func(d *admin.Disk) { d.WriteProtected = true })
			n.Volumes[0].Error = "not ready"
			return n
		}()},
	} {
		q := &inquiry{a: &app{}, node: c.node}
		q.volumeOnly(t.Context(), id)
		if q.Result != resultProblem || !strings.HasPrefix(q.Cause, c.want) || q.Remedy == "" {
			t.Errorf("%s: %s %q, remedy %q, want a problem with %q and a remedy", c.name, q.Result, q.Cause, q.Remedy, c.want)
		}
	}
	q := &inquiry{a: &app{}, node: volume(func(v *admin.Volume) { v.MountedAt = []string{`C:\k\`} })}
	if q.volumeOnly(t.Context(), strings.ToUpper(id)); q.Result != resultOK {
		t.Errorf("a healthy volume: %s %q, want ok", q.Result, q.Cause)
	}
}
