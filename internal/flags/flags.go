// Package flags has the flags of csi-proxy that say what it serves and by which rules, for the
// daemon and for what serves a simulated node as the daemon does.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// Served is what is served.
type Served struct {
	KubeletPath    string
	WorkingDirs    []string // without KubeletPath
	Services       []string // in addition to policy.DefaultServices
	RequirePrivacy bool
	SMB            policy.SMBRules
	ReadOnly       bool
	IgnoreFields   bool

	rules rules.Rules // of the flags that set a field as it is
	apis  []string
}

// Add adds the flags.
func (o *Served) Add(f *flag.FlagSet) {
	f.StringVar(&o.KubeletPath, "kubelet-path", `C:\var\lib\kubelet`, "`directory` of the kubelet, which is always a working directory")
	list(f, "working-dir", &o.WorkingDirs, "additional working `directory`; requests may use only paths in working directories; repeatable", func(dir string) error {
		if dir == "" {
			return errors.New("want a directory; an empty path would allow every path")
		}
		return nil
	})
	list(f, policy.ServiceFlag, &o.Services, "key `name` of another Windows service that may be started and stopped, in addition to "+strings.Join(policy.DefaultServices(), ", ")+"; repeatable; requests may query all services", func(name string) error {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, `/\*?,`) {
			return errors.New("want the key name of one service, without wildcards")
		}
		return nil
	})
	choice(f, "format-existing", &o.rules.FormatExisting, "refuse", "ntfs", "what FormatVolume does with an NTFS file system that holds data, or has other allocation units than requested: refuse, or `ntfs`, which formats it")
	list(f, "protected-dir", &o.rules.ProtectedDirs, "`directory` whose disk is not partitioned, formatted, resized or taken offline, such as that of the container storage; repeatable; those of Windows, of page files, of working directories and of containerd and docker in C:\\ProgramData are protected always", func(dir string) error {
		if strings.TrimSpace(dir) == "" {
			return errors.New("want a directory")
		}
		return nil
	})
	choice(f, "disk-locations", &o.rules.AllDiskLocations, "usable", "all", "which disks ListDiskLocations lists, among which drivers look for a LUN: usable, without the temporary disk of an Azure machine, and without one that Windows needs if another disk has its LUN, or `all`")
	choice(f, "read-only-disks", &o.rules.KeepReadOnly, "writable", "keep", "what SetDiskState does with a read-only disk when it takes it online: writable, which makes it so if its storage can be written, or `keep`")
	Choice(f, "disk-content", "strict", "which content of a disk may be overwritten: strict, which is none; `cleaned`, which is what a disk without partitions still has after diskpart clean or Clear-Disk, behind its blank first and last MiB; or unknown, which is the same and all content that is not recognized", func(s string) error {
		switch o.rules.DiskContent = rules.DiskContent(s); o.rules.DiskContent {
		case rules.DiskContentCleaned, rules.DiskContentUnknown:
			return nil
		}
		if o.rules.DiskContent = rules.DiskContentStrict; s != "strict" {
			return errors.New("want strict, cleaned or unknown")
		}
		return nil
	})
	choice(f, "volume-root-access", &o.rules.UsersModify, "windows", "users-modify", "who may change what on a volume that FormatVolume formats: windows, which leaves the rights that Windows gives, or `users-modify`, with which the group Users, and so ordinary containers, may change everything")
	f.BoolVar(&o.RequirePrivacy, "require-privacy", true, "encrypt new SMB mappings")
	f.BoolVar(&o.rules.AcceptUnverifiedPasswords, "smb-accept-unverified-passwords", false, "let requests use an SMB mapping in use with another or unknown password, if the server cannot verify the password of the request")
	f.BoolVar(&o.SMB.AllowLoopback, "smb-allow-loopback", false, "allow SMB mappings of shares of this node, through which links can lead to any directory")
	f.BoolVar(&o.SMB.AllowAdminShares, "smb-allow-admin-shares", false, "allow SMB mappings of administrative shares such as C$, ADMIN$ and IPC$")
	list(f, "enable-api", &o.apis, "`group` or group/version to serve, or several with commas between them; repeatable; default: all", func(string) error { return nil })
	f.BoolVar(&o.ReadOnly, "read-only-api", false, "refuse requests that change the node")
	choice(f, "unknown-fields", &o.IgnoreFields, "refuse", "log", "what becomes of a request with a field that the called version of the API does not have: refuse, or `log`, which ignores the field")
}

// Check checks what one flag alone does not show.
func (o *Served) Check() error {
	if strings.TrimSpace(o.KubeletPath) == "" {
		return errors.New("flag -kubelet-path: want a directory; an empty path would allow every path")
	}
	return nil
}

// AllWorkingDirs returns the working directories in the order of logs and errors.
func (o *Served) AllWorkingDirs() []string {
	return append(o.WorkingDirs[:len(o.WorkingDirs):len(o.WorkingDirs)], o.KubeletPath)
}

// APIs returns the groups and versions to serve. None means all.
func (o *Served) APIs() []string {
	var all []string
	for _, names := range o.apis {
		all = append(all, strings.Split(names, ",")...)
	}
	return all
}

// AllowedServices returns the services that may be started and stopped.
func (o *Served) AllowedServices() []string { return append(policy.DefaultServices(), o.Services...) }

// Rules returns the rules that the services of the host keep.
func (o *Served) Rules() rules.Rules {
	r := o.rules
	r.WorkingDirs, r.AllowedServices = o.AllWorkingDirs(), o.AllowedServices()
	r.NoSMBPrivacy = !o.RequirePrivacy
	return r
}

// List is the value of a flag that may be repeated.
type List struct {
	to    *[]string
	check func(string) error
}

func (l *List) String() string { return "" }

func (l *List) Set(s string) error {
	if err := l.check(s); err != nil {
		return err
	}
	*l.to = append(*l.to, s)
	return nil
}

// Clear removes the values.
func (l *List) Clear() { *l.to = nil }

// list adds a flag that may be repeated. check says what is wrong with a value.
func list(f *flag.FlagSet, name string, to *[]string, usage string, check func(string) error) {
	f.Var(&List{to, check}, name, usage)
}

// choiceValue is the value of a flag with a few words.
type choiceValue struct {
	word string
	set  func(string) error
}

func (c *choiceValue) String() string { return c.word }

func (c *choiceValue) Set(s string) error {
	if err := c.set(s); err != nil {
		return err
	}
	c.word = s
	return nil
}

// Choice adds a flag with a few words, which set checks and applies. word is the default.
func Choice(f *flag.FlagSet, name, word, usage string, set func(string) error) {
	f.Var(&choiceValue{word, set}, name, usage)
}

// choice adds a flag with two words, of which the other one sets to.
func choice(f *flag.FlagSet, name string, to *bool, word, other, usage string) {
	Choice(f, name, word, usage, func(s string) error {
		if s != word && s != other {
			return fmt.Errorf("want %s or %s", word, other)
		}
		*to = s == other
		return nil
	})
}
