package native

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/fmifs"
)

// Format uses MSFT_Volume.Format of WMI (package wmi), or FormatEx of fmifs.dll
// in a child process (package fmifs), which is also the direct way. It returns when
// the format is done.
func (a *API) Format(vol string, o win32.FormatOptions) error {
	if err := fmifs.Check(vol); err != nil {
		return err
	}
	if o.Direct {
		return a.direct.Format(vol, o)
	}
	return a.formats.Do(func(f formatter) error { return f.Format(vol, o) })
}

// UpdateStorageCache uses WMI, unless formatting uses fmifs.dll, which has no cache.
func (a *API) UpdateStorageCache() error {
	return a.formats.Do(formatter.UpdateCache)
}

// OfflineReasons uses WMI, also where formatting uses fmifs.dll: Windows has no other call.
func (a *API) OfflineReasons() (map[uint32]uint16, error) {
	return a.storage.OfflineReasons()
}

// UseAdd maps a share, with WMI's MSFT_SmbGlobalMapping or NetUseAdd.
func (a *API) UseAdd(u win32.NewUse) error {
	return a.uses.Do(func(s win32.SMB) error { return s.UseAdd(u) })
}

// UseEnum lists the global mappings, with WMI or NetUseEnum.
func (a *API) UseEnum() (uses []win32.Use, err error) {
	err = a.uses.Do(func(s win32.SMB) (err error) {
		uses, err = s.UseEnum()
		return err
	})
	return uses, err
}

// UseDel removes a global mapping, with WMI or NetUseDel.
func (a *API) UseDel(remote string) error {
	return a.uses.Do(func(s win32.SMB) error { return s.UseDel(remote) })
}
