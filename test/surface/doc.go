// Package surface holds the library to what was published. Below testdata/v2
// stand its declarations, written from a description of it: every name, signature
// and field of the packages that drivers import, without bodies, so nothing builds
// them. The test type-checks them beside ours and asks apidiff what a driver could
// trip over, for Windows and for Linux.
//
// What is not as published is a row of docs/compatible.md, with its reason. A
// difference without a row fails the test, and so does a row without a difference.
package surface
