// Package meanwhile changes a node between any two Win32 calls of an operation: a
// disk is pulled out, its number passes to another one, a directory is removed, a
// volume unmounted, a server or target goes away, another program does the same
// thing. TestEveryPoint does so before each single call in turn and holds the
// answer to what is promised for that change: that something is not found when it
// is gone, success of what is done already, and never an error without a kind.
// The same request, made again, is answered too, and where the change is taken back
// it succeeds.
//
// Time is that of package testing/synctest, so waits cost nothing, and a request
// that never returns fails the test.
//
// All of it is about the simulated node; on Windows nothing of it has run.
package meanwhile
