// Package verify is csi-proxy-verify: it asks a Windows what the documents about it leave
// open, runs the contract of a node on it, and writes what it found to one report.
//
// [Run] is the program. It runs each [section] in a child process of its own, so that
// a crash or a hanging call ends one section, and Windows takes back what the child had
// open; virtual disks are attached only while their process lives. What would outlive
// it (directories, services, settings) is written to a [journal] before it is made. The
// program undoes the journal at the end, on Ctrl-C, and at the start of the next run.
//
// A section is a Go test, so it can use package conformance. It asks a [place]: this
// Windows, or a simulated node. A [guard] between a section and the node's Win32 calls
// refuses every call that changes a disk or volume which is not one of the section's own.
package verify
