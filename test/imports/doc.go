// Package imports tests that no public package does anything at import: a program
// that imports all public packages of both modules has the same state as a program
// that imports only their dependencies.
//
// The state is read after all packages were initialized: goroutines, open files,
// flags, the environment, the working directory and umask, caught and blocked
// signals, the default loggers, and files written to the directories that a process
// writes to by default. The registry of protobuf descriptors is not compared,
// because generated packages must register there.
//
// The package also tests what programs link: csi-proxy depends on no simulated node, and a driver
// that uses pkg/mounter links one side of it. It tests how drivers import the modules of this
// project: which lines their go.mod needs, and which modules their build list gains. It builds
// drivers outside the workspace, where replace lines of a dependency have no effect.
package imports
