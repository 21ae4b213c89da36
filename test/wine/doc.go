// Package wine tests what we ship as the Windows programs that they are: named
// pipes, the Windows service, and files through the native side of the boundary.
//
// All tests but one are built for Windows and want any Windows, with the rights of an
// administrator; CSI_PROXY_BINARY names the csi-proxy.exe to test, and
// CSI_PROXY_SIM_BINARY the csi-proxy-sim.exe. So far they
// have been run under Wine 10 only (hack/wine.sh), as the stage wine of make
// test does. What Wine cannot show stands in docs/evidence/verification.md: it enforces no
// access rights, has no reparse points, and disks that answer nothing.
//
// TestOperations runs on any system, over the emulated node where there is no
// Windows; its records, and those of TestOperationsWithDriver (package driver), make
// docs/evidence/operations.md.
package wine
