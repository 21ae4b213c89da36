package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Each function defines the flags of a command of csi-proxyctl node, which set the fields
// of the description that the command sends. A test finds fields without a flag.

func diskFlags(f *pflag.FlagSet, d *nodespec.Disk) {
	f.Var(&d.Size, "size", "`size` of a new disk, such as 10GiB")
	f.Uint32Var(&d.SectorSize, "sector-size", 0, "sector size in `bytes`: 512 or 4096")
	f.StringVar(&d.Serial, "serial", "", "serial `number`")
	f.Var(&list[nodespec.Identifier]{&d.Identifiers, func(text string) (nodespec.Identifier, error) {
		return nodespec.Identifier{CodeSet: "ascii", Text: text}, nil
	}}, "page83", "SCSI page 83h `identifier`; repeatable")
	f.Var(&list[nodespec.Identifier]{&d.Identifiers, func(text string) (nodespec.Identifier, error) {
		return nodespec.Identifier{CodeSet: "binary", Type: 3, Hex: text}, nil
	}}, "naa", "SCSI NAA `identifier` of page 83h, in hexadecimal, such as 600224801fe42a5c; repeatable")
	f.Var(&list[nodespec.Identifier]{&d.Identifiers, func(text string) (nodespec.Identifier, error) {
		return nodespec.Identifier{CodeSet: "binary", Type: 2, Hex: text}, nil
	}}, "eui64", "NVMe or SCSI EUI-64 `identifier`, in hexadecimal; repeatable")
	f.StringVar(&d.Bus, "bus", "", "`bus`: sas, scsi, iscsi, nvme, sata, ata, virtual or vhd (default sas)")
	f.StringVar(&d.Vendor, "vendor", "", "vendor `name`")
	f.StringVar(&d.Product, "product", "", "product `name`")
	f.StringVar(&d.Location, "location", "", "`text` of the location property, such as \"PCI Slot 3 : Adapter 0 : Port 0 : Target 1 : LUN 0\"")
	f.Var(addressFlag{&d.Address}, "address", "SCSI `address`: PORT:PATH:TARGET:LUN")
	f.Var(lunFlag{&d.Address}, "lun", "logical unit `number` of the SCSI address")
	f.StringVar(&d.Image, "image", "", "`file`, on the machine of csi-proxy-sim, that the new disk is a copy of")
	f.StringVar(&d.ID, "id", "", "`name` of the disk, with which it can be attached again")
	f.StringVar(&d.Content, "content", "", "initial `content`: blank, gpt, gptNoMSR, mbr or superfloppy")
}

// addressFlag is a SCSI address, PORT:PATH:TARGET:LUN.
type addressFlag struct{ to **nodespec.Address }

func (addressFlag) String() string { return "" }

func (addressFlag) Type() string { return "address" }

// Set sets the address.
func (a addressFlag) Set(text string) error {
	fields := strings.Split(text, ":")
	if len(fields) != 4 {
		return errors.New("want PORT:PATH:TARGET:LUN, such as 0:0:1:3")
	}
	var n [4]uint8
	for i, field := range fields {
		v, err := strconv.ParseUint(field, 10, 8)
		if err != nil {
			return fmt.Errorf("%q is not a number from 0 to 255; want PORT:PATH:TARGET:LUN", field)
		}
		n[i] = uint8(v)
	}
	*a.to = &nodespec.Address{Port: n[0], Path: n[1], Target: n[2], Lun: n[3]}
	return nil
}

// lunFlag is the LUN of a SCSI address.
type lunFlag struct{ to **nodespec.Address }

func (lunFlag) String() string { return "" }

func (lunFlag) Type() string { return "number" }

// Set sets the LUN of the address, which is 0:0:0 without --address before it.
func (l lunFlag) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return errors.New("want a number from 0 to 255")
	}
	if *l.to == nil {
		*l.to = &nodespec.Address{}
	}
	(*l.to).Lun = uint8(v)
	return nil
}

