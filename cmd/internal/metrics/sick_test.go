package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
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

const share, kubelet = `\\files.example.com\data`, `C:\var\lib\kubelet\`

// member is a node with its driver.
type member struct {
	*simnode.Node
	t       *testing.T
	disks   disk.DiskClient
	volumes volume.VolumeClient
	files   filesystem.FilesystemClient
	smb     smb.SmbClient
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

// does makes a call, and returns what it returned, or else nothing.
func does[In, Out any](call func(context.Context, *In, ...grpc.CallOption) (*Out, error), in *In) *Out {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := call(ctx, in)
	if err != nil {
		return new(Out)
	}
	return out
}

// stage makes the calls of EBS' driver for a new disk, and returns its volume.
func (m *member) stage(at string) (id string) {
	d, err := m.AttachDisk(simnode.Disk{Size: 1 << 30})
	if err == nil {
		err = m.AwaitDisk(d.Number)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	does(m.disks.PartitionDisk, &disk.PartitionDiskRequest{DiskNumber: d.Number})
	if found := does(m.volumes.ListVolumesOnDisk, &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number}).GetVolumeIds(); len(found) > 0 {
		id = found[0]
		does(m.volumes.FormatVolume, &volume.FormatVolumeRequest{VolumeId: id})
		does(m.files.Mkdir, &filesystem.MkdirRequest{Path: at})
		does(m.volumes.MountVolume, &volume.MountVolumeRequest{VolumeId: id, TargetPath: at})
	}
	return id
}

func (m *member) mapShare(at string) {
	does(m.smb.NewSmbGlobalMapping, &smb.NewSmbGlobalMappingRequest{RemotePath: share, LocalPath: kubelet + at, Username: "csi", Password: "csi"})
}

// What a scrape returns of nodes that are sick, or have what a healthy node may have. The alerts
// and the dashboard of deploy/ are about these values.
func TestScrapesOfSickNodes(t *testing.T) {
	for name, node := range map[string]struct {
		do   func(*member) error
		want []string
	}{
		"offline disk": {func(m *member) error {
			d, err := m.AttachDisk(simnode.Disk{Size: 1 << 30, Offline: new(true)})
			if err == nil {
				err = m.AwaitDisk(d.Number)
			}
			return err
		}, []string{`csi_proxy_disks{state="offline"} 1`}},
		"idle mapping": {func(m *member) error {
			m.mapShare("staged")
			return m.SetSMBMappingStatus(share, "disconnected")
		}, []string{`csi_proxy_smb_mappings{state="disconnected"} 1`}},
		"pending removal": {func(m *member) error {
			m.mapShare("staged")
			does(m.smb.RemoveSmbGlobalMapping, &smb.RemoveSmbGlobalMappingRequest{RemotePath: share})
			return nil
		}, []string{`csi_proxy_smb_mappings{state="ok"} 1`, `csi_proxy_smb_mappings_pending_removal 1`}},
		"server is gone": {func(m *member) error {
			m.mapShare("staged")
			err := m.SetSMBServerDown("files.example.com", true)
			m.mapShare("other")
			return err
		}, []string{`csi_proxy_failures_total{group="smb",kind="time"} 1`}},
		"calls hang": {func(m *member) error {
			id := m.stage(kubelet + "pod")
			err := m.slow(simnode.Fault{Call: winapi.FreeSpace, Delay: 2 * time.Hour})
			for range 100 {
				go does(m.volumes.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeId: id})
			}
			time.Sleep(30 * time.Second)
			return err
		}, []string{`csi_proxy_calls_in_flight{group="volume",phase="running"} 32`, `csi_proxy_oldest_call_seconds{group="volume"} 30`}},
		"formats fail": {func(m *member) error {
			err := m.slow(simnode.Fault{Call: winapi.Format, Error: "ERROR_IO_DEVICE"})
			m.stage(kubelet + "pod")
			return err
		}, []string{`csi_proxy_failures_total{group="volume",kind="node"} 1`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := serveMember(t)
				if err := node.do(m); err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				s.metrics(w, nil)
				for _, want := range node.want {
					if !strings.Contains(w.Body.String(), "\n"+want+"\n") {
						t.Errorf("there is no %q in\n%s", want, w.Body)
					}
				}
			})
		})
	}
}

// serveMember serves a node until the test ends, as the daemon does, on pipes in memory.
func serveMember(t *testing.T) (*Server, *member) {
	n := simnode.New(t, func(c *simnode.Config) { c.Seed = 1; c.Log = slog.New(slog.DiscardHandler) })
	s := New("v2.0.0")
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
