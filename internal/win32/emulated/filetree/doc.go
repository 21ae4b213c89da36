// Package filetree is the namespace of one emulated NTFS volume, as metadata: its
// entries, their names, their links, and their open handles. Files have a size
// but no contents.
//
// # What is stored
//
// A [Record] is all that is stored of an entry. Every mutation passes the changed
// records to a [Changes], and [Load] makes an equal tree of them. Opens, share
// modes and pending deletions exist in memory only: they end with the node, as on
// Windows they end with the power. A program that keeps a node after the process
// with the handles has ended completes its deletions with [Tree.Remove].
//
// # Names
//
// Names compare case-insensitively and are stored as given. Case folding is
// simple: each UTF-16 unit is replaced by its Unicode upper-case unit, if there
// is one. The $UpCase table of a real volume differs for a few letters that no
// driver uses in a path; in both, no letter beyond ASCII folds to ASCII. A name
// here is one that the file system accepts ([CheckName]): trailing dots and
// blanks are legal, and so is "CON". The Win32 layer above strips the former and
// reserves the latter.
//
// # Sources
//
// Errors are those of [MS-FSA] (cited where they apply), [MS-FSCC] and the pages
// of the ntifs.h functions. Code that follows general knowledge of Windows says
// so. Nothing here has been compared with a run on Windows.
//
// A Tree is not safe for concurrent use: the emulated node makes its calls one
// after the other.
package filetree
