// Package windows tests the whole of CSI Proxy on a real Windows: the contract of
// a node (package conformance) over native Win32, on virtual disks that the tests
// attach, and the questions that only a real Windows can answer, each with its
// own test. It needs Windows Server 2019 or later, an administrator, and a
// machine with nothing of value on it: it attaches disks, and creates services,
// shares and accounts with names that begin with "contract" or "csi-proxy-test",
// and removes them at the end.
//
//	go test ./test/windows -v
//
// docs/evidence/windows.md describes how to run it, and
// docs/evidence/verification.md what has been run so far. make test vets it for
// amd64 and arm64, and runs the tests that need no disk, share or target under
// Wine.
package windows
