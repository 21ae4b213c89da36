package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// destructive are the calls that destroy something, and what they do.
var destructive = map[string]string{
	"Format":                         "format",
	"WriteAt":                        "erase",
	"IOCTL_DISK_CREATE_DISK":         "partition",
	"IOCTL_DISK_SET_DRIVE_LAYOUT_EX": "partition",
	"IOCTL_DISK_GROW_PARTITION":      "grow",
	"FSCTL_EXTEND_VOLUME":            "grow",
	"IOCTL_DISK_SET_DISK_ATTRIBUTES": "offline",
	"FSCTL_LOCK_VOLUME":              "offline",
	"FSCTL_DISMOUNT_VOLUME":          "offline",
	"SetInformation":                 "remove",
	"FSCTL_DELETE_REPARSE_POINT":     "remove",
	"DeleteMountPoint":               "remove",
	"UseDel":                         "remove",
	"LogoutIScsiTarget":              "remove",
	"RemoveIScsiPersistentTarget":    "remove",
	"RemoveIScsiSendTargetPortal":    "remove",

	// The checks that all control codes have in common.
	"DeviceIoControl": "all control codes",
}

// A guard is a refusal on which CSI Proxy relies: without it, or if it meant something else,
// data would be lost.
type guard struct{ call, code, protects string }

var guards = [...]guard{
	{"VolumeInformation", "ERROR_UNRECOGNIZED_VOLUME", "FormatVolume formats after this error only, and after a look at the content"},
	{"Format", "ERROR_ACCESS_DENIED", "a volume that is in use is not formatted"},
	{"WriteAt", "ERROR_ACCESS_DENIED", "PartitionDisk does not erase the place of a volume that another program has made meanwhile"},
	{"WriteAt", "ERROR_DEVICE_NOT_CONNECTED", "a handle of a disk that was removed does not lead to another disk"},
	{"Format", "ERROR_NO_SUCH_DEVICE", "a volume that was removed is not replaced by another during a format"},
	{"IOCTL_DISK_GROW_PARTITION", "ERROR_INVALID_PARAMETER", "a partition does not grow over the next one"},
	{"FSCTL_LOCK_VOLUME", "ERROR_ACCESS_DENIED", "SetDiskState keeps a disk online while a mounted volume is in use"},
	{"SetInformation", "STATUS_DIRECTORY_NOT_EMPTY", "Rmdir without force keeps what is in a directory"},
	{"NtCreateFile", "STATUS_REPARSE_POINT_ENCOUNTERED", "a removal does not follow a link"},
	{"FSCTL_GET_REPARSE_POINT", "STATUS_NOT_A_REPARSE_POINT", "a removal empties only what it takes for no link after this error"},
	{"SetMountPoint", "ERROR_DIR_NOT_EMPTY", "MountVolume does not hide the content of a directory"},
	{"LogoutIScsiTarget", "ISDSC_DEVICE_BUSY_ON_SESSION", "a target is not disconnected while its disks are in use"},
}

