package main

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryCounters is PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	size, faults                       uint32
	peakWorkingSet, workingSet         uintptr
	_, _, _, _, pagefile, peakPagefile uintptr
}

// usage returns the working set of this process in bytes, and the processor time that it
// has used.
func usage() (resident uint64, processor time.Duration) {
	self := windows.CurrentProcess()
	m := memoryCounters{}
	m.size = uint32(unsafe.Sizeof(m))
	get := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")
	if ok, _, _ := get.Call(uintptr(self), uintptr(unsafe.Pointer(&m)), uintptr(m.size)); ok != 0 {
		resident = uint64(m.workingSet)
	}
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(self, &created, &exited, &kernel, &user) == nil {
		ticks := func(t windows.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
		processor = time.Duration(ticks(kernel)+ticks(user)) * 100
	}
	return resident, processor
}
