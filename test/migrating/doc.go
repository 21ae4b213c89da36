// Package migrating holds the pages in docs/migrating to code. Their Go is taken
// from the packages below, word by word, and those are compiled for Windows and
// driven through the life of a volume on a simulated node.
//
// Before a block of Go such a page names a file and what of it is shown:
//
//	<!-- test/migrating/mounter/mounter.go: Mounter, InProcess, Mounter.Unmount -->
//
// After a change, go test ./migrating -write (in the module test) writes the blocks.
package migrating
