// Package interleave changes a node between two Win32 calls of an operation: a disk
// is removed, another disk gets its number, a directory is removed, a volume is
// unmounted, a server or target disappears, another program does the same work.
// TestChangeAtEveryCall makes each change before each call of each operation. It
// checks that the request returns what is promised for that change: not found for
// something that was removed, success for work that was already done, and never an
// error without a kind. Then it repeats the request, which must succeed if the
// change was undone.
//
// The tests run in a testing/synctest bubble: waiting takes no time, and a request
// that never returns fails the test.
//
// These tests use the simulated node. They have not run on Windows.
package interleave
