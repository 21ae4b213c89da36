// Package files is the file namespace of the emulated node: what NtCreateFile and the functions
// over it do with the file trees of recognized volumes and of shares. It resolves names, follows
// links and mount points, opens files and directories with access rights and share modes, lists,
// renames and marks for deletion, and makes and removes mounted folders. The trees themselves,
// with the rules that need no path, are package filetree.
//
// It does not model contents, times, quotas, streams and hard links; and no access control but
// what a test sets: the caller is LocalSystem.
package files
