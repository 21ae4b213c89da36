// Package script makes the calls in the folder calls to the daemon, through the
// client that it is given, and checks the responses.
//
// The published clients v1.0.1 and v1.3.0 have the same package paths and cannot be
// linked into one program, so each has a module under test/published. The calls and
// the expected responses are the same for both and are written here once, as text.
// The modules provide their generated clients, and this package finds methods and
// fields in them by reflection.
//
// # The text
//
// There is one file for each API group. A section begins with its API versions and
// a title. It runs for each of these versions that the module has, with a new daemon
// and a new simulated node (node.yaml).
//
//	=== disk/v1alpha1 disk/v1beta1: invalid disk numbers are refused
//	PartitionDisk {"diskID": "abc"}
//	  ! InvalidArgument Failed to convert $version.PartitionDiskRequest.DiskID to uint32: …
//	$ node AttachDisk size=1GiB
//	volume/v1 ListVolumesOnDisk {"disk_number": 1}
//	  {"volume_ids": ["?volume"]}
//
// A line is a comment (#), a command of csi-proxyctl or sleep ($) or a call: a method, by
// default of the section's API, and the request as JSON with the field names of the
// .proto file. The indented line below a call is the expected result: the response
// with all its fields, or "!" with the gRPC code and the text of the error. A
// backslash in JSON is not an escape character.
//
// In a response, "?name" matches any text that is not empty and stores it in $name,
// "5..9" matches a number from 5 to 9, and "*" matches any value but zero. In an
// error, … matches any text. $version is the version of the section, $long is a path
// of 261 bytes, and $NUL is a character that no path may contain.
//
// # What else is checked
//
// The list of versions in each test must be that of the published module. Each
// method of each version must have been called with success. A method that other
// versions of the group have and this one lacks must return Unimplemented. After
// each section the node must have no open handle.
package script
