package emulated

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/files"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Machine is what a node uses of the machine that it runs on.
type Machine = kernel.Machine

// Node is one emulated Windows node. It implements [win32.API] and is safe for
// concurrent use: calls run one after the other, except that other calls run while
// a format, or a call about an SMB server that is down, waits for its configured
// duration.
type Node struct {
	*kernel.Kernel
	*services.Services
	*disk.Disks
	*iscsi.Initiator
	*volume.Volumes
	*smb.Network
	*files.Namespace
}

// Open loads the node whose state is in cfg.StateDir. If the directory is empty, it
// creates the node that cfg describes. Without a directory, the node uses a temporary
// one until Close.
//
// Only one process at a time can have a state directory open.
func Open(cfg nodespec.Config, m Machine) (*Node, error) {
	windows, err := behavior.Of(cfg)
	if err == nil {
		err = validate(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("emulated node: %w", err)
	}
	n := &Node{}
	n.Kernel = kernel.New(cfg, windows, m, n.applyDue)
	n.Services = services.New(n.Kernel)
	n.Disks = disk.New(n.Kernel)
	n.Volumes = volume.New(n.Kernel, n.Disks)
	n.Network = smb.New(n.Kernel, n.Volumes)
	n.Namespace = files.New(n.Kernel, n.Volumes, n.Network)
	n.Initiator = iscsi.New(n.Kernel, n.Disks, n.Services)
	if err := n.open(cfg.StateDir); err != nil {
		return nil, errors.Join(fmt.Errorf("emulated node: %w", err), n.Close())
	}
	return n, nil
}

func (n *Node) open(dir string) error {
	if err := n.Open(dir); err != nil {
		return err
	}
	if !n.Made() {
		return n.create()
	}
	return n.load()
}

// applyDue applies what Windows does by itself.
func (n *Node) applyDue() {
	n.Initiator.ApplyDue()
	n.AddArrived()
	n.AddReserved()
	n.EndDue()
}

// WindowsDirectory implements [win32.Installation].
//
// Source: document, GetSystemWindowsDirectoryW.
func (n *Node) WindowsDirectory() (string, error) {
	return `C:\Windows`, n.Do(func(*kernel.Tx) error { return nil })
}

// ComputerName implements [win32.Installation]. The node is in no domain.
//
// Source: document, GetComputerNameExW.
func (n *Node) ComputerName(kind uint32) (name string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		switch kind {
		case win32.ComputerNameNetBIOS, win32.ComputerNamePhysicalNetBIOS:
			name = "SIMULATED-NODE"
		case win32.ComputerNameDnsHostname, win32.ComputerNameDnsFullyQualified, win32.ComputerNamePhysicalDnsHostname, win32.ComputerNamePhysicalDnsFullyQualified:
			name = "simulated-node"
		default:
			return win32.ERROR_INVALID_PARAMETER // Source: inference, of a kind that sysinfoapi.h does not have
		}
		return nil
	})
	return name, err
}

// RegistryText implements [win32.Installation]. A value is as it was configured.
//
// Source: document, RegQueryValueExW.
func (n *Node) RegistryText(key, name string) (text []string, err error) {
	err = n.Do(func(*kernel.Tx) error {
		text = n.Registry(key + `\` + name)
		if text == nil {
			return win32.ERROR_FILE_NOT_FOUND // Source: document, RegQueryValueExW
		}
		return nil
	})
	return text, err
}

func validate(c nodespec.Config) error {
	if c.VolumeArrivalDelay < 0 || c.StorageCacheDelay < 0 || c.FormatDuration < 0 || c.SMBTimeout < 0 {
		return errors.New("the configuration has a negative delay")
	}
	if err := smb.Validate(c.SMBServers); err != nil {
		return err
	}
	for _, s := range c.Services {
		if err := services.Validate(s); err != nil {
			return err
		}
	}
	if err := iscsi.Validate(c.ISCSI); err != nil {
		return err
	}
	if _, err := hex.DecodeString(c.Firmware.SMBIOS); err != nil {
		return fmt.Errorf("firmware: SMBIOS tables: %w", err)
	}
	for i, d := range c.Disks {
		if err := disk.Validate(d); err != nil {
			return fmt.Errorf("disk %d of the configuration: %w", i, err)
		}
	}
	for i, v := range c.SpannedVolumes {
		if len(v.Extents) < 2 {
			return fmt.Errorf("spanned volume %d: %d extents, want at least 2", i, len(v.Extents))
		}
	}
	return nil
}

// FirmwareTable implements [win32.Firmware].
//
// Source: document, GetSystemFirmwareTable; specification, SMBIOS.
func (n *Node) FirmwareTable() (table []byte, err error) {
	err = n.Do(func(*kernel.Tx) error {
		if f := n.Config.Firmware; f.SMBIOS != "" {
			table, err = hex.DecodeString(f.SMBIOS)
			return err
		}
		table = win32.EncodeSMBIOS("Emulated", "Virtual Machine", cmp.Or(n.Config.Firmware.SerialNumber, "EMU-0001"))
		return nil
	})
	return table, err
}
