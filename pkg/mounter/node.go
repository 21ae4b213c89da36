package mounter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Node is the Windows node. Services that a driver does not use may be nil: a method that needs
// one fails with hosterr.ErrUnimplemented.
type Node struct {
	Disk   disk.Interface
	Volume volume.Interface
	Files  filesystem.Interface
	SMB    smb.Interface
	ISCSI  iscsi.Interface
	System system.Interface

	// KubeletDir is the kubelet's directory. Empty means C:\var\lib\kubelet.
	KubeletDir string

	// Can returns what the node guarantees now, and a context for the calls that rely on it. A
	// proxy may be replaced by an older one while the driver runs: a call with that context then
	// fails with hosterr.ErrUnavailable, and does nothing. nil means that nothing is guaranteed.
	Can func(context.Context) (context.Context, Abilities, error)
}

// Abilities are what a node guarantees in the groups that are open. Of the existing CSI Proxy, all
// are false.
type Abilities struct {
	// Versions are the versions of the API that are used, by group. In process there are none.
	Versions map[string]string
	// Builds are the versions of the proxy's build, by group. It is "" for a proxy that is
	// none of this project.
	Builds map[string]string

	// GuardsDisks: disks that Windows needs, and Azure's temporary disk, are neither found by
	// their LUN nor changed.
	GuardsDisks bool
	// ChecksDisks: a call that changes a disk compares all its identifiers on the handle that it
	// writes through, from disk/v2alpha1 on. Without it, a disk is compared only before the call.
	ChecksDisks bool
	// GuardsContent: a disk or volume is only overwritten if it is blank; one that cannot be
	// read is not.
	GuardsContent bool
	// ReportsGrowth: ResizeVolume grows a volume by any size, or fails.
	ReportsGrowth bool
	// CountsLinks: the mapping of a share is kept while a link below KubeletDir uses it.
	CountsLinks bool
	// ChecksLinks: a link that exists is compared with the one that is wanted.
	ChecksLinks bool
	// ManagesShares: Share.Privacy, Share.Integrity, UpdateShare and ShareUse work, from
	// smb/v2alpha1 on. Without it they fail with hosterr.ErrUnimplemented.
	ManagesShares bool
}

// AllAbilities returns the abilities of the services of this project in process.
func AllAbilities() Abilities {
	return Abilities{GuardsDisks: true, ChecksDisks: true, GuardsContent: true, ReportsGrowth: true, CountsLinks: true, ChecksLinks: true, ManagesShares: true}
}

// Lacks returns a sentence about each guarantee that is missing, for the driver's log.
func (a Abilities) Lacks() []string {
	var lacks []string
	for _, l := range []struct {
		has  bool
		text string
	}{
		{a.GuardsDisks, "A disk is not found by its LUN alone: the proxy does not leave out the disks of Windows."},
		{a.ChecksDisks, "A disk is compared before a call that changes it, and not by the call: the proxy does not serve disk/v2alpha1."},
		{a.GuardsContent, "A disk is not formatted, unless StageOptions.Format says so by name: the proxy takes a volume that it cannot read for a blank one."},
		{a.ReportsGrowth, "A growth of less than 100 MiB fails: the proxy skips it."},
		{a.CountsLinks, "The mapping of a share stays, unless the driver itself can read the kubelet's directory: the proxy does not count who uses it."},
		{a.ManagesShares, "Privacy and integrity of a share cannot be asked for, and a mapping gets no new credentials while it is used: the proxy does not serve smb/v2alpha1."},
		{a.ChecksLinks, "A link that exists is taken as it is: the proxy does not compare it."},
	} {
		if !l.has {
			lacks = append(lacks, l.text)
		}
	}
	return lacks
}

// Options configure a Mounter. The zero value is useful.
type Options struct {
	// Arrival is how long FindDisk and Login wait for a disk. 0 means until the context ends.
	Arrival time.Duration
	// Local is how the driver itself sees the node's files.
	Local Local
	// Log gets what was done without a guarantee. nil means slog.Default.
	Log *slog.Logger
	// Clock is the time of the waits. nil means that of the system.
	Clock Clock
}

// Clock is a source of time.
type Clock interface {
	Now() time.Time
	// Sleep waits for d. If ctx ends first, it returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Mounter works on one node.
type Mounter struct {
	node    Node
	options Options
	shares  keymutex.Set // by server and share
	// measuring has the *space of each path that is being measured.
	measuring sync.Map
}

// New returns a Mounter for a node.
func New(n Node, o Options) (*Mounter, error) {
	n.KubeletDir = cmp.Or(n.KubeletDir, `C:\var\lib\kubelet`)
	dir, err := clean(n.KubeletDir)
	if err != nil {
		return nil, hosterr.Wrap("open mounter", "with the kubelet's directory", err)
	}
	n.KubeletDir = dir
	if o.Arrival < 0 {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Arrival is %s, want a positive duration", o.Arrival)
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Local.setDefaults()
	return &Mounter{node: n, options: o, shares: keymutex.Set{Kind: "share"}}, nil
}

// Abilities asks the node what it guarantees.
func (m *Mounter) Abilities(ctx context.Context) (Abilities, error) {
	_, a, err := m.guaranteed(ctx)
	return a, err
}

// guaranteed returns what the node guarantees, and a context for the calls that rely on it.
func (m *Mounter) guaranteed(ctx context.Context) (relying context.Context, a Abilities, err error) {
	if m.node.Can == nil {
		return ctx, Abilities{}, nil
	}
	relying, a, err = m.node.Can(ctx)
	return relying, a, hosterr.Wrap("ask the node what it guarantees", "", err)
}

// needs returns an error if a service is nil.
func (m *Mounter) needs(groups ...string) error {
	for _, g := range groups {
		open := map[string]bool{
			"disk": m.node.Disk != nil, "volume": m.node.Volume != nil, "filesystem": m.node.Files != nil, "smb": m.node.SMB != nil, "iscsi": m.node.ISCSI != nil,
		}[g]
		if !open {
			return hosterr.TextWithHint(hosterr.ErrUnimplemented, "open the group with the node", "the node was opened without the group %s", g)
		}
	}
	return nil
}

// clean returns a path as all versions of the API take it: absolute, with a drive and
// backslashes.
func clean(path string) (string, error) {
	p, err := winpath.Validate(path)
	if err != nil {
		return "", err
	}
	return p.String(), nil
}

// Secret is a password. It is never printed.
type Secret string

// Format implements [fmt.Formatter]: no verb prints the secret.
func (s Secret) Format(f fmt.State, _ rune) {
	if s != "" {
		fmt.Fprint(f, "***")
	}
}

// MarshalText implements [encoding.TextMarshaler] without the secret.
func (s Secret) MarshalText() ([]byte, error) { return fmt.Append(nil, s), nil }
