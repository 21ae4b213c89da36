// Package windowshost is the host of csi-proxy: the Windows that the process
// runs on.
package windowshost

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// Program is csi-proxy.
func Program(version string) daemon.Program {
	return daemon.Program{Name: "csi-proxy", Version: version, Host: &host{}}
}

type host struct{ format, smb node.Backend }

func (*host) Name() string { return "windows" }

func (h *host) AddFlags(f *flag.FlagSet) {
	backend := func(name string, to *node.Backend, what string) {
		f.Func(name, "how the node "+what+"; where Windows does not have the one the other is used (default wmi)", func(s string) (err error) {
			*to, err = node.ParseBackend(s)
			return err
		})
	}
	backend("format-backend", &h.format, "formats volumes: `wmi`, or native, which is fmifs.dll in a process of its own")
	backend("smb-backend", &h.smb, "maps shares: `wmi`, or native, which is NetUseAdd")
}

func (h *host) Open(rules daemon.Rules) (*daemon.Node, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n, err := node.OpenNative(node.NativeOptions{Format: h.format, SMB: h.smb, FormatHelper: exe})
	if errors.Is(err, node.ErrNoWindows) {
		return nil, fmt.Errorf("csi-proxy needs Windows and this is %s: run csi-proxy-sim, which serves a simulated node: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("open the node: %w", err)
	}
	n.API = win32.Trace(n.API, n.Log)
	n.WorkingDirs = rules.WorkingDirs
	n.AllowedServices = rules.AllowedServices
	n.FormatExisting = rules.FormatExisting
	s, err := services.Open(n, services.Options{NoSMBPrivacy: !rules.RequirePrivacy, AcceptUnverifiedPasswords: rules.AcceptUnverifiedPasswords})
	if err != nil {
		return nil, err
	}
	out := &daemon.Node{Groups: wire.Groups{Disk: s.Disk, Filesystem: s.Filesystem, ISCSI: s.ISCSI, SMB: s.SMB, System: s.System, Volume: s.Volume}}
	if out.Names, err = thisMachine(); err != nil && !rules.AllowLoopback {
		// No reason to keep a node from its disks.
		klog.ErrorS(err, "SMB is not served: without the node's own names and addresses its own shares, which may not be mapped, cannot be recognised")
		out.Groups.SMB = nil
	}
	return out, nil
}

// thisMachine are the names and addresses by which shares of this machine can be
// reached, beside localhost.
func thisMachine() ([]string, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	names := []string{name}
	if short, _, qualified := strings.Cut(name, "."); qualified {
		names = append(names, short)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			names = append(names, p.Addr().WithZone("").String())
		}
	}
	return names, nil
}
