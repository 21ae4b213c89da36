// Package windowshost is the host of csi-proxy: the Windows system on which it runs.
package windowshost

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/flags"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// Program returns the program csi-proxy.
func Program(version string) daemon.Program {
	return daemon.Program{Name: "csi-proxy", Version: version, Host: &host{}}
}

type host struct{ format, smb node.Backend }

func (*host) Name() string { return "windows" }

func (h *host) AddFlags(f *flag.FlagSet) {
	backend := func(name string, to *node.Backend, what string) {
		flags.Choice(f, name, "wmi", "how the node "+what+"; if Windows does not support it, the other one is used", func(s string) (err error) {
			*to, err = node.ParseBackend(s)
			return err
		})
	}
	backend("format-backend", &h.format, "formats volumes: `wmi`, or native, which uses fmifs.dll in a child process")
	backend("smb-backend", &h.smb, "maps shares: `wmi`, or native, which uses NetUseAdd")
}

func (h *host) Open(r rules.Rules, counts *win32.Counts) (*daemon.Node, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n, err := node.OpenNative(node.NativeOptions{Format: h.format, SMB: h.smb, FormatHelper: exe})
	if errors.Is(err, node.ErrNoWindows) {
		return nil, fmt.Errorf("this program needs Windows, but runs on %s: use csi-proxy-sim, which serves a simulated node", runtime.GOOS)
	}
	if err != nil {
		return nil, fmt.Errorf("open the node: %w", err)
	}
	n.Trace(counts)
	n.Rules = r
	s, err := services.Open(n)
	if err != nil {
		return nil, err
	}
	return &daemon.Node{
		Groups: wire.Groups{Disk: s.Disk, Filesystem: s.Filesystem, ISCSI: s.ISCSI, SMB: s.SMB, System: s.System, Volume: s.Volume},
		Names:  (&identity{api: n.API, addresses: net.InterfaceAddrs, now: time.Now}).names,
	}, nil
}