func faultFlags(f *pflag.FlagSet, to *nodespec.Fault) {
	f.StringVar(&to.Error, "error", "", "`error` that the call returns, such as ERROR_ACCESS_DENIED or 5")
	f.StringVar(&to.CodeName, "code", "", "only for calls with this control `code` or information class, such as IOCTL_DISK_GROW_PARTITION or 0x7c0d0")
	f.StringVar(&to.Path, "path", "", "only for calls whose path, name or ID has this `text` in it, such as PhysicalDrive2 or the GUID of a volume")
	f.Uint32Var(&to.Times, "times", 0, "`number` of calls; 0 means until the fault is cleared")
	f.Uint32Var(&to.Skip, "skip", 0, "`number` of matching calls that are not affected before")
	f.DurationVar(&to.Delay, "delay", 0, "how long the call takes")
}

func serviceFlags(f *pflag.FlagSet, s *nodespec.Service) {
	f.StringVar(&s.DisplayName, "display-name", "", "display `name`")
	f.StringVar(&s.StartType, "start", "", "start `type`: boot, system, auto, manual or disabled (default manual)")
	f.StringVar(&s.State, "state", "", "`state`: running, stopped or paused (default: running if Windows starts it automatically, otherwise stopped)")
	f.StringArrayVar(&s.DependsOn, "depends-on", nil, "`service` on which this one depends; repeatable")
	f.DurationVar((*time.Duration)(&s.StartDelay), "start-delay", 0, "how long the start takes")
	f.DurationVar((*time.Duration)(&s.StopDelay), "stop-delay", 0, "how long the stop takes")
	f.DurationVar((*time.Duration)(&s.WaitHint), "wait-hint", 0, "wait hint that the service reports during start and stop")
	f.Uint32Var(&s.StartError, "start-error", 0, "Win32 error `number` with which the start fails")
	f.Uint32Var(&s.Dies, "dies", 0, "Win32 error `number` with which the service ends right after its start")
	f.BoolVar(&s.RefusesStop, "refuses-stop", false, "do not accept a stop")
	f.StringVar(&s.Hangs, "hangs", "", "`phase` that never ends: start or stop")
}

func targetFlags(f *pflag.FlagSet, t *nodespec.ISCSITarget) {
	f.Var(&list[nodespec.ISCSIPortal]{&t.Portals, nodespec.ParseISCSIPortal}, "portal", "`address` of a portal, optionally with port; repeatable")
	f.Var(&list[nodespec.LUN]{&t.LUNs, func(text string) (l nodespec.LUN, err error) {
		l.Size, err = nodespec.ParseSize(text)
		return l, err
	}}, "lun", "`size` of the next LUN, such as 10GiB; repeatable")
	f.DurationVar((*time.Duration)(&t.ArrivalDelay), "arrival-delay", 0, "delay between the login and each disk")
	f.BoolVar(&t.Refuses, "refuses", false, "reject all logins")
	f.BoolVar(&t.Unreachable, "unreachable", false, "do not respond")
	f.BoolVar(&t.Busy, "busy", false, "make Windows reject logouts")
	f.BoolVar(&t.Persistent, "persistent", false, "make Windows log in automatically when MSiSCSI starts")
}

func serverFlags(f *pflag.FlagSet, s *nodespec.SMBServer) {
	f.StringArrayVar(&s.Shares, "share", nil, "`name` of a share; repeatable")
	f.BoolVar(&s.NoEncryption, "no-encryption", false, "disable SMB 3 encryption")
	f.BoolVar(&s.NodeAccount, "node-account", false, "accept the account of the node, without a user")
}

// list is the value of a repeatable flag.
type list[T any] struct {
	to    *[]T
	parse func(string) (T, error)
}

func (l *list[T]) String() string { return "" }

func (l *list[T]) Type() string { return "text" }

// Set adds a value.
func (l *list[T]) Set(text string) error {
	v, err := l.parse(text)
	if err == nil {
		*l.to = append(*l.to, v)
	}
	return err
}
