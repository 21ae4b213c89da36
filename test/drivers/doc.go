// Package drivers is a module of packages that are only compiled. Each package uses
// exactly those identifiers of our modules that the Windows code of one public CSI
// driver uses, in code of our own. The package comment names the source code, its
// commit and, if known, the version of the published module in the driver's go.mod.
//
// What a driver does between the calls (its own interfaces, mount-utils, klog) is
// left out. What matters for compiling is kept: calls with their request literals,
// the fields and getters that are read, clients and Interfaces in struct fields,
// printed versions, constants, and functions in variables. Package fakes has what
// tests of drivers and of the published library implement.
//
// `make test` compiles the module for Windows, amd64 and arm64, outside of the
// workspace.
package drivers
