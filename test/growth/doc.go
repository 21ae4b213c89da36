// Package growth tests that the API can grow by what docs/adding-a-version.md says and
// nothing else. The test follows the page on a copy of the project: it applies the
// page's blocks, generates, and runs the tests that guard the API. Then it calls the
// new method of the new version through a pipe.
//
// Of the page's blocks it applies these:
//
//   - go FILE: the block is that new file.
//   - diff: the block changes files. A header of two lines, --- and +++, names the
//     file before and after; if the names differ, the second file is a copy of the
//     first one with the changes. @@ begins each change, and its lines without a sign
//     are what stands around it, as in the output of diff.
package growth
