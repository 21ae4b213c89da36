// Package filetree is the namespace of one emulated NTFS volume as metadata:
// which entries there are, what they are called, what they link to, and who has
// them open. Files have a size and no contents.
//
// # What is stored and what is not
//
// A [Record] is all there is of an entry; every mutation hands the changed
// records to a [Changes], and [Load] makes an equal tree of them. Opens, share
// modes and pending deletions live in memory only: they end with the node, as
// on Windows they end with the power. Who keeps a node beyond the process that
// had the handles finishes its deletions with [Tree.Remove].
//
// # Names
//
// Names compare case-insensitively and are kept as they were given. Folding is
// simple: each UTF-16 unit becomes its Unicode upper-case unit where there is
// one. The $UpCase table of a real volume differs for a few letters that no
// driver puts into a path; like it, no letter beyond ASCII folds into ASCII.
// A name here is what the file system takes ([CheckName]): trailing dots and
// blanks are legal, and so is "CON". It is the Win32 layer above that strips
// the former and reserves the latter.
//
// # Sources
//
// Refusals are those of [MS-FSA] (sections are named where they apply),
// [MS-FSCC] and the pages of the ntifs.h functions. Where the code follows
// general knowledge of Windows instead, it says so. Nothing here was compared
// with a run on Windows.
//
// A Tree is not safe for concurrent use: the emulated node makes its calls one
// after another.
package filetree
