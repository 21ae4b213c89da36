// Package published lets the client module v1.3.0 that the existing CSI Proxy
// published call our daemon: another program, built from another copy of the
// API, with gRPC and protobuf of its time. Two copies of one API cannot be
// linked into one program, so this module stands outside of the workspace.
//
// The published NewClient needs a Windows named pipe; here its generated
// clients are dialled over the daemon's sockets, with the authority that they
// send on Windows. What is called, and what must be answered, is in package
// script.
package published