// steps are refusals after which CSI Proxy goes on to a call that destroys something, and
// what keeps data safe if Windows refuses so for another reason.
var steps = [...]guard{
	{"FSCTL_LOCK_VOLUME", "ERROR_NOT_READY", "SetDiskState takes the disk offline without a lock; an offline volume has nothing in the cache"},
	{"DeviceIoControl", "ERROR_INVALID_FUNCTION", "SetDiskState takes the disk offline without a lock, after a flush; a volume without a file system knows no lock"},
	{"CreateFile", "ERROR_WRITE_PROTECT", "SetDiskState takes the disk offline without a flush; nothing was written to a volume that is read-only"},
	{"ReadAt", "ERROR_NOT_READY", "PartitionDisk takes a disk without partitions online, but read-only, and looks at its content again"},
	{"Format", "ERROR_SERVICE_DISABLED", "FormatVolume looks at the content again, and formats without WMI"},
	{"Format", "ERROR_NOT_READY", "FormatVolume looks at the content again, and formats; after a while without WMI"},
	{"Format", "ERROR_INVALID_PARAMETER", "FormatVolume looks at the content again, and formats; the second time without WMI"},
	{"IOCTL_DISK_GROW_PARTITION", "ERROR_DISK_FULL", "ResizeVolume reads the table again, writes it with the same entries and the new end if that is needed, and grows the partition once more, to the same length"},
	{"IOCTL_DISK_GROW_PARTITION", "ERROR_GEN_FAILURE", "the same"},
	{"IOCTL_DISK_GROW_PARTITION", "ERROR_IO_DEVICE", "the same"},
	{"DeleteMountPoint", "ERROR_FILE_NOT_FOUND", "UnmountVolume removes the mount point through its handle, if it is still of that volume and the volume does not exist"},
	{"DeleteMountPoint", "ERROR_INVALID_PARAMETER", "the same"},
	{"DeleteMountPoint", "ERROR_NOT_A_REPARSE_POINT", "the same"},
	{"NtCreateFile", "STATUS_LOGON_FAILURE", "a mapping is removed and made again, if the server accepts the credentials in a logon of its own"},
	{"UseAdd", "ERROR_SESSION_CREDENTIAL_CONFLICT", "mappings of other users that nothing uses are removed"},
	{"UseAdd", "ERROR_GEN_FAILURE", "the server is asked about the credentials and the share; then as for a conflict"},
}

// destroys returns what the calls destroy, "" for nothing.
func (a *answer) destroys() string {
	var what []string
	for _, c := range a.calls {
		if w := destructive[c]; w != "" {
			what = append(what, w)
		}
	}
	if slices.Contains(what, destructive["DeviceIoControl"]) {
		return destructive["DeviceIoControl"]
	}
	slices.Sort(what)
	return strings.Join(slices.Compact(what), ", ")
}

// partly reports whether a part of what has a source, such as the number of the error, is
// inference.
func (a *answer) partly() bool { return strings.Contains(a.text, "is inference") }

// checkGuards fails if nobody but inference says that a guard holds.
func checkGuards(as []answer) error {
	for _, g := range guards {
		if !slices.ContainsFunc(g.answers(as), func(a answer) bool { return a.kind != "inference" && a.kind != "node" }) {
			return fmt.Errorf("CSI Proxy relies on %s of %s, for which there is no source but inference", g.code, g.call)
		}
	}
	return nil
}

func (g guard) answers(as []answer) (found []answer) {
	for _, a := range as {
		if a.code == g.code && slices.Contains(a.calls, g.call) {
			found = append(found, a)
		}
	}
	return found
}

func kindOf(word string) kind {
	return kinds[slices.IndexFunc(kinds[:], func(k kind) bool { return k.word == word })]
}

func page(as []answer) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("| who says so | what that is | refusals | a part is inference | answers |\n|---|---|---|---|---|\n")
	refusals, inferences, ofDestructive := 0, 0, 0
	for _, k := range kinds {
		refuses, parts, answers := 0, 0, 0
		for _, a := range as {
			switch {
			case a.kind != k.word:
			case a.code == "":
				answers++
			default:
				refuses++
				if a.partly() {
					parts++
				}
				if k.word == "inference" {
					inferences++
					if a.destroys() != "" {
						ofDestructive++
					}
				}
			}
		}
		refusals += refuses
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", k.name, k.means, refuses, parts, answers)
	}
	fmt.Fprintf(&b, "\nOf %d refusals, %d are inference, %d of them in a call that destroys something.\n", refusals, inferences, ofDestructive)

	b.WriteString(relied)
	list(&b, "what it protects", guards[:], as)
	b.WriteString(goesOn)
	list(&b, "what CSI Proxy does then", steps[:], as)

	b.WriteString(asked)
	b.WriteString("| destroys | call | error | places | what is known |\n|---|---|---|---|---|\n")
	var open []answer
	for _, a := range as {
		if a.kind == "inference" && a.code != "" {
			open = append(open, a)
		}
	}
	all := rows(open)
	slices.SortStableFunc(all, func(x, y row) int {
		return cmp.Or(compareBool(y.destroys() != "", x.destroys() != ""), cmp.Compare(x.destroys(), y.destroys()))
	})
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s |\n", r.destroys(), r.callCell(), r.code, r.places, r.cell())
	}

	b.WriteString(options)
	b.WriteString("| option | value | what Windows does then | source |\n|---|---|---|---|\n")
	for _, o := range nodespec.Options() {
		for _, v := range o.Values {
			if strings.Contains(v.Source, "inference") {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", o.Key, v.Name, v.Does, v.Source)
			}
		}
	}

	b.WriteString("\n## By file\n\nFiles are those of `" + emulated + "`.\n")
	var files []string
	for _, a := range as {
		if !slices.Contains(files, a.file) {
			files = append(files, a.file)
		}
	}
	slices.Sort(files)
	for _, f := range files {
		var here []answer
		for _, a := range as {
			if a.file == f {
				here = append(here, a)
			}
		}
		fmt.Fprintf(&b, "\n### %s\n\n| call | error | who says so | source |\n|---|---|---|---|\n", f)
		for _, r := range rows(here) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.callCell(), r.code, kindOf(r.kind).name, r.cell())
		}
	}
	return b.String()
}

