// Package wine tests our Windows programs as we ship them: named pipes, the
// Windows service, and files through the native side of the boundary.
//
// All tests are built for Windows. They run on any Windows, with administrator
// rights. CSI_PROXY_BINARY is the path of the csi-proxy.exe to
// test, and CSI_PROXY_SIM_BINARY that of csi-proxy-sim.exe. So far they have run
// under Wine 10 only (hack/wine.sh), as the stage wine of make test.
// docs/develop/verification.md lists what Wine cannot show: it enforces no
// access rights, has no reparse points, and its disks support no control codes.
package wine
