package metrics

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	smb "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

var recordTo = flag.String("record", "", "directory into which TestFleet writes what each scrape returned")

const share, kubelet = `\\files.example.com\data`, `C:\var\lib\kubelet\`

// member is a node of the fleet with its driver.
type member struct {
	*simnode.Node
	t       *testing.T
	disks   disk.DiskClient
	volumes volume.VolumeClient
	files   filesystem.FilesystemClient
	smb     smb.SmbClient

	staged string // volume of the pod that runs for the whole hour
}

// slow makes Windows take some time for each call, and gives it faults.
func (m *member) slow(faults ...simnode.Fault) (err error) {
	m.ClearFaults()
	for _, f := range append(faults, simnode.Fault{Call: winapi.AnyCall, Delay: 2 * time.Millisecond}) {
		if err == nil {
			_, err = m.Fail(f)
		}
	}
	return err
}

// patience is how long a caller waits. No caller gives up when a minute begins, or with it a scrape:
// then it would be chance which of them is first.
const patience = 95 * time.Second

// does makes a call. One that fails is repeated with the next pod, as by the kubelet.
func does[In, Out any](call func(context.Context, *In, ...grpc.CallOption) (*Out, error), in *In) *Out {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := call(ctx, in)
	if err != nil {
		return new(Out)
	}
	return out
}

// stage makes the calls of EBS' driver for a new disk, and returns its number and volume.
func (m *member) stage(at string) (number uint32, id string) {
	d, err := m.AttachDisk(simnode.Disk{Size: 1 << 30})
	if err == nil {
		err = m.AwaitDisk(d.Number)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	does(m.disks.ListDiskIDs, &disk.ListDiskIDsRequest{})
	does(m.disks.PartitionDisk, &disk.PartitionDiskRequest{DiskNumber: d.Number})
	if found := does(m.volumes.ListVolumesOnDisk, &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number}).GetVolumeIds(); len(found) > 0 {
		id = found[0]
		does(m.volumes.FormatVolume, &volume.FormatVolumeRequest{VolumeId: id})
		does(m.files.Mkdir, &filesystem.MkdirRequest{Path: at})
		does(m.volumes.MountVolume, &volume.MountVolumeRequest{VolumeId: id, TargetPath: at})
	}
	return d.Number, id
}

// ebs is a minute of a node with volumes on disks: a pod runs, and another one comes and goes.
func ebs(m *member, minute int) {
	if minute == 0 {
		_, m.staged = m.stage(kubelet + `stays`)
		return
	}
	does(m.volumes.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeId: m.staged})
	if minute%2 == 1 {
		return
	}
	number, id := m.stage(kubelet + `pod`)
	does(m.volumes.UnmountVolume, &volume.UnmountVolumeRequest{VolumeId: id, TargetPath: kubelet + `pod`})
	does(m.files.Rmdir, &filesystem.RmdirRequest{Path: kubelet + `pod`})
	if err := m.DetachDisk(number); err != nil {
		m.t.Fatal(err)
	}
}

// files is a minute of a node with a volume on a share.
func files(m *member, minute int) {
	if minute == 0 {
		does(m.smb.NewSmbGlobalMapping, &smb.NewSmbGlobalMappingRequest{RemotePath: share, LocalPath: kubelet + `staged`, Username: "csi", Password: "csi"})
		return
	}
	does(m.files.PathExists, &filesystem.PathExistsRequest{Path: kubelet + `staged`})
	does(m.files.CreateSymlink, &filesystem.CreateSymlinkRequest{SourcePath: kubelet + `staged`, TargetPath: kubelet + `pod`})
	does(m.files.Rmdir, &filesystem.RmdirRequest{Path: kubelet + `pod`})
}

// fleet has the kinds of nodes of the fleet, and what a scrape of them returns in the end.
var fleet = map[string]struct {
	life func(*member, int)
	at   int // the minute in which event happens
	then func(*member) error
	want string
}{
	"ebs": {life: ebs, want: `csi_proxy_disks{state="unanswered"} 0`},
	"smb": {life: files, want: `csi_proxy_smb_mappings{state="ok"} 1`},
	"offline": {ebs, 0, func(m *member) error {
		_, err := m.AttachDisk(simnode.Disk{Size: 1 << 30, Offline: new(true)})
		return err
	}, `csi_proxy_disks{state="offline"} 1`},
	"idle": {files, 20, func(m *member) error { return m.SetSMBMappingStatus(share, "disconnected") }, `csi_proxy_smb_mappings{state="disconnected"} 1`},
	"pending": {files, 20, func(m *member) error {
		does(m.smb.RemoveSmbGlobalMapping, &smb.RemoveSmbGlobalMappingRequest{RemotePath: share})
		return nil
	}, `csi_proxy_smb_mappings_pending_removal 1`},
	"disk": {files, 15, func(m *member) error {
		return m.slow(simnode.Fault{Call: winapi.DeviceIoControl, Path: "PhysicalDrive1", Delay: 2 * time.Hour})
	}, `csi_proxy_disks{state="unanswered"} 1`},
	"share": {func(m *member, minute int) {
		files(m, minute)
		if minute%4 == 1 { // another pod
			does(m.smb.NewSmbGlobalMapping, &smb.NewSmbGlobalMappingRequest{RemotePath: share, LocalPath: kubelet + `other`, Username: "csi", Password: "csi"})
		}
	}, 10, func(m *member) error { return m.SetSMBServerDown("files.example.com", true) }, `csi_proxy_failures_total{group="smb",kind="time"} 12`},
	"queue": {func(m *member, minute int) {
		if minute <= 20 {
			ebs(m, minute)
			return
		}
		for range 20 {
			go does(m.volumes.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeId: m.staged})
		}
	}, 20, func(m *member) error { return m.slow(simnode.Fault{Call: winapi.FreeSpace, Delay: 2 * time.Hour}) }, `csi_proxy_calls_in_flight{group="volume",phase="running"} 32`},
	"fails": {ebs, 25, func(m *member) error {
		return m.slow(simnode.Fault{Call: winapi.Format, Error: winapi.ERROR_IO_DEVICE})
	}, `csi_proxy_failures_total{group="volume",kind="node"} 18`},
}

// An hour of csi-proxy over a simulated node of each kind, in the time of a bubble, with a scrape
// each minute. Module test/cluster evaluates the alerts and the dashboard over what they return.
func TestFleet(t *testing.T) {
	if *recordTo == "" {
		t.Skip("takes half a minute; module test/cluster runs it with -record, in the stage deploy of make test")
	}
	for kind, node := range fleet {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := serveMember(t, kind)
				for minute := range 61 {
					if node.then != nil && minute == node.at {
						if err := node.then(m); err != nil {
							t.Fatal(err)
						}
					}
					begin := time.Now()
					node.life(m, minute)
					time.Sleep(time.Until(begin.Add(40 * time.Second)))
					w := httptest.NewRecorder()
					s.metrics(w, nil)
					if minute == 60 && !strings.Contains(w.Body.String(), "\n"+node.want+"\n") {
						t.Errorf("in the end there is no %q in\n%s", node.want, w.Body)
					}
					if err := os.WriteFile(filepath.Join(*recordTo, fmt.Sprintf("%s-%02d", kind, minute)), w.Body.Bytes(), 0o600); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(begin.Add(time.Minute)))
				}
			})
		})
	}
}

// serveMember serves a node until the test ends, as the daemon does, on pipes in memory.
func serveMember(t *testing.T, kind string) (*Server, *member) {
	n := simnode.New(t, func(c *simnode.Config) { c.Seed = 1; c.Log = slog.New(slog.DiscardHandler) })
	s := New(map[bool]string{false: "v2.0.0", true: "v2.0.1"}[kind == "smb"])
	states := &server.States{Node: n.Disk().(server.Disks).Node(), SMB: n.SMB().(server.Mappings)}
	pipes := map[string]*bufconn.Listener{}
	config := serve.Config{Log: slog.New(slog.DiscardHandler), Calls: new(calls.Calls), Steps: states.Node.Steps, Listen: func(name string) (net.Listener, error) {
		pipes[name] = bufconn.Listen(1 << 16)
		return pipes[name], nil
	}}
	s.Count(&config)
	all := serve.Pipes(wire.Services(wire.Groups{Disk: n.Disk(), Filesystem: n.Filesystem(), ISCSI: n.ISCSI(), SMB: n.SMB(), System: n.System(), Volume: n.Volume()}))
	s.Open(all, config.Calls, states)
	served, err := serve.Open(t.Context(), config, all...)
	if err != nil {
		t.Fatal(err)
	}
	s.Ready("serving")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- served.Serve(ctx) }()
	t.Cleanup(func() {
		n.ClearFaults()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	to := func(group string) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return pipes["csi-proxy-"+group+"-v1"].DialContext(ctx)
		}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	m := &member{Node: n, t: t, disks: disk.NewDiskClient(to("disk")), volumes: volume.NewVolumeClient(to("volume")), files: filesystem.NewFilesystemClient(to("filesystem")), smb: smb.NewSmbClient(to("smb"))}
	if err := m.slow(); err != nil {
		t.Fatal(err)
	}
	return s, m
}
