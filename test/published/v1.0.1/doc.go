// Package published tests the daemon with the published client v1.0.1, as a driver
// uses it: built from its own copy of the API with its own versions of gRPC and
// protobuf. Two copies of one API cannot be linked into one program, so this module
// is not in the workspace.
//
// The published NewClient needs a named pipe. On other systems the generated clients
// connect to the daemon's sockets, with the authority that they send on Windows. The
// calls and the expected responses are in package script.
package published
