// Package nodespec has the types that describe simulated Windows nodes: the disks,
// volumes, services, SMB servers and iSCSI targets of a node and its behavior ([Config]),
// faults ([Fault]), and its current state ([State]).
//
// These types are the only description of a node. The file of csi-proxy-sim's flag
// -node-config is a [Config] in YAML. Package simnode has aliases of the types. The
// service that controls a running node sends them as JSON, and csi-proxyctl node takes
// their fields by these names.
//
// The package imports only the standard library, so that a program that describes a node
// does not link the simulator.
//
// # JSON and YAML
//
// The names of fields are those of the JSON tags. [Decode] refuses unknown fields. Sizes
// and durations are strings such as "10GiB" and "150ms", and portals are strings such as
// "10.0.0.1:3260".
package nodespec
