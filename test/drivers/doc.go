// Package drivers is a module of packages that are only compiled: each uses of our
// modules the identifiers that the Windows code of one public CSI driver uses, no
// more and no fewer, in code of our own. A package comment names the source that
// was read, its commit, and the version of the published module in the driver's
// go.mod where that was seen.
//
// What a driver does between the calls (its own interfaces, mount-utils, klog) is
// left out. What matters for compiling is kept: calls with their request literals
// and the fields and getters that are read, clients and Interfaces in struct
// fields, versions printed, constants, functions kept in variables, and in fakes
// what drivers and the published library's own tests implement.
//
// `make test` compiles the module for Windows, amd64 and arm64, outside of the
// workspace.
package drivers
