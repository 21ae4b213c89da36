package roads

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// administer returns a node with a disk on a SAS bus, as the local static provisioner sees it
// through w, with -format-existing=ntfs, and as its administrator does.
func administer(t *testing.T, w way, d simnode.Disk, dirs ...string) (provisioner, admin *visit) {
	t.Helper()
	n := simnode.New(t, func(c *simnode.Config) {
		c.Seed = 1
		c.Log = slog.New(slog.DiscardHandler)
	})
	d.Bus, d.Size = "sas", 4*gib
	info, err := n.AttachDisk(d)
	if err != nil {
		t.Fatal(err)
	}
	admin = &visit{ctx: context.Background(), node: n, proxy: proxy{disk: n.Disk(), volume: n.Volume(), files: n.Filesystem()}}
	admin.await(t, driver{name: "the administrator", rescans: true}, info.Number)
	return &visit{ctx: context.Background(), node: n, proxy: connect(t, n, w, true, dirs...)}, admin
}

// use has the kubelet link a volume into a pod that writes to it, and returns where.
func (v *visit) use(t *testing.T, pv, found string) (pod, file string) {
	t.Helper()
	pod = `C:\var\lib\kubelet\pods\` + pv + `\volumes\kubernetes.io~local-volume\` + pv
	if err := v.mkdir(parent(pod)); err != nil {
		t.Fatal(err)
	}
	if err := v.link(found, pod); err != nil {
		t.Fatal(err)
	}
	if err := v.node.MakeFile(pod + `\precious`); err != nil {
		t.Fatal(err)
	}
	return pod, found + `\precious`
}

func (v *visit) expectFile(t *testing.T, path string, want bool) {
	t.Helper()
	if have, err := v.exists(path); err != nil || have != want {
		t.Errorf("%s exists: %t, %v; want %t", path, have, err, want)
	}
}

// volumes returns the volumes of a disk as soon as it has so many.
func (v *visit) volumes(t *testing.T, number uint32, count int) []string {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		list, err := v.volume.ListVolumesOnDisk(v.ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.VolumeIDs) == count {
			return list.VolumeIDs
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("disk %d has the volumes %q after a minute, want %d", number, list.VolumeIDs, count)
		}
	}
}

func (v *visit) format(id string) error {
	_, err := v.volume.FormatVolume(v.ctx, &volume.FormatVolumeRequest{VolumeID: id})
	return err
}

// The administrator has one volume on a disk, and links each directory of it into the
// discovery directory, so that it is a PV. The reclaim of one PV must not touch another: the
// published proxy returned the volume of them all, from v1.3.0 on, and formatted it.
func TestLocalVolumesThatShareAVolume(t *testing.T) {
	const all = `C:\mnt\all`
	for _, w := range local.ways {
		t.Run(w.name, func(t *testing.T) {
			v, admin := administer(t, w, simnode.Disk{}, parent(all))
			if err := admin.mkdir(all); err != nil {
				t.Fatal(err)
			}
			if err := admin.mkdir(discovery); err != nil {
				t.Fatal(err)
			}
			if err := admin.formatAndMount(3, all, true); err != nil {
				t.Fatal(err)
			}
			pods, files := map[string]string{}, map[string]string{}
			for _, pv := range []string{"pv-a", "pv-b", "pv-c"} {
				if err := admin.mkdir(all + `\` + pv); err != nil {
					t.Fatal(err)
				}
				if err := admin.link(all+`\`+pv, discovery+`\`+pv); err != nil {
					t.Fatal(err)
				}
				// Discovery, as published: the path is a link.
				if is, err := v.isLink(discovery + `\` + pv); err != nil || !is {
					t.Fatalf("IsSymlink of %s: %t, %v", pv, is, err)
				}
				pods[pv], files[pv] = admin.use(t, pv, discovery+`\`+pv)
			}

			// The pod of one PV ends, and the PV is reclaimed.
			if err := admin.rmdir(pods["pv-a"]); err != nil {
				t.Fatal(err)
			}
			id, err := v.volumeAt(discovery + `\pv-a`)
			if err == nil || !strings.HasSuffix(err.Error(), "not a mounted folder") {
				t.Errorf("the volume of pv-a: %q, %v; want not a mounted folder", id, err)
			}
			if err == nil {
				t.Logf("reclaim: %v", v.format(id))
			}
			// A driver that has the ID of the volume from elsewhere formats it.
			whole := admin.volumes(t, 3, 1)[0]
			if err := v.format(whole); err == nil || !strings.Contains(err.Error(), "leads to a part of it") {
				t.Errorf("FormatVolume of the volume of three PVs: %v, want a refusal", err)
			}
			for pv, file := range files {
				if have, err := admin.exists(file); err != nil || !have {
					t.Errorf("the data of %s: %t, %v", pv, have, err)
				}
			}

			// The administrator empties the directory instead, and pv-a is used again.
			if err := admin.rmdir(files["pv-a"]); err != nil {
				t.Fatal(err)
			}
			admin.use(t, "pv-a-again", discovery+`\pv-a`)

			// When nothing uses a part of the volume any more, it is formatted.
			for _, pv := range []string{"pv-a-again", "pv-b", "pv-c"} {
				if err := admin.rmdir(`C:\var\lib\kubelet\pods\` + pv + `\volumes\kubernetes.io~local-volume\` + pv); err != nil {
					t.Fatal(err)
				}
			}
			for _, pv := range []string{"pv-a", "pv-b", "pv-c"} {
				if err := admin.rmdir(discovery + `\` + pv); err != nil {
					t.Fatal(err)
				}
			}
			if err := v.format(whole); err != nil {
				t.Errorf("FormatVolume of a volume that has no links any more: %v", err)
			}
			admin.expectFile(t, all+`\pv-b`, false)
		})
	}
}
