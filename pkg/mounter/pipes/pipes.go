// Package pipes opens the node of a driver in an ordinary container: through the pipes of the CSI
// Proxy of the node, this one or the existing one, in any version that is served.
package pipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

// Groups returns all groups of the API.
func Groups() []string { return []string{"disk", "volume", "filesystem", "smb", "iscsi", "system"} }

// Conn is a node with the connections to its proxy.
type Conn struct {
	mounter.Node
	clients map[string]client // by group
}

// client is what the clients of all groups have in common.
type client interface {
	Version() apiversion.Version
	Build(context.Context) (string, error)
	Close() error
}

// Open connects to groups of the CSI Proxy of this node. It uses the newest version of each that
// is served and whose pipe is mounted into the container, and waits until ctx ends for a proxy
// that is still starting. [mounter.Node.Can] says what is missing: log it when the driver
// starts. Nothing is guaranteed on a connection of [remote.WithConn].
func Open(ctx context.Context, groups []string, opts ...remote.Option) (*Conn, error) {
	c := &Conn{clients: map[string]client{}}
	c.Can = c.can
	if err := c.open(ctx, groups, opts); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Conn) open(ctx context.Context, groups []string, opts []remote.Option) error {
	if len(groups) == 0 {
		return hosterr.Text(hosterr.ErrInvalid, "no group to open, want some of %v", Groups())
	}
	for _, g := range groups {
		var err error
		switch g {
		case "disk":
			c.Disk, err = connect(ctx, c, g, remote.NewDisk, opts)
		case "volume":
			c.Volume, err = connect(ctx, c, g, remote.NewVolume, opts)
		case "filesystem":
			c.Files, err = connect(ctx, c, g, remote.NewFilesystem, opts)
		case "smb":
			c.SMB, err = connect(ctx, c, g, remote.NewSMB, opts)
		case "iscsi":
			c.ISCSI, err = connect(ctx, c, g, remote.NewISCSI, opts)
		case "system":
			c.System, err = connect(ctx, c, g, remote.NewSystem, opts)
		default:
			err = hosterr.Text(hosterr.ErrInvalid, "unknown group %q, want some of %v", g, Groups())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func connect[C client](ctx context.Context, c *Conn, group string, open func(context.Context, ...remote.Option) (C, error), opts []remote.Option) (C, error) {
	one, err := open(ctx, append(slices.Clone(opts), relied(group))...)
	if err == nil {
		if old := c.clients[group]; old != nil {
			err = old.Close() // the group was named twice
		}
		c.clients[group] = one
	}
	return one, err
}

// can asks each proxy which build it is: pipes may belong to several, and another may serve them
// after a restart. Calls with the context that it returns are only sent to those that it asked.
func (c *Conn) can(ctx context.Context) (context.Context, mounter.Abilities, error) {
	a := mounter.Abilities{Versions: map[string]string{}, Builds: map[string]string{}}
	answered := map[string]*connection{}
	for group, one := range c.clients {
		var by atomic.Pointer[connection]
		build, err := one.Build(context.WithValue(ctx, askedKey{}, &by))
		if err != nil {
			return ctx, mounter.Abilities{}, fmt.Errorf("group %s: %w", group, err)
		}
		if conn := by.Load(); conn == nil {
			build = "" // another proxy may get the next call
		} else if build != "" {
			answered[group] = conn
		}
		a.Versions[group], a.Builds[group] = one.Version().String(), build
	}
	ours := func(groups ...string) bool {
		return !slices.ContainsFunc(groups, func(g string) bool { return c.clients[g] != nil && a.Builds[g] == "" })
	}
	a.GuardsDisks = ours("disk", "volume")
	newest := func(group string) bool {
		one := c.clients[group]
		return one == nil || ours(group) && one.Version().Compare(apiversion.NewVersionOrPanic("v2alpha1")) >= 0
	}
	a.ChecksDisks, a.ManagesShares = newest("disk"), newest("smb")
	a.GuardsContent = a.GuardsDisks
	a.ReportsGrowth = ours("volume")
	a.CountsLinks = ours("smb")
	a.ChecksLinks = ours("filesystem", "smb")
	return context.WithValue(ctx, relyingKey{}, answered), a, nil
}

// Close closes the connections.
func (c *Conn) Close() error {
	var errs []error
	for _, one := range c.clients {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
