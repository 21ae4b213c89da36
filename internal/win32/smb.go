package win32

// SMB are the global mappings of the node's SMB client (NetUseAdd, NetUseEnum
// and NetUseDel with USE_FLAG_GLOBAL_MAPPING): a share that is mapped here is
// open to every account of the node, with the credentials of the mapping.
//
// The flag is in Microsoft's lmuse.h and on no page of Microsoft's. Nothing here
// was ever run on Windows.
type SMB interface {
	// UseAdd maps a share. It answers when the server has accepted or refused.
	UseAdd(u NewUse) error
	// UseEnum lists the global mappings.
	UseEnum() ([]Use, error)
	// UseDel removes the global mapping of a share. force is one of USE_NOFORCE,
	// USE_FORCE and USE_LOTS_OF_FORCE, which closes what is open on the share.
	// ERROR_NOT_CONNECTED says that there is no such mapping.
	UseDel(remote string, force uint32) error
}

// NewUse is a mapping to be made (USE_INFO_3).
type NewUse struct {
	Remote string // `\\server\share`, no backslash behind
	// User, Domain and Password are the credentials. Without a User the node
	// connects with its own account.
	User, Domain string
	Password     Secret
	Flags        uint32 // REQUIRE_CONNECTION_…
}

// Use is a global mapping (USE_INFO_2).
type Use struct {
	Remote       string
	User, Domain string // whose credentials it has; empty if Windows does not tell
	Status       uint32 // USE_OK …
}

// Levels and flags of the NetUse functions (lmuse.h, lmuseflg.h).
const (
	USE_FLAG_GLOBAL_MAPPING = 0x10000 // beside the level

	// NewUse.Flags.
	REQUIRE_CONNECTION_INTEGRITY = 0x08 // signing
	REQUIRE_CONNECTION_PRIVACY   = 0x10 // encryption, which needs SMB 3

	USE_NOFORCE       = 0
	USE_FORCE         = 1
	USE_LOTS_OF_FORCE = 2

	// Use.Status.
	USE_OK      = 0
	USE_PAUSED  = 1
	USE_DISCONN = 2
	USE_NETERR  = 3
	USE_CONN    = 4 // connecting
	USE_RECONN  = 5 // reconnecting
)
