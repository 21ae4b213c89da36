package volume

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// formatting is a format in progress. One through WMI runs in the process of the storage
// provider, so it goes on when the process ends that asked for it. Windows' restart and the
// removal of the disk end it, and the end of its process one of fmifs.dll, which runs in a child.
// (Microsoft: "Provider Hosting and Security", WmiPrvSE.exe hosts them.)
type formatting struct {
	Options win32.FormatOptions `json:"options"`
	Until   time.Time           `json:"until"`

	ended bool
	err   error // if it ended
}

// formatKey is that of the record of a format through WMI, which exists while it runs.
func formatKey(v *Volume) string { return "format/" + v.guid().String() }

// Format implements [win32.Volumes]. During Config.FormatDuration the
// volume is locked and has no file system: the old one is removed at the start,
// and the new one appears at the end. A format that is cut off leaves
// what behavior.Windows.FormatOrder says. Format returns
//
//   - ERROR_INVALID_NAME for a malformed volume name, ERROR_FILE_NOT_FOUND for
//     an unknown volume,
//   - without FormatOptions.Direct, ERROR_NOT_READY, ERROR_INVALID_PARAMETER or
//     ERROR_SERVICE_DISABLED as behavior.Windows.FormatKnows says,
//   - ERROR_NOT_SUPPORTED for a volume on several disks,
//   - ERROR_INVALID_PARAMETER for a cluster size that NTFS cannot have,
//   - ERROR_DISK_FULL for a volume that is too small,
//   - ERROR_WRITE_PROTECT for a write-protected disk,
//   - ERROR_ACCESS_DENIED while the volume or a file on it is open, because it
//     cannot be locked (docs/develop/contract/volumes.md#format, callback type 8),
//   - ERROR_NO_SUCH_DEVICE if the volume is removed during the format,
//   - ERROR_PROCESS_ABORTED if the format is cut off otherwise.
//
// The numbers are this node's choice: Windows' own format functions report
// callback packets (fmifs.dll) or their own return codes (WMI).
//
// Source: document, MSFT_Volume.Format.
// Source of ERROR_NO_SUCH_DEVICE, ERROR_PROCESS_ABORTED: node, what the real functions report is
// no Win32 number.
func (n *Volumes) Format(vol string, o win32.FormatOptions) error {
	if n.Config.FormatDuration == 0 {
		return n.Do(func(t *kernel.Tx) error {
			v, err := n.formattable(vol, o)
			if err != nil {
				return err
			}
			n.forgetFiles(t, v)
			return n.finishFormat(t, v, o)
		})
	}
	var v *Volume
	f := &formatting{Options: o}
	err := n.Do(func(t *kernel.Tx) (err error) {
		if v, err = n.formattable(vol, o); err != nil {
			return err
		}
		n.wipe(t, v)
		if err := n.beginFormat(t, v, o); err != nil {
			return err
		}
		f.Until = n.Now().Add(time.Duration(n.Config.FormatDuration))
		if !o.Direct {
			t.Put(formatKey(v), f)
		}
		t.OnCommit(func() { v.formatting = f })
		return nil
	})
	if err != nil {
		return err
	}
	n.Sleep(time.Duration(n.Config.FormatDuration))
	return n.Do(func(t *kernel.Tx) error {
		switch {
		case f.ended:
			return f.err
		case v.Gone:
			return win32.ERROR_NO_SUCH_DEVICE
		case v.formatting != f:
			return win32.ERROR_PROCESS_ABORTED
		}
		n.endFormat(t, v)
		return nil
	})
}

// endFormat ends the format of v as it ends by itself.
func (n *Volumes) endFormat(t *kernel.Tx, v *Volume) {
	f := v.formatting
	err := v.Writable()
	if err == nil {
		err = n.finishFormat(t, v, f.Options)
	}
	t.Delete(formatKey(v))
	t.OnCommit(func() { v.formatting, f.ended, f.err = nil, true, err })
}

