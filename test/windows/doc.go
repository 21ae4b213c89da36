// Package windows tests the whole of CSI Proxy on a real Windows: the contract of a
// node (package conformance) over native Win32, on virtual disks that the tests
// attach, and the questions that only a Windows can answer, each a test of its
// name. It wants Windows Server 2019 or later, an administrator, and nothing of
// value on the machine: it attaches disks, makes services, shares and accounts
// with names that begin with "contract" or "csi-proxy-test", and takes them away
// at the end.
//
//	go test ./test/windows -v
//
// docs/evidence/windows.md describes how to run it, and docs/evidence/verification.md
// what has been run so far. make test vets it for amd64 and arm64, and runs under Wine
// the tests that need no disk, share or target.
package windows
