package win32

// CallNames returns the names of the calls of an [API], as in [Call], sorted.
// They are written out because a program that uses reflection to list methods
// keeps every exported method of every type that it links.
func CallNames() []string {
	return []string{
		"AddIScsiSendTargetPortal", "Attributes", "CloseHandle", "ComputerName", "ControlService", "CreateFile", "DeleteMountPoint",
		"DependentServices", "DeviceIoControl", "FinalPath", "FirmwareTable", "FlushFileBuffers", "Format",
		"FreeSpace", "GetDevicesForIScsiSession", "GetIScsiSessionList", "IScsiTargetDiscovery", "Interfaces",
		"LoginIScsiTarget", "LogonToServer", "LogoutIScsiTarget", "NtCreateFile", "OfflineReasons", "QueryDirectory", "QueryInformation", "QuerySecurity", "ReadAt",
		"Reenumerate", "RefreshIScsiSendTargetPortal", "RegistryText", "RemoveIScsiPersistentTarget", "RemoveIScsiSendTargetPortal",
		"ReportIScsiPersistentLogins", "ReportIScsiSendTargetPortals", "ReportIScsiTargetPortals",
		"ReportIScsiTargets", "ServiceConfig", "ServiceStatus", "SetIScsiInitiatorCHAPSharedSecret", "SetInformation",
		"SetMountPoint", "SetSecurity", "StartService", "UpdateStorageCache", "UseAdd", "UseDel", "UseEnum", "VolumeInformation",
		"VolumeNameForMountPoint", "VolumeNames", "VolumePathName", "VolumePathNames", "WindowsDirectory", "WithPrivilege", "WriteAt",
	}
}
