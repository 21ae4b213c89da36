// Package control changes the simulated node of another process, csi-proxy-sim, from Go:
//
//	n, err := control.Open(ctx, "") // or the directory of its sockets
//	disk, err := n.AttachDisk(simnode.Disk{Size: 10 << 30, Serial: "vol-1"})
//
// It is for tests in which the proxy has to be a program of its own, for example because
// it is killed. Otherwise [simnode.New] and package serve are simpler. csi-proxyctl node
// does the same from a shell.
//
// Both sides must be of the same version of CSI Proxy.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// limit bounds a call. Each is a change of memory and a file.
const limit = time.Minute

// Node is the simulated node of a csi-proxy-sim. Its methods have the names and meanings
// of those of [simnode.Node], and may be called concurrently. They fail if csi-proxy-sim
// does not run, and work again when it was restarted.
type Node struct {
	conn   *grpc.ClientConn
	client simcontrol.NodeClient
}

// Open connects to the csi-proxy-sim whose sockets are in dir. Empty means the one that
// NewClient of the client module would use; on Windows, which has named pipes, it must be
// empty. The caller must call [Node.Close].
func Open(ctx context.Context, dir string) (*Node, error) {
	path := pipe.Path(simcontrol.Pipe)
	if dir != "" {
		path = filepath.Join(dir, simcontrol.Pipe+".sock")
	}
	conn, err := transport.ConnectContext(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("control a simulated node: %w", err)
	}
	return &Node{conn, simcontrol.NewNodeClient(conn)}, nil
}

// Close closes the connection. The node stays.
func (n *Node) Close() error { return n.conn.Close() }

// AttachDisk attaches a disk. With the ID of a disk that was detached it attaches that
// disk.
func (n *Node) AttachDisk(d simnode.Disk) (simnode.DiskInfo, error) {
	return ask[simnode.DiskInfo](func(ctx context.Context) (*simcontrol.Description, error) {
		text, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		return n.client.AttachDisk(ctx, &simcontrol.Description{Json: string(text)})
	})
}

// DetachDisk removes a disk, even one that is in use.
func (n *Node) DetachDisk(number uint32) error {
	return do(n.client.DetachDisk, &simcontrol.DetachDiskRequest{DiskNumber: number})
}

// DiscardDisk deletes a detached disk with its content.
func (n *Node) DiscardDisk(id string) error {
	return do(n.client.DiscardDisk, &simcontrol.DiscardDiskRequest{Id: id})
}

// GrowDisk makes a disk larger.
func (n *Node) GrowDisk(number uint32, size simnode.Size) error {
	return do(n.client.GrowDisk, &simcontrol.GrowDiskRequest{DiskNumber: number, SizeBytes: uint64(size)})
}

// AddSMBShare adds an empty share to a server.
func (n *Node) AddSMBShare(server, share string) error {
	return do(n.client.ChangeSmbServer, &simcontrol.ChangeSmbServerRequest{Name: server, AddShare: share})
}

// AddShareDirectory makes a directory on a share, as another machine could. path is relative
// to the share.
func (n *Node) AddShareDirectory(server, share, path string) error {
	return do(n.client.ChangeSmbServer, &simcontrol.ChangeSmbServerRequest{Name: server, AddDirectory: share + `\` + path})
}

// SetISCSITarget adds an iSCSI target, or replaces the one with that IQN.
func (n *Node) SetISCSITarget(t simnode.ISCSITarget) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return do(n.client.SetIscsiTarget, &simcontrol.SecretDescription{SecretJson: string(text)})
}

// RemoveISCSITarget removes an iSCSI target with its sessions and disks.
func (n *Node) RemoveISCSITarget(iqn string) error {
	return do(n.client.RemoveIscsiTarget, &simcontrol.RemoveIscsiTargetRequest{Iqn: iqn})
}

// Show returns the state of the node.
func (n *Node) Show() (simnode.State, error) {
	return ask[simnode.State](func(ctx context.Context) (*simcontrol.Description, error) {
		return n.client.Show(ctx, &simcontrol.Empty{})
	})
}

// Fail makes Win32 calls fail or take longer, until [Node.ClearFaults] or as often as the
// fault says. A fault with a function is refused, because it cannot be sent.
func (n *Node) Fail(f simnode.Fault) error {
	if f.Do != nil {
		return errors.New("fail: a function cannot be sent to another process")
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return do(n.client.Fail, &simcontrol.Description{Json: string(text)})
}

// ClearFaults ends all faults.
func (n *Node) ClearFaults() error { return do(n.client.ClearFaults, &simcontrol.Empty{}) }

// Reboot restarts the node's Windows. csi-proxy-sim itself goes on.
func (n *Node) Reboot() error { return do(n.client.Reboot, &simcontrol.Empty{}) }

func do[In, Out any](call func(context.Context, In, ...grpc.CallOption) (Out, error), in In) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := call(ctx, in)
	return err
}

// ask returns what an answer describes.
func ask[T any](call func(context.Context) (*simcontrol.Description, error)) (v T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := call(ctx)
	if err != nil {
		return v, err
	}
	if v, err = nodespec.Decode[T]([]byte(out.Json)); err != nil {
		err = fmt.Errorf("csi-proxy-sim of another release: %w", err)
	}
	return v, err
}
