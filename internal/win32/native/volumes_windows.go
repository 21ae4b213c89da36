package native

import (
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// volumeNameLen is enough for `\\?\Volume{…}\` and its NUL, as Microsoft's pages
// recommend.
const volumeNameLen = 50

// VolumeNames is FindFirstVolumeW and FindNextVolumeW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-findfirstvolumew
func (a *API) VolumeNames() ([]string, error) {
	var u [volumeNameLen]uint16
	find, err := windows.FindFirstVolume(&u[0], volumeNameLen)
	if is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, nil
	}
	if err != nil {
		return nil, errorOf(err)
	}
	defer windows.FindVolumeClose(find)

	names := []string{terminated(u[:])}
	for {
		err := windows.FindNextVolume(find, &u[0], volumeNameLen)
		if is(err, windows.ERROR_NO_MORE_FILES) {
			return names, nil
		}
		if err != nil {
			return nil, errorOf(err)
		}
		names = append(names, terminated(u[:]))
	}
}

// VolumeInformation is GetVolumeInformationW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getvolumeinformationw
func (a *API) VolumeInformation(root string) (win32.VolumeInfo, error) {
	name, err := wide(root)
	if err != nil {
		return win32.VolumeInfo{}, err
	}
	var label, fs [windows.MAX_PATH + 1]uint16
	var info win32.VolumeInfo
	err = windows.GetVolumeInformation(name, &label[0], uint32(len(label)),
		&info.SerialNumber, &info.MaxComponent, &info.Flags, &fs[0], uint32(len(fs)))
	if err != nil {
		return win32.VolumeInfo{}, errorOf(err)
	}
	info.Label, info.FileSystem = terminated(label[:]), terminated(fs[:])
	return info, nil
}

// FreeSpace is GetDiskFreeSpaceExW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getdiskfreespaceexw
func (a *API) FreeSpace(root string) (avail, total, free uint64, err error) {
	name, err := wide(root)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := windows.GetDiskFreeSpaceEx(name, &avail, &total, &free); err != nil {
		return 0, 0, 0, errorOf(err)
	}
	return avail, total, free, nil
}

// VolumePathName is GetVolumePathNameW, which does not report the size that it
// needs. It returns ERROR_FILENAME_EXCED_RANGE if the buffer is too short.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getvolumepathnamew
func (a *API) VolumePathName(p string) (string, error) {
	name, err := wide(p)
	if err != nil {
		return "", err
	}
	u, err := grow(windows.MAX_PATH+2, func(u []uint16) (int, bool, error) {
		err := windows.GetVolumePathName(name, &u[0], uint32(len(u)))
		return 0, is(err, windows.ERROR_FILENAME_EXCED_RANGE, windows.ERROR_INSUFFICIENT_BUFFER, windows.ERROR_MORE_DATA), err
	})
	if err != nil {
		return "", err
	}
	return terminated(u), nil
}

// VolumeNameForMountPoint is GetVolumeNameForVolumeMountPointW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getvolumenameforvolumemountpointw
func (a *API) VolumeNameForMountPoint(root string) (string, error) {
	name, err := wide(root)
	if err != nil {
		return "", err
	}
	var u [volumeNameLen]uint16
	if err := windows.GetVolumeNameForVolumeMountPoint(name, &u[0], volumeNameLen); err != nil {
		return "", errorOf(err)
	}
	return terminated(u[:]), nil
}

// VolumePathNames is GetVolumePathNamesForVolumeNameW.
// https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-getvolumepathnamesforvolumenamew
func (a *API) VolumePathNames(vol string) ([]string, error) {
	name, err := wide(vol)
	if err != nil {
		return nil, err
	}
	u, err := grow(windows.MAX_PATH+2, func(u []uint16) (int, bool, error) {
		var want uint32
		err := windows.GetVolumePathNamesForVolumeName(name, &u[0], uint32(len(u)), &want)
		return int(want), is(err, windows.ERROR_MORE_DATA), err
	})
	if err != nil {
		return nil, err
	}
	return multiString(u), nil
}

// SetMountPoint is SetVolumeMountPointW.
// https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-setvolumemountpointw
func (a *API) SetMountPoint(dir, vol string) error {
	d, err := wide(dir)
	if err != nil {
		return err
	}
	v, err := wide(vol)
	if err != nil {
		return err
	}
	return errorOf(windows.SetVolumeMountPoint(d, v))
}

// DeleteMountPoint is DeleteVolumeMountPointW.
// https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-deletevolumemountpointw
func (a *API) DeleteMountPoint(dir string) error {
	d, err := wide(dir)
	if err != nil {
		return err
	}
	return errorOf(windows.DeleteVolumeMountPoint(d))
}
