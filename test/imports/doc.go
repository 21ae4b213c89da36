// Package imports shows that no public package does anything at import: a program
// that imports all of them, of both modules, is what a program is that imports the
// other modules which they use.
//
// What is compared after all packages were initialised: goroutines, open files,
// flags, the environment, the working directory and umask, signals that are caught
// or blocked, the default loggers, what was written anywhere a process may write by
// default. What protobuf keeps of the generated packages (their descriptors, by
// name) is how it works and not compared.
//
// It also shows what programs link: csi-proxy has nothing of simulated nodes.
package imports
