// Command csi-proxy-api-gen generates code and documentation from the .proto files
// of the API: Go messages and gRPC code, the clients that drivers call, the rows
// that serve them, pkg/remote, the overview of the API, and the descriptors as text. It also
// generates the Go code of two services that are not of the API, internal/simcontrol and
// internal/admin.
//
//	go run ./cmd/csi-proxy-api-gen -root .
//
// If it fails, it changes no file.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
