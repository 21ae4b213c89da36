// Package dllsearch makes a program load DLLs from Windows' system directory only.
package dllsearch

import "os"

// Main runs a program whose DLLs come from the system directory, also those that other DLLs
// load, and ends the process with its exit code. The directory of the program and the
// current directory are not searched: a program that runs as LocalSystem must not run what
// others may have put there.
func Main(run func() int) {
	if err := systemOnly(); err != nil {
		os.Stderr.WriteString("restrict the search for DLLs to the system directory: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(run())
}
