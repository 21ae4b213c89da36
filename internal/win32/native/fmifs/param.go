package fmifs

// param is the parameter block of fmifs.dll's FormatEx2, version 2.0.
type param struct {
	major, minor uint8
	flags        uint32
	label        *uint16
	clusterSize  uint32 // bytes; 0 lets fmifs choose
	udfVersion   uint16
	context      uintptr
	passes       uint32
	logFileSize  uint32
}
