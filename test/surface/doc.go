// Package surface checks that the modules are compatible with the published ones: releases
// of the library and the last one of the client, as the Go module proxy has them. The test
// type-checks their packages without function bodies, and apidiff finds incompatible
// differences to our packages, for Windows and Linux.
//
// The table in docs/drivers/compatible.md lists every allowed difference with its reason. A
// difference without a row fails the test, and so does a row without a difference.
package surface
