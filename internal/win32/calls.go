package win32

// CallNames are the names of the calls of an [API], as [Call] has them, in order. They
// are a list, since a program that asks package reflect for methods keeps every
// exported method of every type that it links.
func CallNames() []string {
	return []string{
		"AddIScsiSendTargetPortal", "Attributes", "CloseHandle", "ControlService", "CreateFile", "DeleteMountPoint",
		"DependentServices", "DeviceIoControl", "FinalPath", "FirmwareTable", "FlushFileBuffers", "Format",
		"FreeSpace", "GetDevicesForIScsiSession", "GetIScsiSessionList", "IScsiTargetDiscovery", "Interfaces",
		"LoginIScsiTarget", "LogoutIScsiTarget", "NtCreateFile", "QueryDirectory", "QueryInformation", "ReadAt",
		"Reenumerate", "RefreshIScsiSendTargetPortal", "RemoveIScsiPersistentTarget", "RemoveIScsiSendTargetPortal",
		"ReportIScsiPersistentLogins", "ReportIScsiSendTargetPortals", "ReportIScsiTargetPortals",
		"ReportIScsiTargets", "ServiceConfig", "ServiceStatus", "SetIScsiInitiatorCHAPSharedSecret", "SetInformation",
		"SetMountPoint", "StartService", "UseAdd", "UseDel", "UseEnum", "VolumeInformation",
		"VolumeNameForMountPoint", "VolumeNames", "VolumePathName", "VolumePathNames", "WindowsDirectory", "WriteAt",
	}
}
