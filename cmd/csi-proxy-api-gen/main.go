// Command csi-proxy-api-gen writes everything that follows from the .proto
// files of the API: Go messages and gRPC code, the clients that drivers call,
// the rows that serve them, the reference pages, and the descriptors as text.
//
//	cd cmd && go run ./csi-proxy-api-gen -root ..
//
// With -check it writes nothing and names the files that differ.
//
// It either understands the API and writes all of it, or says what it does
// not understand and changes nothing.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
