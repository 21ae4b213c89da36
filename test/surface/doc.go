// Package surface checks that the library is compatible with the published one.
// testdata/v2 has the published declarations, written from a description: every
// name, signature and field of the packages that drivers import, without function
// bodies. The test type-checks them and uses apidiff to find incompatible
// differences to our packages, for Windows and Linux.
//
// The table in docs/compatible.md lists every allowed difference with its reason. A
// difference without a row fails the test, and so does a row without a difference.
package surface
