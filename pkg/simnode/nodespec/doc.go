// Package nodespec describes simulated Windows nodes: the disks, volumes,
// services, SMB servers and iSCSI targets that a node has, how it behaves, what
// fails on it ([Fault]), and how it is at a moment ([State]).
//
// The types are the only description there is. The file of csi-proxy-sim's flag
// -node-config is a [Config] in YAML, package simnode has the same types under
// its own name, the service that controls a running node carries them as JSON,
// and csi-proxyctl node sets their fields by flags.
//
// The package imports the standard library only, so that a program that
// describes a node does not link one.
//
// # JSON and YAML
//
// Names of fields are those of the JSON tags. [Decode] refuses a field that it
// does not know, by name. Sizes and durations are texts such as "10GiB" and
// "150ms", portals texts such as "10.0.0.1:3260".
package nodespec
