package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Each function binds the flags of one command of csi-proxyctl node to the fields
// of the description that the command sends. A test finds fields without a flag.

func diskFlags(f *pflag.FlagSet, d *nodespec.Disk) {
	f.Var(&d.Size, "size", "`size` of a new disk, as 10GiB")
	f.Uint32Var(&d.SectorSize, "sector-size", 0, "512 or 4096 `bytes`")
	f.StringVar(&d.Serial, "serial", "", "its serial `number`")
	f.Var(&list[nodespec.Identifier]{&d.Identifiers, func(text string) (nodespec.Identifier, error) {
		return nodespec.Identifier{CodeSet: "ascii", Text: text}, nil
	}}, "page83", "its page 83h `identifier`")
	f.StringVar(&d.ID, "id", "", "its lasting `identity`")
	f.StringVar(&d.Content, "content", "", "what it `holds`: blank, gpt, gptNoMSR, mbr or superfloppy")
}

func faultFlags(f *pflag.FlagSet, to *nodespec.Fault) {
	f.StringVar(&to.Error, "error", "", "the `error` that it answers, as ERROR_ACCESS_DENIED or 5")
	f.Uint32Var(&to.Code, "code", 0, "only with this control `code` or information class")
	f.Uint32Var(&to.Times, "times", 0, "how `often`; 0 means until it is cleared")
	f.DurationVar(&to.Delay, "delay", 0, "how long it takes")
}

func serviceFlags(f *pflag.FlagSet, s *nodespec.Service) {
	f.StringVar(&s.DisplayName, "display-name", "", "`name` that people see")
	f.StringVar(&s.StartType, "start", "", "boot, system, auto, manual or disabled; manual without it")
	f.StringVar(&s.State, "state", "", "running, stopped or paused; without it, what follows from --start")
	f.StringArrayVar(&s.DependsOn, "depends-on", nil, "`service` that must run for this one to run; repeatable")
	f.DurationVar((*time.Duration)(&s.StartDelay), "start-delay", 0, "how long it takes to start")
	f.DurationVar((*time.Duration)(&s.StopDelay), "stop-delay", 0, "how long it takes to stop")
	f.DurationVar((*time.Duration)(&s.WaitHint), "wait-hint", 0, "what it estimates while it does")
	f.Uint32Var(&s.StartError, "start-error", 0, "Win32 `number` with which starting is refused")
	f.Uint32Var(&s.Dies, "dies", 0, "Win32 `number` with which it ends instead of running")
	f.BoolVar(&s.RefusesStop, "refuses-stop", false, "accepts no stop")
	f.StringVar(&s.Hangs, "hangs", "", "stays for good at start or stop")
}

func targetFlags(f *pflag.FlagSet, t *nodespec.ISCSITarget) {
	f.Var(&list[nodespec.ISCSIPortal]{&t.Portals, nodespec.ParseISCSIPortal}, "portal", "`address` where it listens, with a port or without; repeatable")
	f.Var(&list[nodespec.LUN]{&t.LUNs, func(text string) (l nodespec.LUN, err error) {
		l.Size, err = nodespec.ParseSize(text)
		return l, err
	}}, "lun", "`size` of the next LUN, as 10GiB; repeatable")
	f.DurationVar((*time.Duration)(&t.ArrivalDelay), "arrival-delay", 0, "passes between a login and each further disk")
	f.BoolVar(&t.Refuses, "refuses", false, "refuses every login")
	f.BoolVar(&t.Unreachable, "unreachable", false, "answers nobody")
	f.BoolVar(&t.Busy, "busy", false, "makes Windows refuse a logout")
	f.BoolVar(&t.Persistent, "persistent", false, "Windows logs in by itself whenever MSiSCSI begins")
}

func serverFlags(f *pflag.FlagSet, s *nodespec.SMBServer) {
	f.StringArrayVar(&s.Shares, "share", nil, "`name` of a share; repeatable")
	f.BoolVar(&s.NoEncryption, "no-encryption", false, "a server without SMB 3's encryption")
	f.BoolVar(&s.NodeAccount, "node-account", false, "let the node in without a user")
}

// list is the value of a flag that may be given several times.
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
