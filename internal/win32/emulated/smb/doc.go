// Package smb is the emulated node's SMB client and the servers that it can reach: servers with
// shares, accounts and passwords, which can go down and come back; global mappings with their
// statuses. The files of a share are a file tree of package volume, which can be opened while a
// mapping lets the node reach it.
//
// # Mappings and sessions
//
// A mapping has the status that NetUseEnum reports. From UseAdd on it is OK, as
// long as its session lasts. A session ends when its server goes down. When the
// server is back, the session starts again with the credentials that the client
// keeps in memory, if the server still accepts them. By default, a restart of
// Windows keeps the mappings but loses the credentials: such mappings stay
// disconnected until they are created again. The node does not store credentials:
// a mapping stores how many times the password of its account had been set.
//
// The status is what Windows reports, not what an access finds: it can be behind, above all
// while Windows connects, and an access with the node's own account, which a server of the
// node's domain and one for guests accept, succeeds whatever the status is.
//
// A change of the password on the server does not end sessions ([MS-SMB2]: a
// session is authenticated once), so the mapping stays OK until the server goes
// down for the first time.
//
// # One user per server
//
// Windows refuses a second user for one server (error 1219), whatever the status
// of the first user's mappings, and so does the node. Mapping the same share
// again succeeds for the same user while its session lasts. Otherwise the error
// is 1219 (general knowledge, from reports of users after a restart).
//
// It does not model DFS, links on shares, mappings that are not global, and the limit on mappings.
package smb