// EndDue ends the formats through WMI whose time has come. The caller holds the node's lock.
func (n *Volumes) EndDue() {
	for _, v := range n.List {
		f := v.formatting
		if f == nil || f.Options.Direct || n.Now().Before(f.Until) {
			continue
		}
		if err := n.Transact(func(t *kernel.Tx) error { n.endFormat(t, v); return nil }); err != nil {
			n.Log.Error("Failed to end a format", "volume", v.Name(), "err", n.Cause(err))
		}
	}
}

// loadFormats loads the formats through WMI that ran when the last process ended.
func (n *Volumes) loadFormats() error {
	for _, v := range n.List {
		key := formatKey(v)
		if _, ok := n.Store.Get(key); !ok {
			continue
		}
		f := new(formatting)
		if err := n.Store.Read(key, f); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		v.formatting = f
	}
	return nil
}

// beginFormat writes what a format has written when it is cut off.
func (n *Volumes) beginFormat(t *kernel.Tx, v *Volume, o win32.FormatOptions) error {
	if n.Windows.FormatOrder == behavior.FormatAtEnd {
		return nil
	}
	e := v.Ranges[0]
	serial, err := n.disks.NewSerial()
	if err != nil {
		return err
	}
	_, writes, err := n.disks.PlanNTFS(e.Disk, e.Off, e.Length, o.ClusterSize, serial, "")
	if err != nil {
		return err
	}
	last := len(writes) - 1 // the copy of the boot sector
	switch n.Windows.FormatOrder {
	case behavior.FormatHalf:
		writes = []bootsector.Write{{Offset: 64 << 10, Data: letters()}}
	case behavior.FormatBackupFirst:
		writes = writes[last:]
	case behavior.FormatBootLast:
		writes = writes[1:]
	default:
		writes = writes[:1]
	}
	for _, w := range writes {
		t.WriteImage(e.Disk.ID, e.Off+w.Offset, w.Data)
	}
	return nil
}

// letters returns what an NTFS has in $UpCase, as far as that does not matter here: each
// UTF-16 unit once.
func letters() []byte {
	var b []byte
	for u := range 1 << 16 {
		b = binary.LittleEndian.AppendUint16(b, uint16(u))
	}
	return b
}

// finishFormat writes the requested file system.
func (n *Volumes) finishFormat(t *kernel.Tx, v *Volume, o win32.FormatOptions) error {
	_, err := n.disks.MakeNTFS(t, v.Ranges[0].Disk, v.Ranges[0].Off, v.Size(), o.ClusterSize, "")
	// The next use of the volume detects its new file system.
	t.OnCommit(func() { v.forget() })
	return err
}

// wipe removes the file system of v: its first sector, and its last, which holds
// NTFS's copy of it, and the first record of NTFS's master file table.
func (n *Volumes) wipe(t *kernel.Tx, v *Volume) {
	n.forgetFiles(t, v)
	e, sector := v.Ranges[0], uint64(v.sector())
	t.ZeroImage(e.Disk.ID, e.Off, sector)
	t.ZeroImage(e.Disk.ID, e.Off+e.Length-sector, sector)
	if v.Mounted(t) && v.FS.Kind == bootsector.NTFS {
		t.ZeroImage(e.Disk.ID, e.Off+v.FS.MFT, sector)
	}
	t.OnCommit(func() { v.forget() })
}

// forgetFiles removes the files of every file system that has ever been in the
// place of v, and the mount points among them.
func (n *Volumes) forgetFiles(t *kernel.Tx, v *Volume) {
	place := fmt.Sprintf("%s-%x-", v.Disk, v.Ranges[0].Off)
	t.DeletePrefix("file/" + place)
	t.DeletePrefix("closing/" + place)
	for fsid := range n.Trees {
		if strings.HasPrefix(fsid, place) {
			t.OnCommit(func() { delete(n.Trees, fsid) })
		}
	}
	for key, m := range n.mounts {
		if m.Host == v.GUID {
			t.Delete(key)
			t.OnCommit(func() { delete(n.mounts, key) })
		}
	}
}

