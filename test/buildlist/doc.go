// Package buildlist takes the project's modules into drivers as a driver's
// author does, outside of the workspace, where the replace lines of a dependency
// do not count: it holds which lines a driver's go.mod needs, and what its build
// list gains. docs/evidence/build-lists.md is written by its test.
package buildlist
