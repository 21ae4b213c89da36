package win32

// What the calls of an [API] do to a node, for the audit log: most only look. A call or control
// code that is in no table counts as one that changes the node.

// looking reports whether the calls with a name change nothing.
func looking(name string) bool {
	switch name {
	case "Attributes", "CloseHandle", "ComputerName", "DependentServices", "FinalPath", "FirmwareTable",
		"FreeSpace", "GetDevicesForIScsiSession", "GetIScsiSessionList", "IScsiTargetDiscovery", "Interfaces",
		"LogonToServer", "OfflineReasons", "QueryDirectory", "QueryInformation", "QuerySecurity", "ReadAt", "RegistryText",
		"ReportIScsiPersistentLogins", "ReportIScsiSendTargetPortals", "ReportIScsiTargetPortals", "ReportIScsiTargets",
		"ServiceConfig", "ServiceStatus", "UseEnum", "VolumeInformation", "VolumeNameForMountPoint", "VolumeNames",
		"VolumePathName", "VolumePathNames", "WindowsDirectory",
		"FlushFileBuffers",                  // writes what others have changed
		"Reenumerate", "UpdateStorageCache", // make Windows look
		"WithPrivilege": // the calls in it are observed
		return true
	}
	return false
}

// lookingCode reports whether the requests with a control code change nothing.
func lookingCode(code uint32) bool {
	switch code {
	case IOCTL_STORAGE_GET_DEVICE_NUMBER, IOCTL_STORAGE_QUERY_PROPERTY, IOCTL_SCSI_GET_ADDRESS, IOCTL_DISK_GET_LENGTH_INFO,
		IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, IOCTL_DISK_GET_DRIVE_LAYOUT_EX, IOCTL_DISK_IS_WRITABLE, IOCTL_DISK_IS_CLUSTERED,
		IOCTL_DISK_GET_DISK_ATTRIBUTES, IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, IOCTL_VOLUME_IS_OFFLINE,
		FSCTL_GET_NTFS_VOLUME_DATA, FSCTL_GET_REPARSE_POINT,
		IOCTL_DISK_UPDATE_DRIVE_SIZE, IOCTL_DISK_UPDATE_PROPERTIES, IOCTL_VOLUME_UPDATE_PROPERTIES, // make Windows look
		FSCTL_LOCK_VOLUME: // until its handle is closed
		return true
	}
	return false
}

// opens reports whether a disposition only opens what exists. OPEN_EXISTING of CreateFile has
// another value than FILE_OPEN of NtCreateFile.
func opens(name string, disposition uint32) bool {
	if name == "CreateFile" {
		return disposition == OPEN_EXISTING
	}
	return disposition == FILE_OPEN
}

// Changed reports whether the call has changed the node, or may have. err is what it returned. Of
// calls that Windows does as a whole, those that failed have changed nothing; others may have
// stopped halfway.
func (c *Call) Changed(err error) bool {
	switch c.Name {
	case "CreateFile", "NtCreateFile":
		return err == nil && !opens(c.Name, c.Disposition)
	case "DeviceIoControl":
		return !lookingCode(c.Code)
	case "SetInformation", "SetSecurity", "SetMountPoint", "DeleteMountPoint", "UseAdd", "UseDel":
		return err == nil
	}
	return !looking(c.Name)
}
