package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// lifeOfVolume has a call of each operation, in an order in which each finds what it needs, and
// after | what the answer matches. $ID is the volume, and $C that of the drive C:.
const lifeOfVolume = `
disk ListDiskIDs | "1": \{
disk ListDisks | "1": \{
disk ListDiskLocations
disk Rescan
disk GetDiskStats disk_number=1 | "[1-9]
disk SetDiskState disk_number=1 is_online=false
disk SetDiskState disk_number=1 is_online=true
disk GetDiskState disk_number=1 | true
disk SetDiskReadOnly disk_number=1 is_read_only=true
disk SetDiskReadOnly disk_number=1 is_read_only=false
disk GetDiskReadOnly disk_number=1 | false
disk PartitionDisk disk_number=1
volume ListVolumesOnDisk disk_number=1 | Volume\{
volume IsVolumeFormatted volume_id=$C | true
volume FormatVolume volume_id=$ID filesystem=ntfs allocation_unit_bytes=65536
filesystem Mkdir path=$DIR\a\globalmount
filesystem PathExists path=$DIR\a\globalmount | true
volume MountVolume volume_id=$ID target_path=$DIR\a\globalmount
volume GetVolumeIDFromTargetPath target_path=$DIR\a\globalmount | $ID
volume GetClosestVolumeIDFromTargetPath target_path=$DIR | $C
volume GetPathKind path=$DIR\a\globalmount | "VOLUME"[^}]*$ID
volume GetPathKind path=$DIR\a | "DIRECTORY"
volume GetPathStats path=$DIR | "[1-9]
volume GetDiskNumberFromVolumeID volume_id=$ID | 1
volume GetVolumeStats volume_id=$C | "[1-9]
volume ResizeVolume volume_id=$ID
volume WriteVolumeCache volume_id=$ID
filesystem CreateSymlink source_path=$DIR\a\globalmount target_path=$DIR\link
filesystem IsSymlink path=$DIR\link | true
filesystem IsSymlink path=$DIR\a | false
volume UnmountVolume volume_id=$ID target_path=$DIR\a\globalmount
filesystem RmdirContents path=$DIR\a
filesystem Rmdir path=$DIR force=true
system GetBIOSSerialNumber
system GetService name=RpcSs
`

// operations returns the lines of the life of a volume.
func operations() []string { return strings.Split(strings.TrimSpace(lifeOfVolume), "\n") }

// call makes a call of the life of a volume, in the newest version of its group.
func (n *servedNode) call(ctx context.Context, line string) error {
	names := strings.NewReplacer("$ID", n.id, "$C", n.letter, "$DIR", matrixDir)
	words, want, _ := strings.Cut(line, " | ")
	args := strings.Fields(words)
	for i := range args {
		args[i] = names.Replace(args[i])
	}
	var out bytes.Buffer
	root := (&app{stdin: strings.NewReader(""), stdout: &out, stderr: io.Discard, connect: n.connect}).command()
	root.SetArgs(append([]string{"call", newestOf(args[0])}, args[1:]...))
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	answer := strings.ReplaceAll(out.String(), `\\`, `\`)
	want = strings.NewReplacer("$ID", regexp.QuoteMeta(n.id), "$C", regexp.QuoteMeta(n.letter)).Replace(want)
	if !regexp.MustCompile(want).MatchString(answer) {
		return fmt.Errorf("%s returned %s", words, answer)
	}
	if m := volumeName.FindString(answer); m != "" && args[1] == "ListVolumesOnDisk" {
		n.id = `\\?\` + m + `\`
	}
	return nil
}
