// Package iscsi is the emulated node's iSCSI initiator and the targets that it can reach: portals
// and targets with CHAP, sessions, persistent logins, and LUNs that are disks of the node while
// their target is connected.
//
// The initiator works only while the service MSiSCSI runs. What it knows of a
// portal's targets is what the portal reported when it was last registered or
// refreshed. A login attaches the target's LUNs as disks, after a delay. They
// keep their content from one login to the next. The logout detaches them; it is
// refused while one of them is open. Sessions outlive MSiSCSI, but not a restart
// of Windows (general knowledge; no source says what stopping the service does to
// sessions). A target has one session at a time, like Windows without multipath.
//
// Targets and the initiator store salted hashes of their CHAP secrets. The
// secrets for mutual CHAP must be comparable, because a target must know the
// initiator's secret, so these hashes have one salt per node.
//
// It does not model several sessions with one target, iSNS, IPsec and digests.
package iscsi