// formattable returns the volume to format, or an error if that is not possible.
//
// Source of ERROR_INVALID_NAME, ERROR_FILE_NOT_FOUND, ERROR_NOT_SUPPORTED: node, what the real
// functions report is no Win32 number.
// Source of ERROR_ACCESS_DENIED: program, winutils-rs and Rufus have "cannot lock" of fmifs.dll.
func (n *Volumes) formattable(vol string, o win32.FormatOptions) (*Volume, error) {
	guid, ok := ParseVolumeName(vol)
	if !ok {
		return nil, win32.ERROR_INVALID_NAME
	}
	v := n.ByGUID(guid)
	if v == nil {
		return nil, win32.ERROR_FILE_NOT_FOUND
	}
	if !o.Direct {
		if err := n.listed(v); err != nil {
			return nil, err
		}
	}
	if v.OfflineNow && !o.Direct {
		// MSFT_Volume.Format returns 5, invalid parameter (docs/develop/contract/volumes.md#format).
		// Source: Windows, Format-Volume said 5 of an offline volume, as
		// docs/develop/contract/volumes.md says.
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	if err := v.Ready(); err != nil {
		return nil, err
	}
	if len(v.Ranges) != 1 {
		return nil, win32.ERROR_NOT_SUPPORTED
	}
	if _, _, err := n.disks.PlanNTFS(v.Ranges[0].Disk, v.Ranges[0].Off, v.Size(), o.ClusterSize, 1, ""); err != nil {
		return nil, err
	}
	if err := v.Writable(); err != nil {
		return nil, err
	}
	if n.InUse(v, nil) {
		return nil, win32.ERROR_ACCESS_DENIED
	}
	return v, nil
}

// listed returns an error if a format through WMI does not know the volume.
func (n *Volumes) listed(v *Volume) error {
	known := !v.cached.IsZero() && !n.Now().Before(v.cached)
	switch n.Windows.FormatKnows {
	case behavior.FormatNever:
		n.Chosen("formatKnows", "no volumes in WMI", v.Name())
		return win32.ERROR_SERVICE_DISABLED // Source: Windows, AutomatedLab issue 1067, without smphost
	case behavior.FormatAtOnce:
		return nil
	case behavior.FormatRefuses:
		if !known {
			n.Chosen("formatKnows", "invalid parameter for a new volume", v.Name())
			return win32.ERROR_INVALID_PARAMETER // Source: Windows, PowerShell issue 7771
		}
	default:
		if !known {
			n.Chosen("formatKnows", "no row for a new volume in WMI", v.Name())
			return win32.ERROR_NOT_READY // Source: code, StorageDsc waits for new volumes; see the option formatKnows
		}
	}
	return nil
}

// UpdateStorageCache implements [win32.Volumes]. WMI knows the volumes of the node after
// nodespec.Config.StorageCacheDelay.
//
// Source: document, MSFT_StorageSetting.UpdateHostStorageCache.
func (n *Volumes) UpdateStorageCache() error {
	return n.Do(func(t *kernel.Tx) error {
		at := n.Now().Add(time.Duration(n.Config.StorageCacheDelay))
		for _, v := range n.List {
			if v.cached.IsZero() && v.visible() {
				t.OnCommit(func() { v.cached = at })
			}
		}
		return nil
	})
}

// CutOff ends the formats of a process that ends: those without WMI, or all.
func (n *Volumes) CutOff(t *kernel.Tx, all bool) {
	if all {
		t.DeletePrefix("format/")
	}
	for _, v := range n.List {
		if f := v.formatting; f != nil && (all || f.Options.Direct) {
			t.OnCommit(func() { v.formatting = nil })
		}
	}
}
