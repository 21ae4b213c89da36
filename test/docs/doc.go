// Package docs tests the pages of this project: it runs their commands.
//
// The first word after a fence is the kind of the block:
//
//   - sh: commands, run by bash with set -e. All blocks of a page run in order in one
//     shell, in a new directory, with the programs in bin and on the PATH and the
//     project in csi-proxy, while csi-proxy-sim runs with the default node.
//   - sh needs:REASON, powershell: commands that this machine cannot run. They are
//     listed as skipped, with the reason.
//   - console: commands after "$ " and their output. They run in the same shell and
//     may fail. A line … stands for any number of lines.
//   - go: parsed, as a file or a part of one.
//   - yaml, json: parsed.
//   - text, diff: not checked.
//
// If a file name follows go, yaml or json, the block is also written to that file, for the commands
// of the page.
//
// Blocks of other kinds fail. So do links to missing files and headings, and
// default values of flags that differ from the program's help.
//
// Go files cite pages in comments: docs/develop/contract/disks.md#rescan. A citation of a
// missing page or heading fails, too. So does a directory, file or test in
// a code span that does not exist, and a message in docs/run/troubleshooting.md that no
// program returns.
//
// The command make only checks that the Makefile has the target, because the
// targets are stages of make test, which runs this test.
package docs
