// Command csi-proxy-api-gen generates code and documentation from the .proto files
// of the API: Go messages and gRPC code, the clients that drivers call, the rows
// that serve them, the reference pages, and the descriptors as text.
//
//	cd cmd && go run ./csi-proxy-api-gen -root ..
//
// With -check it writes nothing and lists the files that differ.
//
// If any part of the API is not supported, it reports that and changes no file.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
