// Package script calls our daemon as the folder calls says, through whatever
// client it is given.
//
// The clients that were published, v1.0.1 and v1.3.0, have one API each and
// cannot be linked into one program, so there is a module for each of them
// under test/published. What they call and what they must be answered is the
// same and stands here, once, as text. The modules bring their generated
// clients, and this package finds methods and fields in them by reflection.
//
// # The text
//
// A file per API group. A section begins with the versions it is for and a
// title; it is run for each of these versions that the module has, on a fresh
// simulated node (node.yaml) under a daemon of its own.
//
//	=== disk/v1alpha1 disk/v1beta1: a disk that is no number
//	PartitionDisk {"diskID": "abc"}
//	  ! InvalidArgument Failed to convert $version.PartitionDiskRequest.DiskID to uint32: …
//	$ node attach --size 1GiB
//	volume/v1 ListVolumesOnDisk {"disk_number": 1}
//	  {"volume_ids": ["?volume"]}
//
// A line is a comment (#), a command of csi-proxyctl ($) or a call: the method,
// of the section's API if no other is named, and the request as JSON with the
// names of the .proto file. Below a call stands, indented, either the whole
// answer, every field of it, or "!" with the gRPC code and the text of the
// error. A backslash in JSON is a backslash.
//
// In an answer "?name" takes any text that is not empty and remembers it as
// $name, "5..9" takes a number from 5 to 9, and "*" takes any value but the zero of
// its type. In an error … takes any text. $version is the version of the
// section, $long a path of 261 bytes, $NUL a character that no path may hold.
//
// # What is checked beside the answers
//
// Every version that the published module has must be in the list of its test.
// Every method of it must have been called and have answered. A method that a
// version lacks, and others of its group have, answers Unimplemented. After
// each section the node has no open handle.
package script