// list writes a table of refusals that matter to the host code.
func list(b *strings.Builder, what string, gs []guard, as []answer) {
	fmt.Fprintf(b, "| call | error | %s | who says so | source |\n|---|---|---|---|---|\n", what)
	for _, g := range gs {
		for i, r := range rows(g.answers(as)) {
			call, code, protects := g.call, g.code, g.protects
			if i > 0 {
				call, code, protects = "", "", ""
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", call, code, protects, kindOf(r.kind).name, r.cell())
		}
	}
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// A row is an answer that is returned at several places.
type row struct {
	answer
	places int
}

// rows joins answers that differ in their places only.
func rows(as []answer) (all []row) {
	for _, a := range as {
		i := slices.IndexFunc(all, func(r row) bool {
			return r.code == a.code && r.kind == a.kind && r.text == a.text && slices.Equal(r.calls, a.calls)
		})
		if i < 0 {
			all = append(all, row{a, 1})
			continue
		}
		all[i].places++
	}
	return all
}

func (r *row) cell() string { return strings.ReplaceAll(r.text, "|", `\|`) }

// callCell returns the first calls.
func (r *row) callCell() string {
	const most = 3
	if len(r.calls) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(r.calls[:most-1], ", "), len(r.calls)-most+1)
	}
	return strings.Join(r.calls, ", ")
}

const head = `<!-- Code generated by hack/sources. DO NOT EDIT. -->

# Who says so

A simulated node refuses and answers as Windows does, as far as that is known. This page
says for each refusal and each answer who says so. It is made of the comments beside the
code. ` + "`hack/sources`" + ` fails if the number of an error is returned without such a
comment. Nothing here was measured by us on Windows.

- A refusal is a place in the code that returns the number of an error. An answer is what
  a call returns when it succeeds; it has one source for all its details.
- Calls have the names that they have in ` + "`win32.API`" + `; control codes have their own.
- Where a document says that a call is refused but not with which number, or not in
  which of several cases, the source says which part is inference.
- Where the behavior of Windows differs or is not known, a simulated node has
  [an option](../simulated-node.md), with a source for each value.

`

const relied = `
These are the calls that format, partition, erase, grow, take offline or remove, with the
checks that all control codes have in common. CSI Proxy does not wait for them to refuse:
it asks for the identity, the layout and the content before, on the handle through which
it writes. If Windows refuses with another number than a simulated node, the operation
fails with another message. Two lists of exceptions follow. They are kept by hand, in
` + "`hack/sources/page.go`" + `.

## Refusals on which CSI Proxy relies

Without these, or if they meant something else, data would be lost. ` + "`hack/sources`" + ` fails
if one of them has no source but inference. Several rows of one call are several places in
the code.

`

const goesOn = `
## Refusals after which CSI Proxy goes on

After these, CSI Proxy goes on to a call that destroys something. Before it does, it checks
again what it is about to change, so that the number does not decide alone. SetDiskState
is the exception: if Windows returned such an error for a volume that has data in the
cache, that data would be lost.

`

const asked = `
## Inferences

What to ask a real Windows first. Those in a call that destroys something come first.

`

const options = `
### Options

These values of options are inference, or a part of them is. The host code works with all
values.

`
