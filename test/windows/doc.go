// Package windows compares CSI Proxy with what PowerShell says about the same
// Windows, on virtual disks that the tests attach. csi-proxy-verify asks the other
// questions, and runs the contract of a node. The tests need Windows Server 2019 or
// later, an administrator, and a machine with nothing of value on it: they attach
// disks, and create a share and an account csi-proxy-test, and remove them at the end.
//
//	go test ./test/windows -v
//
// docs/develop/windows.md describes how to run it, and
// docs/develop/verification.md what has been run so far. make test vets it for
// amd64 and arm64, and runs the tests that need no disk, share or target under
// Wine.
package windows
