// Package docs has no code. Its tests do what the pages of this project tell a
// reader to do.
//
// What a block of a page is, its fence says:
//
//   - sh: commands, run by bash with set -e. All blocks of a page run one after the
//     other in one shell, in a directory of their own with the programs in bin
//     and on the PATH, while csi-proxy-sim with the default node runs.
//   - sh needs:REASON, powershell: commands that need what this machine is not. They
//     are listed as skipped, with the reason.
//   - console: commands after "$ ", run in the same shell whatever they answer, and
//     what they print. A line … stands for any lines.
//   - go: parsed, as a file or a part of one.
//   - yaml, json: parsed. With a name after it the block is also written to that
//     file, for the commands after it.
//   - text, diff: what is not for machines.
//
// A block of another kind fails. So does a link to a file or heading that is not
// there, and a default that the help of the program does not have.
//
// Go files cite pages in comments: docs/contract/disks.md#rescan. A citation of a
// page or heading that is not in the repository fails, too.
//
// A make in those blocks only looks whether the Makefile has the target: they
// are run as stages of make test, and make test is what runs this.
package docs
