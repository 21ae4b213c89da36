// Package growth tests that the steps in docs/develop/adding-a-version.md are sufficient to
// extend the API. The test follows the page on a copy of the project: it applies the
// page's blocks, runs the generator, and runs the tests that guard the API. Then it
// uses the new method and the new fields through pipes.
//
// The test applies two kinds of blocks:
//
//   - go FILE: the content of a new file.
//   - diff: a change of one file. The first two lines, --- and +++, name the file
//     before and after the change. If the names differ, the new file is a changed copy
//     of the old one. Each change begins with @@. Lines without a sign are context, as
//     in the output of diff.
package growth
