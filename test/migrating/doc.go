// Package migrating tests the Go code on the pages in docs/drivers/migrating. The code is
// copied from the packages below, which are compiled for Windows and tested with
// volumes on a simulated node. It also keeps the Go code in docs/drivers/tutorial.md the same as
// in examples/csi-driver, which has tests of its own.
//
// Before each block of Go, a page names the file and the declarations that it shows:
//
//	<!-- test/migrating/after/mounter.go: Mounter, InProcess, Mounter.Unmount -->
//
// After a change, run go test ./migrating -write in the module test to update the
// blocks.
package migrating
