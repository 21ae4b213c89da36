package win32

import (
	"slices"
	"testing"
)

// The audit log has each request that changed the node, so each call and each control code is
// known as one that only looks, or as one that changes something. A new one belongs in one list.
func TestEveryCallIsKnownToLookOrToChange(t *testing.T) {
	changing := []string{
		"AddIScsiSendTargetPortal", "ControlService", "CreateFile", "DeleteMountPoint", "DeviceIoControl", "Format", "LoginIScsiTarget", "LogoutIScsiTarget",
		"NtCreateFile", "RefreshIScsiSendTargetPortal", "RemoveIScsiPersistentTarget", "RemoveIScsiSendTargetPortal", "SetIScsiInitiatorCHAPSharedSecret",
		"SetInformation", "SetMountPoint", "SetSecurity", "StartService", "UseAdd", "UseDel", "WriteAt",
	}
	for _, name := range CallNames() {
		if looking(name) == slices.Contains(changing, name) {
			t.Errorf("%s: it only looks: %t, and is listed here as one that changes the node: %t", name, looking(name), slices.Contains(changing, name))
		}
	}
	codes := []string{
		"IOCTL_DISK_SET_DRIVE_LAYOUT_EX", "IOCTL_DISK_CREATE_DISK", "IOCTL_DISK_GROW_PARTITION", "IOCTL_DISK_SET_DISK_ATTRIBUTES", "IOCTL_VOLUME_ONLINE",
		"IOCTL_VOLUME_OFFLINE", "FSCTL_DISMOUNT_VOLUME", "FSCTL_EXTEND_VOLUME", "FSCTL_SET_REPARSE_POINT", "FSCTL_DELETE_REPARSE_POINT",
	}
	for _, c := range ControlCodes() {
		if lookingCode(c.Code) == slices.Contains(codes, c.Name) {
			t.Errorf("%s: it only looks: %t, and is listed here as one that changes the node: %t", c.Name, lookingCode(c.Code), slices.Contains(codes, c.Name))
		}
	}
	for _, c := range []struct {
		call Call
		err  error
		want bool
	}{
		{Call{Name: "NtCreateFile", Disposition: FILE_OPEN}, nil, false},
		{Call{Name: "NtCreateFile", Disposition: FILE_CREATE}, nil, true},
		{Call{Name: "NtCreateFile", Disposition: FILE_OPEN_IF}, nil, true},
		{Call{Name: "NtCreateFile", Disposition: FILE_CREATE}, STATUS_OBJECT_NAME_COLLISION, false},
		{Call{Name: "CreateFile", Disposition: OPEN_EXISTING}, nil, false},
		{Call{Name: "SetInformation"}, STATUS_ACCESS_DENIED, false},
		{Call{Name: "Format"}, ERROR_IO_DEVICE, true},
		{Call{Name: "DeviceIoControl", Code: IOCTL_DISK_SET_DRIVE_LAYOUT_EX}, ERROR_IO_DEVICE, true},
		{Call{Name: "a call of tomorrow"}, nil, true},
	} {
		if got := c.call.Changed(c.err); got != c.want {
			t.Errorf("%v that returned %v has changed the node: %t, want %t", &c.call, c.err, got, c.want)
		}
	}
}
